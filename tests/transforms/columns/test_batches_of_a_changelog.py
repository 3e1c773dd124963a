"""What the batches of a changelog in columns may be: keys, times and deletes said in every way, and batches
that differ.
"""

import datetime as dt
import random
import uuid
from decimal import Decimal

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    ForeignKeyJoin,
    LatestTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToStream,
    vectorized,
)
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import KeyCoder
from beam_joins.tables.changelog import upsert
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.observed_kinds import NoteReader
from beam_joins.transforms.engine.construction.arrow_input import plain_schema, struct_of
from beam_joins.transforms.engine.stages.raw_changelog import RawChangelog, no_records, options_of
from beam_joins.transforms.engine.stages.routed_records import RoutedRecords
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.values.schema_union import common_schema
from tests.beam_joins.kernels import changes_in

ROWS = pa.table({"id": [1, 2, 1], "lsn": [7, 8, 9], "name": ["Ann", "Bob", None]})
CUT_UP = [ROWS.slice(i, 1) for i in range(3)]
TABLE = [
    Change(1, None, {"name": "Ann"}, 7, 7),
    Change(2, None, {"name": "Bob"}, 8, 8),
    Change(1, {"name": "Ann"}, {"name": None}, 9, 9),
]
OPTIONS = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "except_columns": ["id", "lsn"]}


def changes(batches, *, apart=False, **options):
    """The changes that batches become in one partition, each batch in a block of its own or all in one;
    without Beam.
    """
    inputs = {**OPTIONS, **options}
    emit, left_out = inputs.pop("emit", "updates"), inputs.pop("except_columns")
    schema = common_schema((plain_schema(batch.schema) for batch in batches), of="rows")
    rows = RawChangelog("rows", options_of(inputs), frozenset(left_out).intersection(schema.names), None, KeyCoder())
    writer = BlockWriter(1)
    blocks = []
    for batch in batches:
        rows(RoutedRecords(struct_of(batch, schema), np.zeros(len(batch), np.int64), StageFunctions("a stage"), writer))
        if apart:
            blocks += [block for _, (_, block), _ in writer.flush()]
    blocks += [block for _, (_, block), _ in writer.flush()]
    batch, _ = upsert(read_blocks(NoteReader(blocks).blocks())["rows"], emit)
    reference = rows.columns(no_records(schema))
    assert (batch.key.type, batch.new.type) == (reference["key"].type, reference["value"].type)
    return sorted(changes_in(batch), key=lambda change: change.position)


@pytest.mark.parametrize("odd", [[1, "a"], [(1, "a")], [2**70, 0.5], [dt.date(2020, 1, 1), uuid.UUID(int=7)]])
def test_a_function_of_a_row_may_give_keys_of_any_type(odd):
    rows = pa.table({"n": range(len(odd)), "lsn": range(len(odd))})
    inputs = {"key": lambda row: odd[row["n"]], "timestamp_by": "lsn", "except_columns": ["lsn"]}
    assert [change.key for change in changes([rows], **inputs)] == odd


