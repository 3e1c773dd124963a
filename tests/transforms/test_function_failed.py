"""A function that raises is told in one error that names the transform, the option, the key and the records."""

import pickle

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import (
    AggregateTable,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    FunctionFailed,
    MapTable,
    TableFromChangelog,
    vectorized,
)
from tests.transforms.orders_that_raise import CUSTOMERS, ORDERS, joined, n_of, of_row, table

JOINS = {
    "foreign key": lambda: ForeignKeyJoin(joined, foreign_key="by"),
    "foreign key, left": lambda: ForeignKeyJoin(joined, foreign_key="by", how="left"),
    "foreign key, outer": lambda: ForeignKeyJoin(joined, foreign_key="by", how="outer"),
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("join", JOINS)
def test_a_joiner_that_raises_is_named_with_its_key_and_its_records(direct, join, form):
    with pytest.raises(FunctionFailed) as caught, direct() as p:
        (table(p, "orders", ORDERS[1:2], form), table(p, "customers", CUSTOMERS, form)) | "Enrich" >> JOINS[join]()
    key = "CombinedKey(foreign_key='ann', primary_key=2)" if "outer" in join else "2"
    message = (
        f"Enrich: joiner raised ValueError: n is not known for the key {key}, given {{'by': 'ann', 'id': 2, 'lsn': 3, 'n': None}},"
        " {'id': 'ann', 'lsn': 1, 'name': 'Ann'}"
    )
    assert str(caught.value).startswith(message)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), FunctionFailed)
    assert isinstance(caught.value.__context__.__cause__, ValueError)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda: FilterTable(of_row), "FilterTable: predicate raised ValueError: n is not known for the key 2, given {'by'"),
        (lambda: MapTable(of_row), "MapTable: fn raised ValueError: n is not known for the key 2, given"),
        (lambda: CountTable(group_by=of_row), "CountTable: group_by raised ValueError: n is not known for the key 2, given"),
        (
            lambda: AggregateTable(group_by="by", initial=0, add=of_row, subtract=of_row),
            "AggregateTable: add raised ValueError: n is not known for the key 'ann', given 0, {'by'",
        ),
        (
            lambda: AggregateTable(group_by="by", initial=lambda: n_of({"n": None}), add=of_row, subtract=of_row),
            "AggregateTable: initial raised ValueError: n is not known",
        ),
    ],
)
def test_a_function_that_raises_is_named_with_its_key_and_its_record(direct, transform, message):
    with pytest.raises(FunctionFailed) as caught, direct() as p:
        table(p, "orders", ORDERS[1:2]) | transform()
    assert str(caught.value).startswith(message)


def test_a_long_record_is_shortened(direct):
    with pytest.raises(FunctionFailed) as caught, direct() as p:
        table(p, "orders", [{"id": 1, "lsn": 1, "n": None, **{f"column {i}": "x" * 1000 for i in range(99)}}]) | MapTable(of_row)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"foreign_key": vectorized(lambda batch: batch["nothing"])},
            "foreign_key \\(vectorized, for . rows of id, by, n, lsn\\) raised KeyError",
        ),
        ({"joiner": vectorized(lambda left, right: left["nothing"])}, "joiner \\(vectorized, for . rows of .*\\) raised KeyError"),
    ],
)
def test_a_vectorized_function_that_raises_is_named_when_the_pipeline_is_built(direct, options, message):
    p = direct()
    with pytest.raises(ValueError, match=f"{message}.*; it is called with no rows when the pipeline is built"):
        tables = table(p, "orders", ORDERS[:1], "columns"), table(p, "customers", CUSTOMERS, "columns")
        tables | ForeignKeyJoin(**{"foreign_key": "by", "joiner": {"n": "left.n"}, **options})


def test_errors_of_ours_stay_as_they_are(direct):
    with pytest.raises(ValueError, match="a record has no column 'nothing'"), direct() as p:
        table(p, "orders", ORDERS) | CountTable(group_by="nothing")


@pytest.mark.parametrize("exc_class", [KeyboardInterrupt, 7, (), (ValueError, "x")])
def test_what_is_no_exception_class_is_refused(exc_class):
    with pytest.raises(ValueError, match="exc_class=.*: give a subclass of Exception, or a tuple of them"):
        MapTable(of_row).with_exception_handling(exc_class=exc_class)


def test_a_vectorized_function_cannot_be_handled():
    for transform in (
        ForeignKeyJoin(vectorized(lambda left, right: left), foreign_key="by"),
        TableFromChangelog(key=vectorized(lambda batch: batch["id"])),
    ):
        with pytest.raises(ValueError, match="has a vectorized function, which gets many records at once"):
            transform.with_exception_handling()


@pytest.mark.parametrize("form", ["records", "columns"])
def test_a_function_of_a_record_that_raises_is_named_without_a_key(direct, form):
    with pytest.raises(FunctionFailed) as caught, direct() as p:
        source = beam.Create([{"lsn": 1}]) if form == "records" else beam.Create([pa.table({"lsn": [1]})]).with_output_types(pa.Table)
        p | source | TableFromChangelog(key=lambda record: record["id"], sequence_by="lsn", timestamp_by="lsn")
    assert str(caught.value).startswith("TableFromChangelog: key raised KeyError: 'id', given {'lsn': 1}")
