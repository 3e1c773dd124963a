"""What orders the changes of a row within one position: several columns of a sequence, a tie break, and what
nothing orders.
"""

import random

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import Dropped, StreamTableJoin, TableFromChangelog, TableToChanges, WindowedAggregate, WindowedStreamJoin, vectorized
from tests.transforms.columns.both_forms import compared

TRANSACTIONS = [
    {"id": 1, "commit": 10, "lsn": 3, "seq": 1, "at": 5, "amount": 50, "gone": False},
    {"id": 1, "commit": 10, "lsn": 4, "seq": 0, "at": 5, "amount": 9, "gone": False},
    {"id": 2, "commit": 11, "lsn": 5, "seq": 1, "at": 6, "amount": 5, "gone": False},
    {"id": 2, "commit": 11, "lsn": 6, "seq": 2, "at": 6, "amount": 5, "gone": True},
    {"id": 3, "commit": 11, "lsn": -7, "seq": 1, "at": 6, "amount": 7, "gone": True},
    {"id": 3, "commit": 11, "lsn": -6, "seq": 1, "at": 6, "amount": 7, "gone": False},
]
CDC = {"key": "id", "timestamp_by": "at", "apply_as_deletes": "gone", "except_columns": ["id", "commit", "lsn", "seq", "at", "gone"]}
LAST_WRITES = [(1, 9, 10), (3, 7, 11)]
WAYS = {
    "names": ["commit", "lsn"],
    "three names": ["commit", "lsn", "seq"],
    "a function": lambda row: (row["commit"], row["lsn"]),
}


def in_form(pipeline, form, rows, **options):
    """The outputs of a table of these rows, as records."""
    if form == "records":
        log = pipeline | beam.Create(rows)
    else:
        batches = [pa.Table.from_pylist(rows[:3]), pa.Table.from_pylist(rows[3:])] if len(rows) > 3 else [pa.Table.from_pylist(rows)]
        log = pipeline | beam.Create(batches).with_output_types(pa.Table)
    outputs = log | TableFromChangelog(**{**CDC, **options}).with_outputs()
    return outputs._replace(table=outputs.table | TableToChanges())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.each_value
def test_the_last_change_of_a_row_in_a_transaction_wins(pipeline, form, way):
    shuffled = random.Random(1).sample(TRANSACTIONS, len(TRANSACTIONS))
    with pipeline(partitions=3) as p:
        table, dropped = in_form(p, form, shuffled, sequence_by=WAYS[way])
        changes = table | beam.Map(lambda change: (change.key, change.new and change.new["amount"], change.position))
        assert_that(changes, equal_to(LAST_WRITES), label="last writes")
        assert_that(dropped, equal_to([]), label="nothing dropped")


def test_a_vectorized_function_may_give_several_numbers(direct):
    order = vectorized(lambda batch: pa.table({"commit": batch["commit"], "lsn": batch["lsn"]}))
    with direct() as p:
        table, _ = in_form(p, "columns", TRANSACTIONS, sequence_by=order)
        assert_that(table | beam.Map(lambda change: (change.key, change.new["amount"], change.position)), equal_to(LAST_WRITES))


@pytest.mark.parametrize("form", ["records", "columns"])
def test_a_record_with_a_part_of_its_sequence_missing_is_dropped(direct, form):
    rows = [TRANSACTIONS[0], {**TRANSACTIONS[1], "lsn": None}]
    with direct() as p:
        _, dropped = in_form(p, form, rows, sequence_by=["commit", "lsn"])
        assert_that(dropped | beam.Map(lambda d: (d.reason, d.record["amount"])), equal_to([("null_sequence", 9)]))


@pytest.mark.parametrize("form", ["records", "columns"])
def test_what_is_there_twice_is_a_duplicate_and_what_nothing_orders_is_ambiguous(direct, form):
    rows = [TRANSACTIONS[0], TRANSACTIONS[0], TRANSACTIONS[2], TRANSACTIONS[3]]
    with direct() as p:
        table, dropped = in_form(p, form, rows, sequence_by="commit")
        assert_that(table | beam.Map(lambda c: (c.key, c.new["amount"])), equal_to([(1, 50), (2, 5)]), label="table")
        expected = [Dropped("duplicate_position", (1, {"amount": 50}), 5), Dropped("ambiguous_position", (2, None), 6)]
        assert_that(dropped, equal_to(expected), label="dropped")


@pytest.mark.parametrize("tie", ["lsn", ["seq", "lsn"], lambda row: (row["seq"], row["lsn"])])
@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.each_value
def test_a_tie_break_decides_last_and_what_it_decides_is_counted_as_ambiguous(direct, form, tie):
    with direct() as p:
        table, dropped = in_form(p, form, TRANSACTIONS[2:], sequence_by="commit", tie_break_by=tie)
        assert_that(table | beam.Map(lambda c: (c.key, c.new["amount"])), equal_to([(3, 7)]), label="the last place wins")
        reasons = dropped | beam.Map(lambda d: (d.reason, d.record))
        ambiguous = [("ambiguous_position", (2, {"amount": 5})), ("ambiguous_position", (3, None))]
        assert_that(reasons, equal_to(ambiguous), label="dropped")


