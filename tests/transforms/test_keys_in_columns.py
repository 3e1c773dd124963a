"""Keys of columns of different types, of several columns, and of rows as pandas gives them."""

import datetime as dt
from decimal import Decimal

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import ForeignKeyJoin, TableFromChangelog, TableTableJoin, TableToChanges, WindowedStreamJoin, vectorized
from tests.transforms.joins_by_key import JOINS, Side

NOON = dt.datetime(2020, 1, 1, 12)
CDC = {"sequence_by": "lsn", "timestamp_by": "lsn"}
N = {"l": "left.n", "r": "right.n"}

EQUAL = {
    "whole numbers and fractions": (pa.array([7, 2**40], pa.int64()), pa.array([7.0, 2.0**40])),
    "unsigned and signed": (pa.array([2**63, 7], pa.uint64()), pa.array([float(2**63), 7.0])),
    "truth values and numbers": (pa.array([True, False]), pa.array([1, 0], pa.int8())),
    "Decimals": (pa.array([Decimal("7.50"), Decimal("8.00")]), pa.array([7.5, 8.0], pa.float32())),
    "text": (pa.array(["a", "é"]), pa.array(["a", "é"], pa.large_string())),
    "text and a dictionary": (pa.array(["a", "é"]), pa.array(["a", "é"]).dictionary_encode()),
    "bytes": (pa.array([b"ab", b"cd"], pa.binary(2)), pa.array([b"ab", b"cd"], pa.large_binary())),
    "instants": (pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), pa.array([NOON], pa.timestamp("us", "UTC"))),
    "dates": (pa.array([NOON.date()], pa.date32()), pa.array([NOON.date()], pa.date64())),
    "times of day": (pa.array([dt.time(1, 2)], pa.time32("s")), pa.array([dt.time(1, 2)], pa.time64("us"))),
    "timedeltas": (pa.array([dt.timedelta(1)], pa.duration("s")), pa.array([dt.timedelta(1)], pa.duration("us"))),
    "structs": (pa.array([{"a": 7, "b": "x"}, {"a": 8, "b": None}]), pa.array([{"c": 7.0, "d": "x"}, {"c": 8.0, "d": None}])),
    "lists": (pa.array([[1, 2], []]), pa.array([[1.0, 2.0], []], pa.large_list(pa.float64()))),
    "UUIDs": (pa.array([b"a" * 16], pa.uuid()), pa.array([b"a" * 16], pa.uuid())),
}
IN_COLUMNS = ["inner foreign key", "table table", "windowed stream"]


def log(p, name, key):
    rows = pa.table({"n": range(len(key)), "lsn": range(len(key)), "k": key})
    return p | f"{name} rows" >> beam.Create([rows[:1], rows[1:]]).with_output_types(pa.Table)


def table(p, name, key, by="k"):
    return log(p, name, key) | name >> TableFromChangelog(key=by, **CDC)


def pairs(table):
    return table | TableToChanges() | "pairs" >> beam.Map(lambda change: (change.new["l"], change.new["r"]))


JOINED = {
    "inner foreign key": lambda p, left, right: pairs(
        (table(p, "left", left, "n"), table(p, "right", right)) | ForeignKeyJoin(N, foreign_key="k")
    ),
    "foreign key of records": lambda p, left, right: pairs(
        (table(p, "left", left, "n") | "l" >> TableToChanges(), table(p, "right", right))
        | ForeignKeyJoin(lambda one, other: {"l": one["n"], "r": other["n"]}, foreign_key=lambda _, row: row["k"])
    ),
    "outer foreign key": lambda p, left, right: pairs(
        (table(p, "left", left, "n"), table(p, "right", right))
        | ForeignKeyJoin(lambda one, other: one and other and {"l": one["n"], "r": other["n"]}, foreign_key="k", how="outer")
    ),
    "table table": lambda p, left, right: pairs((table(p, "left", left), table(p, "right", right)) | TableTableJoin(N)),
    "windowed stream": lambda p, left, right: (
        (log(p, "left", left), log(p, "right", right))
        | WindowedStreamJoin(N, key="k", timestamp_by="lsn", before=9, after=9, grace=9)
        | beam.FlatMap(lambda batch: [(row["l"], row["r"]) for row in batch["value"].to_pylist()])
    ),
}


@pytest.mark.parametrize(
    ("join", "kind"),
    # a struct in a record is a dict, and no key of several columns
    [
        (join, kind)
        for join in JOINED
        for kind in EQUAL
        if join in IN_COLUMNS or kind in ("whole numbers and fractions", "UUIDs", "lists")
    ],
)
def test_keys_meet_whatever_the_types_of_their_columns(direct, join, kind):
    left, right = EQUAL[kind]
    with direct() as p:
        assert_that(JOINED[join](p, left, right), equal_to([(n, n) for n in range(len(left))]))


