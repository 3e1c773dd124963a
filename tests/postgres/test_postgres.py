"""Tables and joins of a database's log hold what the database held, at every position that was looked at."""

import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch, ForeignKeyJoin, SumTable
from beam_joins.columns.sorting import combine_chunks, ends, integers, ordered
from beam_joins.io import ReadChangeEvents
from beam_joins.keys.key_columns import factorize
from tests.postgres.workload import CONTENT, Seen, Shop

TRANSACTIONS = int(os.environ.get("BEAM_JOINS_TRANSACTIONS", "5000"))
LOOKS = 20
SEED = 20261122
SCHEMAS = {
    "orders": pa.schema(
        [("id", pa.int64()), ("customer_id", pa.int64()), ("product_id", pa.int64()), ("amount", pa.decimal128(12, 2))]
    ),
    "customers": pa.schema([("id", pa.int64()), ("name", pa.string()), ("region_id", pa.int64())]),
    "products": pa.schema([("id", pa.int64()), ("title", pa.string()), ("price", pa.decimal128(10, 2))]),
    "regions": pa.schema([("id", pa.int64()), ("region", pa.string())]),
}
BOTH = {"order": "left.id", "amount": "left.amount", "customer": "right.id", "name": "right.name"}
LEFT = {"order": "left.id", "amount": "left.amount"}


class Log:
    """What was seen of the database, and its log in the two formats of wal2json."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.seen: list[Seen] = shop.transact(TRANSACTIONS, looks=LOOKS)
        common = ("include-lsn", "1", "include-timestamp", "1", "include-pk", "1")
        self.paths = {}
        for version, slot in (("1", "one"), ("2", "two")):
            path = folder / f"log-{version}.jsonl"
            path.write_text("".join(f"{line}\n" for line in shop.log(slot, "format-version", version, *common)))
            self.paths[version] = str(path)


@pytest.fixture(scope="module")
def log(postgres: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield Log(Shop(postgres, seed=SEED), Path(folder))


def tables_of(pipeline: beam.Pipeline, path: str, key: str | None) -> dict[str, PCollection[Any]]:
    return {
        name: pipeline | f"read {name}" >> ReadChangeEvents(path, format="wal2json", table=f"public.{name}", key=key, schema=schema)
        for name, schema in SCHEMAS.items()
    }


def results_of(tables: dict[str, PCollection[Any]]) -> dict[str, PCollection[Any]]:
    """The tables that CONTENT names."""
    orders, customers = tables["orders"], tables["customers"]
    results = {}
    for how in ("inner", "left", "right", "outer", "semi", "anti"):
        joiner = LEFT if how in ("semi", "anti") else BOTH
        results[how] = (orders, customers) | how >> ForeignKeyJoin(joiner, foreign_key="customer_id", how=how)
    placed = {
        "order": "left.id",
        "amount": "left.amount",
        "product": "left.product_id",
        "name": "right.name",
        "region": "right.region_id",
    }
    one = (orders, customers) | "chain 1" >> ForeignKeyJoin(placed, foreign_key="customer_id")
    in_region = {**{name: f"left.{name}" for name in ("order", "amount", "product", "name")}, "region": "right.region"}
    two = (one, tables["regions"]) | "chain 2" >> ForeignKeyJoin(in_region, foreign_key="region")
    whole = {
        **{name: f"left.{name}" for name in ("order", "amount", "name", "region")},
        "title": "right.title",
        "price": "right.price",
    }
    results["chain"] = (two, tables["products"]) | "chain 3" >> ForeignKeyJoin(whole, foreign_key="product", how="left")
    results["sums"] = orders | "sums" >> SumTable(group_by="customer_id", of="amount")
    return results


def write(batch: ChangeBatch, folder: str, name: str) -> None:
    """Add the changes of a batch to a folder."""
    key = batch.key.storage if isinstance(batch.key, pa.ExtensionArray) else batch.key
    table = pa.table({"key": key, "value": batch.new, "position": batch.position})
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{name}-", suffix=".parquet", delete=False) as file:
        pq.write_table(table, file)


def changes_in(folder: Path, name: str) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, folder.glob(f"{name}-*.parquet"))).combine_chunks()


def content(changes: pa.Table, position: int) -> Counter[Any]:
    """The values that a table has at a position."""
    (code,) = factorize(combine_chunks(changes["key"]))
    at = integers(changes["position"])
    by = ordered(code, at)
    by = by[at[by] <= position]
    last = changes["value"].take(pa.array(by[ends(code[by])])).drop_null().to_pylist()
    return Counter(tuple(value.values()) if isinstance(value, dict) else value for value in last)


def run(path: str, out: Path, *options: str, key: str | None = None) -> None:
    """Write the changes of all results into a folder."""
    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner", *options])) as pipeline:
        for name, table in results_of(tables_of(pipeline, path, key)).items():
            _ = table | f"write {name}" >> beam.Map(write, str(out), name)


def differences(seen: list[Seen], folder: Path) -> list[tuple[str, int]]:
    """The results and positions at which the changes in a folder do not hold what the database held."""
    actual = []
    for name in CONTENT:
        changes = changes_in(folder, name)
        assert len(np.unique(integers(changes["position"]))) > TRANSACTIONS // 4
        for each in seen:
            if name == "sums":  # a group that had a row keeps its sum when the last one has left
                held: Any = dict(each.rows[name])
                ours: Any = {group: total for group, total in sums_at(changes, each.position).items() if total or group in held}
            else:
                held, ours = Counter(each.rows[name]), content(changes, each.position)
            if ours != held:
                actual.append((name, each.position))
    return actual


def test_the_joins_of_a_database_s_log_hold_what_it_held_at_every_position_that_was_looked_at(log: Log, tmp_path: Path) -> None:
    run(log.paths["2"], tmp_path)
    assert len(log.seen) == LOOKS + 1
    assert differences(log.seen, tmp_path) == []


def test_they_do_so_in_runs_that_go_on_too_cut_at_any_commits(log: Log, tmp_path: Path) -> None:
    lines = Path(log.paths["2"]).read_text().splitlines(keepends=True)
    commits = [n + 1 for n, line in enumerate(lines) if line.startswith('{"action":"C"')]
    cuts = sorted(random.Random(SEED).sample(commits, 2))
    out = tmp_path / "out"
    out.mkdir()
    for start, stop in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        part = tmp_path / f"part-{start}.jsonl"
        part.write_text("".join(lines[start:stop]))
        run(str(part), out, f"--beam_joins_state={tmp_path / 'state'}", key="id")  # a part may have no change of a table
    assert differences(log.seen, out) == []


def sums_at(changes: pa.Table, position: int) -> dict[int, Any]:
    (code,) = factorize(combine_chunks(changes["key"]))
    at = integers(changes["position"])
    by = ordered(code, at)
    by = by[at[by] <= position]
    last = pa.array(by[ends(code[by])])
    return dict(zip(changes["key"].take(last).to_pylist(), changes["value"].take(last).to_pylist(), strict=True))


def test_both_formats_of_wal2json_give_the_same_tables(log: Log, tmp_path: Path) -> None:
    actual = []
    for version, path in log.paths.items():
        folder = tmp_path / version
        folder.mkdir()
        with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
            orders = pipeline | ReadChangeEvents(path, format="wal2json", table="orders", schema=SCHEMAS["orders"])
            _ = orders | beam.Map(write, str(folder), "orders")
        actual.append(changes_in(folder, "orders").sort_by([("key", "ascending"), ("position", "ascending")]))
    assert actual[0].equals(actual[1])