@pytest.mark.parametrize("seed", range(3))
def test_records_and_columns_take_the_same_winner_whatever_the_order_of_rows_and_columns(direct, seed):
    chance = random.Random(seed)
    rows = [
        {
            "id": i % 3,
            "commit": i % 2,
            "at": 1,
            "gone": chance.random() < 0.2,
            "amount": chance.choice([9.0, 10.0, -1.0, 2.5]),
            "by": i % 2,
        }
        for i in range(24)
    ]
    options = {**CDC, "except_columns": ["at", "gone"], "sequence_by": "commit"}
    with compared(direct()) as (p, outputs):
        for form in ("records", "columns", "records turned", "columns turned"):
            inputs = [dict(reversed(row.items())) if "turned" in form else row for row in chance.sample(rows, len(rows))]
            log = inputs if "records" in form else [pa.Table.from_pylist(inputs[:10]), pa.Table.from_pylist(inputs[10:])]
            log = p | f"log of {form}" >> beam.Create(log)
            table = log | f"table of {form}" >> TableFromChangelog(**options) | f"changes of {form}" >> TableToChanges()
            outputs.add("changes", form, table, lambda c: repr((c.key, c.position, c.new and sorted(c.new.items()))))


def test_a_position_that_is_the_smallest_of_all_is_a_position(direct):
    rows = [{**TRANSACTIONS[0], "commit": -(2**63)}, {**TRANSACTIONS[1], "commit": -(2**63)}]
    with direct() as p:
        table, dropped = in_form(p, "records", rows, sequence_by="commit")
        assert_that(table | beam.Map(lambda change: change.position), equal_to([-(2**63)]), label="table")
        assert_that(dropped | beam.Map(lambda d: d.reason), equal_to(["ambiguous_position"]), label="dropped")


def test_of_several_numbers_the_first_is_the_position_of_a_stream_record(direct):
    with direct() as p:
        table = p | "rows" >> beam.Create([("k", {"v": "old", "lsn": 1}), ("k", {"v": "new", "lsn": 5})])
        table = table | TableFromChangelog(sequence_by=lambda pair: pair[1]["lsn"], timestamp_by=lambda pair: 0)
        stream = p | "stream" >> beam.Create([("k", {"commit": 4, "lsn": 9}), ("k", {"commit": 5, "lsn": 0})])
        joined = (stream, table) | StreamTableJoin(lambda record, row: row["v"], sequence_by=["commit", "lsn"])
        assert_that(joined, equal_to([("k", "old"), ("k", "new")]))


@pytest.mark.parametrize("spec", [[], [""], ["a", 1], 7, ()])
@pytest.mark.parametrize(
    "construct",
    [
        lambda spec: TableFromChangelog(key="id", sequence_by=spec),
        lambda spec: TableFromChangelog(key="id", sequence_by="lsn", tie_break_by=spec),
        lambda spec: WindowedStreamJoin(lambda one, other: one, before=1, after=1, grace=1, sequence_by=spec),
    ],
)
def test_what_names_no_column_is_refused_at_construction(construct, spec):
    with pytest.raises(ValueError, match="give a field name"):
        construct(spec)


@pytest.mark.parametrize("inputs", [(), ("7",), (1, 2.5)])
def test_a_function_that_gives_no_whole_numbers_is_refused(direct, inputs):
    with pytest.raises(Exception, match="empty tuple|whole number"), direct() as p:
        in_form(p, "records", TRANSACTIONS, sequence_by=lambda row: inputs)


@pytest.mark.parametrize("tie", ["seq", lambda row: row["seq"], ["seq", "lsn"]])
@pytest.mark.parametrize("form", ["records", "columns"])
def test_a_record_without_a_tie_break_comes_before_those_with_one(direct, form, tie):
    rows = [{**TRANSACTIONS[0], "seq": -1, "amount": 1}, {**TRANSACTIONS[0], "seq": None, "amount": 2}]
    with direct() as p:
        table, _ = in_form(p, form, rows, sequence_by="commit", tie_break_by=tie)
        assert_that(table | beam.Map(lambda c: c.new["amount"]), equal_to([1]))


def test_a_tie_break_that_is_no_number_is_named(direct):
    with pytest.raises(Exception, match="tie_break_by gave 'x' of type str: a position is a whole number"), direct() as p:
        in_form(p, "records", TRANSACTIONS, sequence_by="commit", tie_break_by=lambda row: "x")


@pytest.mark.parametrize("turn", [1, -1])
def test_of_several_numbers_the_others_order_what_an_aggregate_adds_at_one_position(direct, turn):
    records = [("k", {"tx": 1, "n": 2, "v": "b"}), ("k", {"tx": 1, "n": 1, "v": "c"}), ("k", {"tx": 1, "n": 3, "v": "a"})]
    with direct() as p:
        stream = p | beam.Create(records[::turn]) | beam.Map(lambda pair: TimestampedValue(pair, 5))
        words = WindowedAggregate(FixedWindows(10), initial="", add=lambda words, row: words + row["v"], sequence_by=["tx", "n"])
        assert_that(stream | words | TableToChanges() | beam.Map(lambda change: change.new), equal_to(["cba"]))
