"""ForeignKeyJoin with a right table that is copied to every worker: the same changes, without a shuffle for
the join.
"""

from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import (
    Change,
    ChangeBatch,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    TableFromChangelog,
    TableToChanges,
    vectorized,
)
from beam_joins.io import ReadParquet
from beam_joins.transforms.engine.blocks import block_files
from beam_joins.transforms.engine.blocks.block_files import Reference, reference_of
from beam_joins.transforms.engine.stages import batch_references
from beam_joins.transforms.engine.stages.incoming_tables import BATCH
from tests.examples import examples

KEYS = st.integers(0, 3)
ORDERS = st.lists(
    st.fixed_dictionaries(
        {"id": KEYS, "by": st.none() | KEYS, "amount": st.integers(0, 2), "gone": st.booleans(), "at": st.integers(0, 5)}
    ),
    max_size=20,
)
CUSTOMERS = st.lists(
    st.fixed_dictionaries({"id": KEYS, "name": st.sampled_from("ab"), "gone": st.booleans(), "at": st.integers(0, 5)}), max_size=10
)
TYPES = {"id": pa.int64(), "by": pa.int64(), "amount": pa.int64(), "name": pa.string(), "gone": pa.bool_(), "at": pa.int64()}
CDC = {"key": "id", "timestamp_by": "at", "sequence_by": "seq", "apply_as_deletes": "gone", "except_columns": ["gone", "seq"]}


def columns(rows, names):
    """Rows with their place as sequence, as an Arrow table."""
    schema = pa.schema([*((name, TYPES[name]) for name in names), ("seq", pa.int64())])
    return pa.Table.from_pylist([{**row, "seq": n} for n, row in enumerate(rows)], schema=schema)


ORDER_COLUMNS, CUSTOMER_COLUMNS = ["id", "by", "amount", "gone", "at"], ["id", "name", "gone", "at"]


def joined_by(order, customer):
    return None if customer == {"name": "b"} else f"{order['amount']} {customer and customer['name']}"


@pytest.mark.slow
@examples(15)
@given(ORDERS, CUSTOMERS, st.sampled_from(["inner", "left", "semi", "anti"]), st.booleans(), st.booleans())
def test_the_changes_are_those_of_a_shuffled_join(orders, customers, how, typed, filtered):
    def alike(changes):
        shuffled, broadcast = (Counter(repr(change) for of, change in changes if of is way) for way in (False, True))
        assert shuffled == broadcast

    results = []
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_partitions=3"])) as p:
        given = columns(orders, ORDER_COLUMNS), columns(customers, CUSTOMER_COLUMNS)
        if typed:
            sources = [p | f"batch {n}" >> beam.Create([table]) for n, table in enumerate(given)]
        else:
            sources = [p | f"rows {n}" >> beam.Create(table.to_pylist()) for n, table in enumerate(given)]
        left, right = (source | f"table {n}" >> TableFromChangelog(**CDC) for n, source in enumerate(sources))
        if filtered:  # a deleted row may be one whose value no longer passes
            left = left | FilterTable(lambda key, order: order["amount"] > 0)
        for broadcast in (False, True):
            joiner = joined_by if how in ("inner", "left") else lambda order: order["amount"] or None
            join = ForeignKeyJoin(joiner, foreign_key="by", how=how, broadcast=broadcast)
            changes = (left, right) | f"join {broadcast}" >> join | f"changes {broadcast}" >> TableToChanges()
            results.append(changes | f"way {broadcast}" >> beam.Map(lambda change, way: (way, change), broadcast))
        assert_that(results | beam.Flatten(), alike)


def test_the_left_table_may_have_the_changes_of_a_row_in_several_batches(direct):
    """As the result of a shuffled join has: its rows have moved."""
    with direct() as p:
        left = p | "left" >> beam.Create([Change(1, None, 7, 1, 1), Change(1, 7, 8, 3, 3)])
        one = p | "one" >> beam.Create([Change(7, None, 70, 0, 0), Change(8, None, 80, 2, 2)])
        other = p | "other" >> beam.Create([Change(70, None, "a", 0, 0), Change(80, None, "b", 0, 0)])
        moved = (left, one) | "one by" >> ForeignKeyJoin(lambda left, right: right, foreign_key=lambda key, value: value)
        joined = (moved, other) | "another" >> ForeignKeyJoin(
            lambda left, right: right, foreign_key=lambda key, value: value, broadcast=True
        )
        assert_that(joined | TableToChanges(), equal_to([Change(1, None, "a", 1, 1), Change(1, "a", "b", 3, 3)]))