@pytest.mark.parametrize("join", IN_COLUMNS)
def test_columns_whose_keys_never_meet_stop_the_join_with_a_sentence(direct, join):
    with (
        pytest.raises(
            Exception, match="(of kind number, the .*keys of kind text|of type int64 with keys of type string): they are never equal"
        ),
        direct() as p,
    ):
        JOINED[join](p, pa.array([7, 8]), pa.array(["7", "8"]))


SALES = [{"n": 1, "x": 7, "y": "a"}, {"n": 2, "x": 7, "y": None}, {"n": 3, "x": None, "y": None}, {"n": 4, "x": 8.0, "y": "a"}]
SHOPS = [{"n": 10, "a": 7.0, "b": "a"}, {"n": 20, "a": 8, "b": "a"}, {"n": 30, "a": 7, "b": "b"}]


def in_form(p, form, name, rows, schema, **options):
    rows = [{**row, "lsn": 1} for row in rows]
    inputs = (
        rows
        if form == "records"
        else [pa.Table.from_pylist(rows, schema=pa.schema([*schema, ("n", pa.int64()), ("lsn", pa.int64())]))]
    )
    source = beam.Create(inputs) if form == "records" else beam.Create(inputs).with_output_types(pa.Table)
    return p | f"{name} rows" >> source | name >> TableFromChangelog(**CDC, **options)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize(
    "foreign_key",
    [["x", "y"], lambda _, row: None if None in (row["x"], row["y"]) else (row["x"], row["y"])],
    ids=["names", "a function"],
)
@pytest.mark.each_value
def test_a_foreign_key_of_several_columns_refers_to_nothing_where_one_is_null(pipeline, form, how, foreign_key):
    with pipeline() as p:
        sales = in_form(p, form, "sales", SALES, [("x", pa.float64()), ("y", pa.string())], key="n")
        shops = in_form(p, form, "shops", SHOPS, [("a", pa.int64()), ("b", pa.string())], key=["a", "b"])
        transform = ForeignKeyJoin(lambda one, other: (one["n"], other and other["n"]), foreign_key=foreign_key, how=how)
        joined, dropped = (sales, shops) | transform.with_outputs()
        joined = joined | TableToChanges()
        kept = [(2, None), (3, None)] if how == "left" else []
        assert_that(joined | beam.Map(lambda change: change.new), equal_to([(1, 10), (4, 20), *kept]), label="joined")
        reasons = [] if kept else [("null_foreign_key", 2), ("null_foreign_key", 3)]
        assert_that(dropped | beam.Map(lambda d: (d.reason, d.record.key)), equal_to(reasons), label="dropped")


def test_several_columns_of_a_vectorized_function_are_a_key_of_several_columns(direct):
    with direct() as p:
        sales = in_form(p, "columns", "sales", SALES[::3], [("x", pa.float64()), ("y", pa.string())], key="n")
        shops = in_form(p, "columns", "shops", SHOPS, [("a", pa.int64()), ("b", pa.string())], key=["a", "b"])
        both = vectorized(lambda batch: batch.select(["x", "y"]))
        joined = (sales, shops) | ForeignKeyJoin(N, foreign_key=both)
        assert_that(pairs(joined), equal_to([(1, 10), (4, 20)]))


@pytest.mark.parametrize("missing", [float("nan"), None])
@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.each_value
def test_rows_as_pandas_gives_them_meet_whole_numbers(pipeline, form, missing):
    orders = [{"n": 1, "fk": 7.0}, {"n": 2, "fk": missing}, {"n": 3, "fk": 8.0}]
    customers = [{"n": 7, "name": "ann"}, {"n": 8, "name": "bob"}]
    with pipeline() as p:
        left = in_form(p, form, "orders", orders, [("fk", pa.float64())], key="n")
        right = in_form(p, form, "customers", customers, [("name", pa.string())], key="n")
        join = ForeignKeyJoin(lambda one, other: (one["n"], other and other["name"]), foreign_key="fk", how="left")
        joined = (left, right) | join
        joined = joined | TableToChanges()
        assert_that(joined | beam.Map(lambda change: change.new), equal_to([(1, "ann"), (2, None), (3, "bob")]))


NOTED = {"numbers and texts": ([1] * 50, [f"{n}" for n in range(50)]), "both on both sides": ([1, "a"] * 25, [*range(2, 51), "a"])}
WAYS = {
    "one worker": [],
    "two workers": ["--direct_num_workers=2", "--direct_running_mode=multi_threading"],
}


@pytest.mark.parametrize("noted", NOTED)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.each_value
def test_what_is_noted_of_keys_does_not_depend_on_bundles_or_workers(form, way, noted):
    left, right = map(Side, ("left", "right"), NOTED[noted])
    failed = ""
    try:
        with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(WAYS[way])) as p:
            assert_that(JOINS["inner foreign key"](p, form, left, right), equal_to([(n, 49) for n in range(1, 50, 2)]))
    except Exception as error:
        failed = str(error)
    if noted == "both on both sides":
        assert failed == ""
    else:
        assert "of kind number, the right table's keys of kind text: they are never equal" in failed
