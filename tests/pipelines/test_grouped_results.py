"""--group-by and --aggregate: the groups of a table or a join, in files and in tables that are merged into."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.join_run import BY, LEFT, refused
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, numbers, read_lines, write

AGGREGATES = "count() as orders, count(n) as numbers, sum(n) as total, min(n) as low, max(n) as high, count_distinct(n) as kinds"
ANSWER: dict[str, Callable[[Sequence[int]], Any]] = {
    "numbers": len,
    "total": lambda numbers: sum(numbers) if numbers else None,
    "low": lambda numbers: min(numbers, default=None),
    "high": lambda numbers: max(numbers, default=None),
    "kinds": lambda numbers: len({*numbers}),
}
TABLE = ["table", "--input", "in", "--state-dir", "state", "--schema-overrides", "n:int64"]


def history(seed: int) -> list[Row]:
    """Records of few rows, which come, move to other groups and leave, some of them in the order in which they were undone."""
    chance, there = random.Random(seed), dict[int, Row]()
    records = list[Row]()
    for lsn in range(1, 61):
        id_ = chance.choice([*there] or [1]) if chance.random() < 0.6 else chance.randrange(1, 9)
        operation = "d" if id_ in there and chance.random() < 0.4 else "u" if id_ in there else "c"
        row = {"id": id_, "by": chance.choice(["a", "b", "c", None]), "n": chance.choice([1, 2, 2, 7, None])}
        there = {key: each for key, each in there.items() if key != id_} | ({} if operation == "d" else {id_: row})
        records.append({**row, "op": operation, "lsn": lsn, "updated_at": lsn})
    return records


def groups(records: Sequence[Row], by: str | None, *, empty: str = "drop", null: str = "drop") -> list[Row]:
    """The rows that the groups of a table have in the end, by recomputation."""
    rows = dict[int, Row]()
    members = defaultdict[Any, list[Row]](list) if by else {None: list[Row]()}
    for record in records:
        rows.pop(record["id"], None)
        if record["op"] != "d":
            rows[record["id"]] = record
            if empty == "keep" and by:
                _ = members[record[by]]
    for row in rows.values():
        members[row[by] if by else None].append(row)
    if by and null == "drop":
        members.pop(None, None)
    made = list[Row]()
    for group, of_group in members.items():
        values = [row["n"] for row in of_group if row["n"] is not None]
        aggregates = {"orders": len(of_group), **{name: answer(values) for name, answer in ANSWER.items()}}
        made.append({by: group, **aggregates} if by else aggregates)
    return made


def in_any_order(rows: Sequence[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def followed(paths: Sequence[Path]) -> list[Row]:
    """The rows to which changes in files lead; each change has the row before it."""
    rows = dict[str, Row]()
    for change in (each for path in sorted(paths) for each in read_lines(path)):
        key = json.dumps(change["key"])
        assert rows.pop(key, None) == change["old"], change
        if change["new"] is not None:
            rows[key] = change["new"]
    return [*rows.values()]


@pytest.mark.parametrize(
    ("seed", "by", "options"),
    [
        (1, "by", {}),
        (2, "by", {"empty": "keep"}),
        (3, "by", {"null": "keep"}),
        (4, "by", {"empty": "keep", "null": "keep"}),
        (5, None, {}),
    ],
)
def test_after_each_run_the_groups_are_those_of_all_records_so_far(
    beam_joins: Run, seed: int, by: str | None, options: dict[str, str]
) -> None:
    records = history(seed)
    Path("in").mkdir()
    grouped = [*TABLE, "--aggregate", AGGREGATES, *(["--group-by", by] if by else [])]
    for name, value in options.items():
        grouped.append(f"--{name}-groups={value}")
    for number, (first, last) in enumerate([(0, 1), (1, 30), (30, 31), (31, 60)], 1):
        write(f"in/{number}.jsonl", *records[first:last])
        ran = beam_joins(*grouped, "--changes", "out", "--latest", "now.jsonl")
        assert ran.code == 0, ran.err
        expected = in_any_order(groups(records[:last], by, **options))
        assert in_any_order(read_lines(Path("now.jsonl"))) == expected
        assert in_any_order(followed([*Path("out").iterdir()])) == expected
    write("all.jsonl", *records)
    alone = beam_joins(*["table", "--input", "all.jsonl", *grouped[TABLE.index("--schema-overrides") :]], "--latest", "once.jsonl")
    assert (alone.code, in_any_order(read_lines(Path("once.jsonl")))) == (0, expected), alone.err


def test_rows_whose_group_is_null_are_counted_for_people_and_programs(beam_joins: Run) -> None:
    records = history(1)
    write("all.jsonl", *records)
    grouped = ["table", "--input", "all.jsonl", "--group-by", "by", "--aggregate", "count() as rows", "--latest", "now.jsonl"]
    ran = beam_joins(*grouped, "--json", "run.json", "--metrics-file", "run.prom")
    lost = sum(record["by"] is None and record["op"] != "d" for record in records)
    assert numbers(ran.out)["dropped", "groups", "null_group"] == lost > 0, ran
    summary = json.loads(Path("run.json").read_text())
    assert (summary["dropped_by_groups_records"], summary["inputs"]["input"]["dropped_records"]) == ({"null_group": lost}, {})
    (counted,) = (line for line in Path("run.prom").read_text().splitlines() if "null_group" in line)
    assert 'input="input"' in counted
    assert 'stage="groups"' in counted
    assert float(counted.rpartition(" ")[2]) == lost


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "avro"])
def test_typed_files_have_the_groups_as_columns_of_their_types(beam_joins: Run, suffix: str) -> None:
    rows = [each for each in history(7) if each["op"] != "d"]
    types = {"id": pa.int64(), "by": pa.string(), "n": pa.int32(), "lsn": pa.int64(), "updated_at": pa.int64()}
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([*types.items()])), "r.parquet")
    aggregates = "count() as orders, max(n) as high, mean(n) as mean"
    grouped = ["--group-by", "by", "--aggregate", aggregates, "--latest", f"now.{suffix}"]
    ran = beam_joins("table", "--input", "r.parquet", "--apply-as-deletes=", *grouped)
    assert ran.code == 0, ran.err
    unordered = ["--sequence-by=", "--timestamp-by=", "--apply-as-deletes="]
    assert beam_joins("table", "--input", f"now.{suffix}", "--key", "by", *unordered, "--latest", "again.parquet").code == 0
    actual = pq.read_table("again.parquet")
    assert (actual.schema.field("orders").type, actual.schema.field("mean").type) == (pa.int64(), pa.float64())
    means = {row["by"]: row["total"] and row["total"] / row["numbers"] for row in groups(rows, "by")}
    expected = [{**{name: row[name] for name in ("by", "orders", "high")}, "mean": means[row["by"]]} for row in groups(rows, "by")]
    assert in_any_order(actual.to_pylist()) == in_any_order(expected)


def test_a_join_is_grouped_by_columns_of_either_side(beam_joins: Run) -> None:
    select = ["--select", "left.id as nr, left.n, right.name as who", "--how", "left"]
    ran = beam_joins(
        "join", *BY, *select, "--group-by", "who", "--aggregate", "count(nr) as orders", "--null-groups=keep", "--output", "e.jsonl"
    )
    assert ran.code == 0, ran.err
    rows = [{"who": None, "orders": 2}, {"who": "Bob", "orders": 1}]
    assert in_any_order(followed([Path("e.jsonl")])) == in_any_order(rows)


def test_a_table_that_is_merged_into_has_the_groups_and_loses_those_that_leave(beam_joins: Run) -> None:
    records = history(8)
    Path("in").mkdir()
    for number, (first, last) in enumerate([(0, 20), (20, 40), (40, 60)], 1):
        write(f"in/{number}.jsonl", *records[first:last])
        ran = beam_joins(*TABLE, "--group-by", "by,n", "--aggregate", "count() as rows", "--to", "delta:lake")
        assert ran.code == 0, ran.err
        of_two = [{**each, "by": (each["by"], each["n"]) if None not in (each["by"], each["n"]) else None} for each in records[:last]]
        expected = [{"by": by, "n": n, "rows": each["orders"]} for each in groups(of_two, "by") for by, n in [each["by"]]]
        assert in_any_order(deltalake.DeltaTable("lake").to_pyarrow_table().to_pylist()) == in_any_order(expected)


def test_other_aggregates_over_an_earlier_state_make_the_result_anew_where_that_is_allowed(beam_joins: Run) -> None:
    records = history(9)
    Path("in").mkdir()
    write("in/1.jsonl", *records)
    ends = ["--changes", "out", "--latest", "now.jsonl"]
    assert beam_joins(*TABLE, *ends).code == 0  # the rows themselves
    grouped = [*TABLE, *ends, "--group-by", "by", "--aggregate", AGGREGATES]
    assert refused(beam_joins(*grouped)).endswith("or --beam_joins_changed=rebuild, which makes the result anew")
    ran = beam_joins(*grouped, "--beam_joins_changed=rebuild")
    assert (ran.code, in_any_order(read_lines(Path("now.jsonl")))) == (0, in_any_order(groups(records, "by"))), ran.err
    assert json.loads(Path("out/changes-000002.jsonl").read_text().splitlines()[0])["op"] == "truncate"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--group-by", "by"], "--group-by is of groups with aggregates: give --aggregate too, as in --aggregate 'count() as rows'"),
        (["--aggregate", "sum(n)"], "--aggregate: 'sum(n)' is no function of a column with a name: write sum(amount) as total"),
        (["--aggregate", ","], "--aggregate names no column: write sum(amount) as total"),
        (
            ["--aggregate", "avg(n) as m"],
            "--aggregate: 'avg' is no aggregate: choose one of count, sum, min, max, mean, count_distinct",
        ),
        (["--aggregate", "sum() as m"], "--aggregate: sum() is of values: name their column, as in sum('amount')"),
        (["--aggregate", "sum(m) as m"], "--aggregate: the rows have no column 'm': they have id, by, n, updated_at, mixed"),
        (
            ["--aggregate", "count() as n, count() as n"],
            "--aggregate: two columns are called 'n': give them different names",
        ),
        (
            ["--aggregate", "count() as by", "--group-by", "by"],
            "--group-by and --aggregate: two columns are called 'by': give them different names",
        ),
        (
            ["--aggregate", "sum(by) as m"],
            "--aggregate: m: values of type string cannot be added: give a column of numbers; 'by' is text: if it has numbers, say "
            "its type, as in --schema-overrides 'by:double'",
        ),
        (
            ["--aggregate", "max(mixed) as m"],
            "--aggregate: the numbers in 'mixed' are of no one type and are kept as texts: say its type, as in --schema-overrides "
            "'mixed:decimal(18,2)'",
        ),
        (["--aggregate", "count() as m", "--null-groups=keep"], "--null-groups is of groups: give --group-by too"),
        (
            ["--aggregate", "count() as m", "--group-by", "who"],
            "--group-by: the rows have no column 'who': they have id, by, n, updated_at, mixed",
        ),
    ],
)
def test_wrong_groups_are_one_sentence(beam_joins: Run, options: list[str], sentence: str) -> None:
    write("l.jsonl", *({**row, "mixed": mixed} for row, mixed in zip(LEFT, (1, 2.5, "x", None), strict=True)))
    assert refused(beam_joins("table", "--input", "l.jsonl", "--latest", "now.jsonl", *options)) == sentence


@pytest.mark.parametrize("options", [[], ["--group-by", "by", "--null-groups=keep"]])
def test_groups_without_a_key_of_a_table_are_not_merged_into_one(beam_joins: Run, options: list[str]) -> None:
    ran = beam_joins("table", "--input", "l.jsonl", "--to", "delta:lake", "--aggregate", "count() as rows", *options)
    assert refused(ran).startswith("--to: a table needs a key, and ")


def test_a_dry_run_names_the_groups_and_their_columns(beam_joins: Run) -> None:
    grouped = ["--group-by", "by", "--aggregate", "sum(n) as total"]
    ran = beam_joins("table", "--input", "l.jsonl", "--latest", "now.jsonl", *grouped, "--dry-run")
    assert [line for line in ran.out.splitlines() if line.startswith(("  rows of", "  Aggregate"))] == [
        "  rows of      by, total",
        "  AggregateTable(sum('n') by by)",
    ]