def test_the_left_table_may_be_changes_one_by_one_of_which_a_row_has_more_than_fit_into_a_batch(direct):
    last = BATCH + 1
    with direct() as p:
        log = p | beam.Create([(1, n) for n in range(last + 1)]) | TableFromChangelog(sequence_by=lambda pair: pair[1])
        names = p | "names" >> beam.Create([Change(0, None, "a", 0, -1)])
        join = ForeignKeyJoin(lambda n, name: (n, name), foreign_key=lambda key, n: 0, broadcast=True)
        joined = (log | TableToChanges(), names) | join | "joined" >> TableToChanges()
        olds = (
            joined | beam.Map(lambda change: -1 if change.old is None else change.old[0]) | beam.combiners.ToList() | beam.Map(sorted)
        )
        assert_that(olds, equal_to([list(range(-1, last))]))


@pytest.mark.parametrize("place", ["DIR", "bucket://out/blocks", "inline"])
def test_left_batches_lie_where_blocks_do_until_they_are_joined(tmp_path, store, monkeypatch, place):
    monkeypatch.setattr(block_files, "SMALL_BYTES", 0)
    arrived, free = [], batch_references.LaidBatches.free

    def freed(self, element):
        arrived.append(type(element if isinstance(element, ChangeBatch) else reference_of(element)))
        free(self, element)

    monkeypatch.setattr(batch_references.LaidBatches, "free", freed)
    (blocks := tmp_path / "blocks").mkdir()
    options = PipelineOptions(["--beam_joins_partitions=3", f"--beam_joins_blocks={blocks if place == 'DIR' else place}"])
    with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
        orders = p | "orders" >> beam.Create([columns([order(n) for n in range(30)], ORDER_COLUMNS)])
        names = p | "names" >> beam.Create([columns([{"id": 1, "name": "a", "gone": False, "at": 0}], CUSTOMER_COLUMNS)])
        left, right = (rows | f"table {n}" >> TableFromChangelog(**CDC) for n, rows in enumerate((orders, names)))
        joined = (left, right) | ForeignKeyJoin(lambda order, name: order["amount"], foreign_key="by", broadcast=True)
        assert_that(joined | LatestTable(), equal_to([(n, n) for n in range(30) if n % 2]))
    assert set(arrived) == {ChangeBatch if place == "inline" else Reference}
    assert (list(blocks.iterdir()), store.objects) == ([], {})


def order(n):
    return {"id": n, "by": n % 2, "amount": n, "gone": False, "at": n}


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "opaque"])
def test_a_right_table_that_another_transform_uses_too_is_broadcast_once(direct, typed):
    with direct(3) as p:
        rows = columns([{"id": n, "name": "ab"[n % 2], "gone": False, "at": n} for n in range(8)], CUSTOMER_COLUMNS)
        orders = columns([{"id": n, "by": n % 9, "amount": n, "gone": False, "at": n} for n in range(20)], ORDER_COLUMNS)
        left, right = (
            p | f"read {name}" >> beam.Create([table] if typed else table.to_pylist()) | f"table {name}" >> TableFromChangelog(**CDC)
            for name, table in (("orders", orders), ("customers", rows))
        )
        joined = (left, right) | ForeignKeyJoin(lambda order, customer: customer["name"], foreign_key="by", broadcast=True)
        counted = right | CountTable(group_by="name")
        again = (joined, right) | "Again" >> ForeignKeyJoin(
            lambda name, customer: customer["id"], foreign_key=lambda key, name: len(name), broadcast=True
        )
        assert_that(joined | LatestTable(), equal_to([(n, "ab"[n % 9 % 2]) for n in range(20) if n % 9 < 8]), label="joined")
        counts = counted | TableToChanges() | beam.Map(lambda change: (change.key, change.new))
        assert_that(counts, equal_to([(name, number) for name in "ab" for number in range(1, 5)]), label="counted")
        assert_that(again | "latest" >> LatestTable(), equal_to([(n, 1) for n in range(20) if n % 9 < 8]), label="again")