COMPOSITE = [change._replace(key=(change.key, f"n{change.key}")) for change in TABLE]
DELETED = [*TABLE[:2], Change(1, {"name": "Ann"}, None, 9, 9)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, TABLE, id="columns"),
        pytest.param(
            {"key": lambda row: row["id"], "sequence_by": lambda row: row["lsn"], "timestamp_by": lambda row: row["lsn"]},
            TABLE,
            id="functions",
        ),
        pytest.param({"key": vectorized(lambda rows: rows["id"])}, TABLE, id="a vectorized key"),
        pytest.param(
            {"sequence_by": vectorized(lambda rows: rows["lsn"]), "timestamp_by": vectorized(lambda rows: rows["lsn"])},
            TABLE,
            id="a vectorized order",
        ),
        pytest.param({"key": lambda row: str(row["id"])}, [change._replace(key=str(change.key)) for change in TABLE], id="a text key"),
        pytest.param(
            {"key": vectorized(lambda rows: {"id": rows["id"], "n": pc.binary_join_element_wise("n", rows["id"].cast("string"), "")})},
            COMPOSITE,
            id="a vectorized key of two parts",
        ),
        pytest.param({"apply_as_deletes": lambda row: row["name"] is None}, DELETED, id="deletes by function"),
        pytest.param({"apply_as_deletes": vectorized(lambda rows: rows["name"].is_null())}, DELETED, id="vectorized deletes"),
    ],
)
def test_keys_sequences_times_and_deletes_may_be_columns_or_functions_of_rows_or_of_columns(options, expected):
    assert changes([ROWS], **options) == expected
    assert changes(CUT_UP, **options) == expected
    assert changes([batch.slice(i, 1) for batch in ROWS.to_batches() for i in (2, 1, 0)], apart=True, **options) == expected


def test_record_batches_are_a_changelog_too(direct):
    with direct() as p:
        log = p | beam.Create([batch.slice(i, 1) for batch in ROWS.to_batches() for i in range(3)]).with_output_types(pa.RecordBatch)
        table = log | TableFromChangelog(**OPTIONS, apply_as_deletes=vectorized(lambda rows: rows["name"].is_null()))
        assert_that(table | TableToChanges(), equal_to(DELETED))


@pytest.mark.parametrize(
    ("rows", "deletes"),
    [
        pytest.param(ROWS, lambda row: None, id="a function that is never true"),
        pytest.param(ROWS.append_column("gone", pa.nulls(3)), "gone", id="a column without a value"),
    ],
)
def test_what_says_nothing_of_deletes_deletes_nothing(rows, deletes):
    assert changes([rows], apply_as_deletes=deletes, except_columns=["id", "lsn", "gone"]) == TABLE


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"apply_as_deletes": lambda row: row["name"] is None}, id="deletes"),
        pytest.param({"key": lambda row: row["id"]}, id="key"),
        pytest.param({"sequence_by": lambda row: row["lsn"], "timestamp_by": lambda row: row["lsn"]}, id="order"),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["in one block", "in many blocks"])
def test_a_function_of_rows_has_nothing_to_say_of_an_empty_batch(options, apart):
    actual = changes([ROWS.slice(0, 0), ROWS, ROWS.slice(3)], apart=apart, **options)
    assert [(change.key, change.position) for change in actual] == [(1, 7), (2, 8), (1, 9)]


NOON = dt.datetime(2020, 6, 1, 12, tzinfo=dt.UTC)
MICROS = 1_591_012_800_000_000


@pytest.mark.parametrize(
    ("column", "micros"),
    [
        pytest.param(pa.array([NOON], pa.timestamp("s", "UTC")), MICROS, id="s"),
        pytest.param(pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), MICROS, id="ms"),
        pytest.param(pa.array([NOON + dt.timedelta(microseconds=1)], pa.timestamp("us", "-03:00")), MICROS + 1, id="us"),
        pytest.param(pa.array([MICROS * 1000], pa.timestamp("ns", "UTC")), MICROS, id="ns"),
        pytest.param(pa.array([MICROS], pa.int64()), MICROS, id="whole numbers"),
        pytest.param(pa.array([1], pa.int8()), 1, id="small whole numbers"),
    ],
)
def test_times_may_be_arrow_timestamps_of_any_unit_and_zone(column, micros):
    rows = pa.table({"id": [1], "at": column, "v": ["x"]})
    for time in (
        "at",
        vectorized(lambda rows: rows["at"]),
        *([] if column.type == pa.timestamp("ns", "UTC") else [lambda row: row["at"]]),
    ):
        actual = changes([rows], sequence_by=None, timestamp_by=time, except_columns=["id", "at"])
        assert actual == [Change(1, None, {"v": "x"}, micros, micros)]


