"""What tables in columns refuse, and that they say so."""

import datetime as dt
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import (
    AggregateTable,
    ForeignKeyJoin,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToRecords,
    vectorized,
)
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.changelog_columns import ChangelogColumns, column_rows

ROWS = pa.table(
    {
        "id": [1, 2],
        "lsn": [7, 8],
        "name": ["Ann", "Bob"],
        "f": [0.5, 1.5],
        "at": [dt.datetime(2020, 1, 1)] * 2,
        "span": [pa.MonthDayNano([1, 2, 3])] * 2,
    }
)
CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn"}
NAMES = {"name": "right.name"}


def log(p, rows=ROWS, name="batches"):
    return p | name >> beam.Create([rows]).with_output_types(pa.Table)


def table(p, rows=ROWS, name="table", **options):
    return log(p, rows, f"{name} batches") | name >> TableFromChangelog(**{**CDC, **options})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": None}, "a changelog in columns needs key=: the name of a column, a list of names, or a function"),
        ({"sequence_by": None, "timestamp_by": None}, "a changelog in columns needs timestamp_by= or sequence_by="),
    ],
)
def test_what_does_not_say_keys_or_order_is_refused_when_applied(direct, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        table(direct(), **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": "span"}, "the key is of type month_day_nano_interval, which has no equality: use numbers, text"),
        ({"key": ["id", "span"]}, "the key's span is of type month_day_nano_interval, which has no equality"),
        ({"key": "ID"}, "key='ID': there is no such column; there are id, lsn, name, f, at, span"),
        ({"key": ["id", "ID"]}, "key='ID': there is no such column; there are id, lsn"),
        ({"key": lambda row: object()}, "is of type builtins.object, which has no canonical encoding"),
        ({"key": vectorized(lambda rows: rows["id"][:1])}, "called with 2 rows and gave 1 rows"),
        (
            {"timestamp_by": "at"},
            r"timestamp_by gave times of type timestamp\[us\]: give microseconds .* or timestamps with a time zone",
        ),
        ({"timestamp_by": lambda row: row["at"]}, "timestamp_by gave .* a datetime with a time zone"),
        ({"timestamp_by": "f"}, "timestamp_by gave times of type double"),
        ({"sequence_by": "f"}, "sequence_by gave positions of type double: a position is a whole number"),
        ({"sequence_by": "name"}, "sequence_by gave positions of type string"),
        (
            {"sequence_by": vectorized(lambda rows: pa.array([2**63, 1], pa.uint64()))},
            "does not fit in 64 bits: scale the sequence down",
        ),
        ({"sequence_by": "LSN"}, "sequence_by='LSN': there is no such column"),
        ({"apply_as_deletes": "name"}, "apply_as_deletes gave values of type string: give true for a row that deletes"),
        ({"except_columns": ROWS.column_names}, "except_columns leaves no column for the value"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused_with_a_sentence(options, complaint):
    options = {"apply_as_deletes": None, "except_columns": (), **CDC, **options}
    said = (options[name] for name in ("key", "timestamp_by", "sequence_by", "apply_as_deletes"))
    with pytest.raises(ValueError, match=complaint):
        column_rows("rows", ChangelogColumns(*said, frozenset(options["except_columns"])))(ROWS, 0, BlockWriter(1))


def test_a_refusal_stops_the_run_and_says_its_sentence(direct):
    with pytest.raises(Exception, match="the key is of type month_day_nano_interval, which has no equality"), direct() as p:
        table(p, key="span")


def test_elements_that_are_no_arrow_tables_are_refused(direct):
    with pytest.raises(Exception, match="a changelog in columns is of Arrow tables or record batches, but has a dict"), direct() as p:
        _ = p | beam.Create([{"id": 1}]).with_output_types(pa.Table) | TableFromChangelog(**CDC)
    with pytest.raises(Exception, match="a table is a collection of Change, but has pyarrow.Table"), direct() as p:
        _ = (table(p), log(p)) | ForeignKeyJoin(foreign_key="id", joiner=lambda left, right: right)
    with pytest.raises(Exception, match="TableToRecords takes a table in columns, not int"), direct() as p:
        _ = p | beam.Create([1]) | TableToRecords()


@pytest.mark.parametrize(
    ("transform", "complaint"),
    [
        (
            ForeignKeyJoin(foreign_key="name", joiner=NAMES),
            "ForeignKeyJoin: the foreign keys are of kind text, the right table's keys of kind number: they are never equal",
        ),
        (
            ForeignKeyJoin(foreign_key="span", joiner=NAMES),
            "the foreign key is of type month_day_nano_interval, which has no equality",
        ),
        (
            ForeignKeyJoin(foreign_key="ID", joiner=NAMES),
            "foreign_key='ID': there is no such column; there are id, lsn, name, f, at, span",
        ),
        (
            ForeignKeyJoin(foreign_key=["id", "name"], joiner=NAMES),
            r"the foreign keys are of kind \(number, text\), the right table's keys of kind number: they are never equal",
        ),
        (
            ForeignKeyJoin(foreign_key=lambda key, row: row["name"], joiner=lambda left, right: right),
            "the foreign keys are of kind text, the right table's keys of kind number",
        ),
        (
            ForeignKeyJoin(foreign_key="id", joiner={"x": "right.NAME"}),
            "the right table has no column 'NAME'; it has id, lsn, name, f, at, span",
        ),
        (TableTableJoin({"x": "left.NAME"}), "the left table has no column 'NAME'; it has id, lsn, name, f, at, span"),
    ],
)
def test_a_join_that_makes_no_sense_stops_the_run_with_a_sentence(direct, transform, complaint):
    with pytest.raises(Exception, match=complaint), direct() as p:
        _ = (table(p), table(p, name="other")) | transform


def test_keys_of_two_types_are_refused_by_a_join_on_the_same_key(direct):
    with (
        pytest.raises(
            Exception, match="the left table's keys are of kind number, the right table's keys of kind text: they are never equal"
        ),
        direct() as p,
    ):
        _ = (table(p), table(p, name="by name", key="name")) | TableTableJoin(NAMES)


JOINERS_OF_COLUMNS = [NAMES, vectorized(lambda left, right: left)]


@pytest.mark.parametrize("joiner", JOINERS_OF_COLUMNS, ids=["names", "by column"])
def test_a_joiner_of_columns_is_refused_by_every_join_of_records(direct, joiner):
    p = direct()
    columns = table(p)
    records = columns | TableToRecords()
    refused = "joins records here, and its joiner is of columns: give it tables made by TableFromChangelog of Arrow batches"
    with pytest.raises(ValueError, match=f"TableTableJoin {refused}"):
        _ = (columns, records) | "mixed" >> TableTableJoin(joiner)
    for how in ("right", "outer"):
        with pytest.raises(ValueError, match=f"ForeignKeyJoin {refused}"):
            _ = (columns, columns) | how >> ForeignKeyJoin(foreign_key="id", joiner=joiner, how=how)
    with pytest.raises(ValueError, match=f"ForeignKeyJoin {refused}"):
        _ = (columns, columns) | "many" >> ForeignKeyJoin(foreign_keys=lambda key, row: [key], joiner=joiner)
    stream = p | beam.Create([(1, "v")])
    with pytest.raises(ValueError, match="StreamTableJoin joins records, and its joiner is of columns: give a function of two values"):
        _ = (stream, columns) | "stream" >> StreamTableJoin(joiner, sequence_by=lambda key, value: 1)


@pytest.mark.parametrize("joiner", JOINERS_OF_COLUMNS, ids=["names", "by column"])
def test_a_joiner_of_columns_is_refused_by_a_one_to_many_join(joiner):
    with pytest.raises(ValueError, match="give a function of"):
        OneToManyJoin(foreign_key="id", joiner=joiner)


def test_arrow_tables_that_a_step_before_does_not_declare_are_refused(direct):
    with pytest.raises(Exception, match="with_output_types\\(pyarrow.Table"), direct() as p:
        _ = log(p) | beam.Map(lambda batch: batch).with_output_types(Any) | TableFromChangelog(**CDC)


def test_tables_of_different_orders_and_windowed_input_are_refused_as_ever(direct):
    p = direct()
    by_time = table(p, name="by time", sequence_by=None)
    with pytest.raises(ValueError, match="give sequence_by= to both"):
        _ = (table(p), by_time) | "mixed" >> TableTableJoin(NAMES)
    with pytest.raises(ValueError, match="global window"):
        _ = log(p) | beam.WindowInto(beam.window.FixedWindows(5)) | "windowed" >> TableFromChangelog(**CDC)
    with pytest.raises(ValueError, match="group_by"):
        _ = by_time | AggregateTable(group_by=7, initial=int, add=max, subtract=max)