def test_two_changes_of_a_right_row_at_one_position_are_refused(direct):
    with pytest.raises(Exception, match="two changes of key 7 at position 1"), direct() as p:
        left = p | "left" >> beam.Create([Change(1, None, 7, 1, 1)])
        right = p | "right" >> beam.Create([Change(7, None, "a", 0, 1), Change(7, "a", "b", 0, 1)])
        _ = (left, right) | ForeignKeyJoin(lambda left, right: right, foreign_key=lambda key, value: value, broadcast=True)


def test_a_record_whose_functions_raise_goes_to_the_bad_ones(direct):
    with direct() as p:
        left = p | "left" >> beam.Create([Change(1, None, 7, 1, 1), Change(2, None, "x", 1, 1), Change(3, None, 8, 1, 1)])
        right = p | "right" >> beam.Create([Change(7, None, 70, 0, 0), Change(8, None, 0, 0, 0)])
        join = ForeignKeyJoin(lambda left, right: left // right, foreign_key=lambda key, value: value + 0, broadcast=True)
        good, bad = (left, right) | join.with_exception_handling()
        assert_that(good | TableToChanges(), equal_to([Change(1, None, 0, 1, 1)]), label="good")
        assert_that(bad | beam.Map(lambda failed: failed[1][0]), equal_to(["TypeError", "ZeroDivisionError"]), label="bad")


@pytest.mark.parametrize(
    ("option", "mapped", "broadcast"),
    [
        ("--beam_joins_partitions=3", False, True),
        ("--beam_joins_broadcast_bytes=0", False, False),
        ("--beam_joins_partitions=3", True, False),
    ],
    ids=["small", "none is small enough", "of unknown size behind a map"],
)
def test_a_right_table_that_its_reader_knows_to_be_small_is_broadcast(tmp_path, option, mapped, broadcast):
    for name, rows in (
        ("orders", columns([{"id": 1, "by": 7, "amount": 5, "gone": False, "at": 3}], ORDER_COLUMNS)),
        ("customers", columns([{"id": 7, "name": "a", "gone": False, "at": 2}], CUSTOMER_COLUMNS)),
    ):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([option])) as p:
        left, right = (
            p | f"read {name}" >> ReadParquet(str(tmp_path / f"{name}.parquet")) | f"table {name}" >> TableFromChangelog(**CDC)
            for name in ("orders", "customers")
        )
        if mapped:
            right = right | MapTable(vectorized(lambda values: values))
        joined = (left, right) | "Joined" >> ForeignKeyJoin({"name": "right.name", "amount": "left.amount"}, foreign_key="by")
        assert_that(joined | TableToChanges(), equal_to([Change(1, None, {"name": "a", "amount": 5}, 3, 0)]))
        steps = set(p.applied_labels)
    assert any(step.startswith("Joined/Moved") for step in steps) is not broadcast


RINGS = {
    "each refers to the other": ["xy", "yx"],
    "a ring of three": ["xy", "yz", "zx"],
    "two that wait for one": ["xz", "yz", "zx"],
    "behind each other": ["xy", "yx", "xy"],
    "to itself": ["xx", "xx"],
}


@pytest.mark.parametrize("joins", RINGS.values(), ids=list(RINGS))
def test_small_tables_that_refer_to_each_other_are_joined_as_if_they_were_large(tmp_path, joins):
    rows = [{"id": n, "by": (n * 2 + 1) % 5, "amount": n, "gone": False, "at": n} for n in range(5)]
    pq.write_table(columns(rows, ORDER_COLUMNS), tmp_path / "rows.parquet")
    with beam.Pipeline(runner=FnApiRunner()) as p:
        tables = {
            name: p | f"read {name}" >> ReadParquet(str(tmp_path / "rows.parquet")) | f"table {name}" >> TableFromChangelog(**CDC)
            for name in "xyz"
        }
        for number, (left, right) in enumerate(joins):
            join = ForeignKeyJoin({"n": "left.amount", "of": "right.amount"}, foreign_key="by")
            joined = (tables[left], tables[right]) | f"join {number}" >> join | f"changes {number}" >> TableToChanges()
            new = joined | f"rows {number}" >> beam.Map(lambda change: change.new)
            assert_that(new, equal_to([{"n": row["id"], "of": row["by"]} for row in rows]), label=f"rows of {number}")
