"""What tables in columns refuse, and that they say so."""

import datetime as dt
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    AggregateTable,
    ForeignKeyJoin,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    vectorized,
)
from beam_joins.coders.key import KeyCoder
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.construction.arrow_input import struct_of
from beam_joins.transforms.engine.stages.raw_changelog import RawChangelog, options_of
from beam_joins.transforms.engine.stages.routed_records import RoutedRecords
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions

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
    inputs = {**CDC, **options}
    left_out = frozenset(inputs.pop("except_columns", ()))
    with pytest.raises(ValueError, match=complaint):
        rows = RawChangelog("rows", options_of(inputs), left_out, None, KeyCoder())
        rows(RoutedRecords(struct_of(ROWS, ROWS.schema), np.zeros(len(ROWS), np.int64), StageFunctions("a stage"), BlockWriter(1)))


def test_a_refusal_that_the_columns_are_enough_for_comes_when_the_pipeline_is_built(direct):
    with pytest.raises(ValueError, match="the key is of type month_day_nano_interval, which has no equality"):
        table(direct(), key="span")


def test_elements_that_are_no_arrow_tables_are_refused(direct):
    with pytest.raises(ValueError, match="the columns of this changelog are not known when the pipeline is built"):
        _ = direct() | beam.Create([{"id": 1}]).with_output_types(pa.Table) | TableFromChangelog(**CDC)
    with pytest.raises(Exception, match="a table is a collection of Change, but has pyarrow.Table"), direct() as p:
        _ = (table(p), log(p)) | ForeignKeyJoin(lambda left, right: right, foreign_key="id")
    with pytest.raises(Exception, match="a table is a collection of Change, but has int"), direct() as p:
        _ = p | beam.Create([1]) | TableToChanges()


@pytest.mark.parametrize(
    ("transform", "complaint"),
    [
        (
            ForeignKeyJoin(NAMES, foreign_key="name"),
            "ForeignKeyJoin joins foreign keys of type string with keys of type int64: they are never equal",
        ),
        (
            ForeignKeyJoin(NAMES, foreign_key="span"),
            "the foreign key is of type month_day_nano_interval, which has no equality",
        ),
        (
            ForeignKeyJoin(NAMES, foreign_key=["id", "name"]),
            r"the foreign keys are of kind \(number, text\), the right table's keys of kind number: they are never equal",
        ),
        (
            ForeignKeyJoin(lambda left, right: right, foreign_key=lambda key, row: row["name"]),
            "the foreign keys are of kind text, the right table's keys of kind number",
        ),
    ],
)
def test_a_join_that_makes_no_sense_stops_with_a_sentence(direct, transform, complaint):
    with pytest.raises(Exception, match=complaint), direct() as p:
        _ = (table(p), table(p, name="other")) | transform


OF_COLUMNS = [
    (ForeignKeyJoin(NAMES, foreign_key="ID"), "foreign_key='ID': there is no such column; there are id, lsn, name, f, at, span"),
    (ForeignKeyJoin(NAMES, foreign_key=["id", "ID"]), "foreign_key='ID': there is no such column"),
    (
        ForeignKeyJoin(NAMES, foreign_key=vectorized(lambda rows: rows["ID"])),
        "ID.*it is called with no rows when the pipeline is built",
    ),
    (ForeignKeyJoin({"x": "left.NAME"}, foreign_key="id", how="anti"), "the left table has no column 'NAME'; it has id, lsn, name"),
    (ForeignKeyJoin({"x": "right.NAME"}, foreign_key="id"), "the right table has no column 'NAME'; it has id, lsn, name"),
    (OneToManyJoin({"x": "right.NAME"}, foreign_key="id"), "the right table has no column 'NAME'"),
    (OneToManyJoin(NAMES, foreign_key="ID"), "foreign_key='ID': there is no such column"),
    (TableTableJoin({"x": "left.NAME"}), "the left table has no column 'NAME'; it has id, lsn, name, f, at, span"),
    (TableTableJoin({"x": pc.field("left", "NAME")}), "joiner: there is no column 'left.NAME'; there are "),
    (TableTableJoin(vectorized(lambda left, right: left["NAME"])), "NAME.*it is called with no rows when the pipeline is built"),
]


@pytest.mark.parametrize(("transform", "complaint"), OF_COLUMNS)
def test_a_column_that_there_is_not_is_refused_when_the_pipeline_is_built(direct, transform, complaint):
    p = direct()
    tables = table(p), table(p, name="other")
    with pytest.raises(ValueError, match=complaint):
        _ = tables | transform


def test_keys_of_two_types_are_refused_by_a_join_on_the_same_key(direct):
    p = direct()
    tables = table(p), table(p, name="by name", key="name")
    with pytest.raises(ValueError, match="TableTableJoin joins keys of type int64 with keys of type string: they are never equal"):
        _ = tables | TableTableJoin(NAMES)


JOINERS_OF_COLUMNS = [NAMES, vectorized(lambda left, right: left)]


@pytest.mark.parametrize("joiner", JOINERS_OF_COLUMNS, ids=["names", "by column"])
def test_a_joiner_of_columns_is_refused_where_values_are_python_objects(direct, joiner):
    p = direct()
    columns = table(p)
    changes = columns | TableToChanges()
    for label, tables in (("left", (changes, columns)), ("right", (columns, changes))):
        for join in (TableTableJoin(joiner), ForeignKeyJoin(joiner, foreign_key="id"), OneToManyJoin(joiner, foreign_key="id")):
            with pytest.raises(
                ValueError, match="the values of this table are Python objects .opaque..*give the transform that made them schema="
            ):
                _ = tables | f"{type(join).__name__} {label}" >> join
    with pytest.raises(ValueError, match="StreamTableJoin joins records, and its joiner is of columns: give a function of two values"):
        of_stream = {"name": "stream.name"} if joiner is NAMES else joiner
        _ = (p | beam.Create([(1, {})]), columns) | StreamTableJoin(of_stream, sequence_by=lambda key, value: 1)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_every_join_by_foreign_keys_joins_columns(direct, how):
    with direct() as p:
        tables = table(p), table(p, ROWS.slice(1), name="other")
        joined = tables | ForeignKeyJoin({"one": "left.name", "other": "right.name"}, foreign_key="id", how=how) | TableToChanges()
        last = {"one": "Bob", "other": "Bob"}
        alone = [{"one": "Ann", "other": None}] if how in ("left", "outer") else []
        assert_that(joined | beam.Map(lambda change: change.new), equal_to([last, *alone]))


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