def test_changes_may_have_any_time_and_a_stream_of_them_is_timed_as_beam_can(direct):
    rows = pa.table({"id": [1, 2], "at": [-(2**63), 2**63 - 1]})
    with direct() as p:
        log = p | beam.Create([rows]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", timestamp_by="at")
        actual = table | TableToChanges() | "times" >> beam.Map(lambda change: (change.key, change.timestamp, change.position))
        assert_that(actual, equal_to([(1, -(2**63), -(2**63)), (2, 2**63 - 1, 2**63 - 1)]))
        assert_that(table | TableToStream() | beam.Keys(), equal_to([1, 2]), label="as a stream")


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([dt.date(2020, 1, 1), dt.date(1969, 1, 1), dt.date(2020, 1, 1)]), id="dates"),
        pytest.param(pa.array(["a", "b", "a"]).dictionary_encode(), id="a dictionary"),
    ],
)
def test_keys_may_be_of_any_type_with_exact_equality_and_refer_to_each_other(direct, column):
    rows = ROWS.set_column(0, "id", column).append_column("ref", column)
    one, other = column[0].as_py(), column[1].as_py()
    with direct() as p:
        log = p | beam.Create([rows.slice(i, 1) for i in range(3)]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        joined = (table, table) | ForeignKeyJoin({"l": "left.lsn", "r": "right.lsn"}, foreign_key="ref")
        expected = [(one, 7, 7), (one, 9, 9), (other, 8, 8)]
        actual = joined | TableToChanges() | beam.Map(lambda change: (change.key, change.new["l"], change.new["r"]))
        assert_that(actual, equal_to(expected))


WORDS = ROWS.set_column(2, "name", ROWS["name"].dictionary_encode())
DIFFERENT = {
    "widths of keys": [CUT_UP[0].set_column(0, "id", pa.array([1], pa.int8())), CUT_UP[1], CUT_UP[2].set_column(0,
        "id", pa.array([1], pa.uint32()))],
    "columns without a value": [CUT_UP[0], CUT_UP[1], CUT_UP[2].set_column(2, "name", pa.nulls(1))],
    "columns that are not there": [CUT_UP[0], CUT_UP[1], CUT_UP[2].drop_columns("name").append_column("more", pa.array([5]))],
    "the order of columns": [CUT_UP[0], CUT_UP[1].select(["name", "lsn", "id"]), CUT_UP[2]],
    "dictionaries": [
        pa.table({**dict(zip(WORDS.column_names[:2], WORDS.slice(i, 1).columns[:2], strict=True)),
            "name": pa.array([name]).cast(pa.string()).dictionary_encode()})
        for i, name in enumerate(["Ann", "Bob", None])
    ],
    "widths of text": [CUT_UP[0], CUT_UP[1].set_column(2, "name", pa.array(["Bob"], pa.large_string())), CUT_UP[2]],
}  # fmt: skip


@pytest.mark.parametrize("apart", [False, True], ids=["in one block", "in many blocks"])
@pytest.mark.parametrize("batches", DIFFERENT.values(), ids=DIFFERENT)
def test_batches_of_one_changelog_may_differ_wherever_they_are_cut(batches, apart):
    """Files of one table written at different times differ so; where the runner cuts its bundles must not
    matter.
    """
    names = [(c.key, c.old and c.old["name"], c.new.get("name"), c.position) for c in changes(batches, apart=apart)]
    assert names == [(1, None, "Ann", 7), (2, None, "Bob", 8), (1, "Ann", None, 9)]


@pytest.mark.parametrize("apart", [False, True], ids=["in one block", "in many blocks"])
def test_batches_whose_columns_have_no_common_type_are_refused_wherever_they_are_cut(apart):
    with pytest.raises(
        ValueError, match="the column 'rows.name' is of type int64 in some batches and string in others: cast it to one"
    ):
        changes([ROWS, ROWS.set_column(2, "name", pa.array([1, 2, 3]))], apart=apart)


def test_a_column_left_out_of_some_batches_is_there_for_all_partitions(direct):
    """The columns of a table are those of all its batches, wherever they went."""
    without = pa.table({"id": [f"k{i}" for i in range(20)], "lsn": [1] * 20, "n": [1] * 20})
    with_it = pa.table({"id": ["k0"], "lsn": [2], "n": [2], "s": ["x"]})
    expected = [(f"k{i}", 1, None) for i in range(20)] + [("k0", 2, "x")]
    for partitions in (1, 16):
        with direct(partitions) as p:
            for turn in (1, -1):
                log = p | f"log {turn}" >> beam.Create([without, with_it][::turn]).with_output_types(pa.Table)
                table = log | f"table {turn}" >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
                joined = (table, table) | f"join {turn}" >> TableTableJoin({"s": "right.s"})
                changes = joined | f"changes {turn}" >> TableToChanges()
                actual = changes | f"seen {turn}" >> beam.Map(lambda c: (c.key, c.position, c.new["s"]))
                assert_that(actual, equal_to(expected), label=f"found {turn}")


@pytest.mark.parametrize(
    "tables", [pytest.param(ForeignKeyJoin, id="ForeignKeyJoin"), pytest.param(TableTableJoin, id="TableTableJoin")]
)
def test_a_joiner_of_records_may_leave_a_column_null_in_one_partition_and_not_in_another(direct, tables):
    rows = pa.table({"id": range(8), "lsn": range(8), "n": [None, 1, None, 2, None, None, None, 3]})
    options = {"foreign_key": "id"} if tables is ForeignKeyJoin else {}
    with direct() as p:
        log = p | beam.Create([rows]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        first = (table, table) | "first" >> tables(joiner=lambda a, b: {"id": a["id"], "n": a["n"]}, **options)
        second = (first, first) | "second" >> tables(joiner=lambda a, b: {"n": b["n"]}, **options)
        actual = second | TableToChanges() | beam.Map(lambda change: (change.key, change.new["n"]))
        assert_that(actual, equal_to([(i, n.as_py()) for i, n in enumerate(rows["n"])]))


def test_values_of_every_type_come_through(direct):
    rows = [
        {"id": 1, "lsn": 1, "f": float("inf"), "l": [1, None], "s": {"deep": {"x": [b"\0"]}}, "d": dt.date(2020, 1,
            1), "n": Decimal("1.5"), "t": "é", "nothing": None},
        {"id": 1, "lsn": 2, "f": None, "l": None, "s": None, "d": None, "n": None, "t": None, "nothing": None},
        {"id": 1, "lsn": 3, "f": -0.0, "l": [], "s": {"deep": None}, "d": dt.date(1, 1, 1), "n": Decimal("-1.5"),
            "t": "", "nothing": None},
    ]  # fmt: skip
    values = [{name: value for name, value in row.items() if name not in ("id", "lsn")} for row in rows]
    expected = [Change(1, old, new, lsn, lsn) for lsn, (old, new) in enumerate(zip([None, *values], values, strict=False), 1)]
    random.Random(1).shuffle(rows)
    with direct() as p:
        log = p | beam.Create([pa.Table.from_pylist(rows)]).with_output_types(pa.Table)
        table = log | TableFromChangelog(**OPTIONS)
        assert_that(table | TableToChanges(), equal_to(expected), label="changes")
        same = table | "same" >> beam.Reshuffle() | LatestTable() | beam.Map(lambda batch: batch["value"][0].as_py())
        assert_that(same, equal_to(values[2:]), label="latest")


def test_not_a_number_is_no_change_when_only_changes_count():
    rows = pa.table({"id": [1, 1, 1], "lsn": [1, 2, 3], "f": [float("nan"), float("nan"), 1.0]})
    assert [change.position for change in changes([rows], emit="changes")] == [1, 3]
