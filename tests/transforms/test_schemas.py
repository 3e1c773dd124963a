"""The columns of a changelog are known when the pipeline is built, or it says how to declare them; wrong
names are found there.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, FilterTable, LatestTable, MapTable, TableFromChangelog, TableTableJoin, TableToChanges, vectorized
from beam_joins.transforms.engine.construction.table_type import table_type


class Order(NamedTuple):
    id: int
    lsn: int
    shop: str | None


@dataclass
class Item:
    id: int
    lsn: int
    shop: str


ROWS = [{"id": 1, "lsn": 7, "shop": "a"}, {"id": 2, "lsn": 8, "shop": None}, {"id": 1, "lsn": 9, "shop": "b"}]
SCHEMA = pa.schema([("id", pa.int32()), ("lsn", pa.int64()), ("shop", pa.string())])
VALUE = pa.struct([("shop", pa.string())])
CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "except_columns": ["id", "lsn"]}
TABLE = [Change(1, None, {"shop": "a"}, 7, 7), Change(2, None, {"shop": None}, 8, 8), Change(1, {"shop": "a"}, {"shop": "b"}, 9, 9)]
LOGS = {
    "dicts": (lambda: beam.Create(ROWS), SCHEMA),
    "dicts of a named tuple's columns": (lambda: beam.Create(ROWS), Order),
    "named tuples": (lambda: beam.Create([Order(**row) for row in ROWS]), Order),
    "objects": (lambda: beam.Create([Item(**row) for row in ROWS]), SCHEMA),
    "rows": (lambda: beam.Create([beam.Row(**row) for row in ROWS]), SCHEMA),
    "Arrow tables of a step that does not say their columns": (
        lambda: "rows" >> beam.Create(ROWS) | beam.Map(lambda row: pa.Table.from_pylist([row])).with_output_types(pa.Table),
        SCHEMA,
    ),
    "Arrow tables": (lambda: beam.Create([pa.Table.from_pylist(ROWS)]), None),
}


@pytest.mark.parametrize("log", LOGS)
def test_a_changelog_with_a_schema_is_a_table_of_typed_columns(direct, log):
    create, schema = LOGS[log]
    with direct() as p:
        table = p | create() | TableFromChangelog(**CDC, schema=schema)
        reference = table_type(table)
        assert (reference.key, reference.value, reference.is_typed) == (pa.int64(), VALUE, True)
        assert_that(table | TableToChanges(), equal_to(TABLE), label="changes")
        rows = table | LatestTable() | beam.FlatMap(lambda batch: zip(*batch.to_pydict().values(), strict=True))
        assert_that(rows, equal_to([(1, {"shop": "b"}, 9), (2, {"shop": None}, 8)]), label="latest")


def test_a_key_of_several_fields_and_pairs_may_be_typed_too(direct):
    with direct() as p:
        table = p | beam.Create(ROWS[::2]) | TableFromChangelog(**{**CDC, "key": ["shop", "id"]}, schema=SCHEMA)
        assert table_type(table).key == pa.struct([("shop", pa.string()), ("id", pa.int64())])
        assert_that(table | TableToChanges() | beam.Map(lambda c: c.key), equal_to([("a", 1), ("b", 1)]), label="keys")
        pairs = p | "pairs" >> beam.Create([("k", {"n": 1}), ("k", None)]) | "of pairs" >> TableFromChangelog(
            sequence_by=lambda pair: 1 if pair[1] else 2, timestamp_by=lambda pair: 0, schema=pa.schema([("n", pa.int8())])
        )  # fmt: skip
        assert (table_type(pairs).key, table_type(pairs).value) == (Any, pa.struct([("n", pa.int8())]))
        changes = [Change("k", None, {"n": 1}, 0, 1), Change("k", {"n": 1}, None, 0, 2)]
        assert_that(pairs | "changes of pairs" >> TableToChanges(), equal_to(changes), label="pairs")


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "x", "lsn": 1, "shop": "a"}, "the key of a record gave 'x' (str) for the column 'id' of type int32"),
        ({"id": 1, "lsn": 1, "shop": 7}, "a record gave 7 (int) for the column 'shop' of type string"),
        ({"id": 1, "lsn": 1}, "a record has no column 'shop'"),
        ({"id": 1, "lsn": 1, "shop": "a", "Shop": "b"}, "a record gave the field 'Shop', and schema= has id, lsn, shop"),
    ],
)
def test_a_record_that_does_not_fit_the_schema_stops_the_run(direct, row, complaint):
    with pytest.raises(Exception, match=re.escape(complaint)), direct() as p:
        _ = p | beam.Create([row]) | TableFromChangelog(**CDC, schema=SCHEMA)


def test_a_batch_with_a_column_that_is_not_known_or_of_another_type_stops_the_run(direct):
    reference = pa.Table.from_pylist(ROWS)
    for inputs, complaint in (
        (
            reference.append_column("more", pa.array([1, 2, 3])),
            "has the column 'more', and the columns are known to be id, lsn, shop: give all",
        ),
        (
            reference.set_column(2, "shop", pa.array([b"a", b"b", b"c"])),
            "a batch gave b'a' .* for the column 'shop' of type string, and it is of type binary",
        ),
        (
            reference.set_column(0, "id", pa.array(["a", "b", "c"])),
            "a batch gave 'a' .* for the column 'id' of type int32, and it is of type string",
        ),
    ):
        with pytest.raises(Exception, match=complaint), direct() as p:
            _ = p | beam.Create([inputs]) | TableFromChangelog(**CDC, schema=SCHEMA)


@pytest.mark.parametrize("log", ["dicts", "named tuples", "objects", "rows", "Arrow tables"])
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": "nope"}, "key='nope': .* no such column; .* id, lsn, shop"),
        ({"key": ["id", "nope"]}, "key='nope': .* no such column"),
        ({"timestamp_by": "nope"}, "timestamp_by='nope': .* no such column"),
        ({"sequence_by": ["lsn", "nope"]}, "sequence_by='nope': .* no such column"),
        ({"tie_break_by": "nope"}, "tie_break_by='nope': .* no such column"),
        ({"apply_as_deletes": {"nope": ["d"]}}, "apply_as_deletes='nope': .* no such column"),
        ({"except_columns": ["nope"]}, "except_columns names nope, which no record has; there are id, lsn, shop"),
    ],
)
def test_a_column_that_is_not_there_is_refused_when_the_pipeline_is_built(direct, log, options, complaint):
    create, schema = LOGS[log]
    with pytest.raises(ValueError, match=complaint):
        _ = direct() | create() | TableFromChangelog(**{**CDC, **options}, schema=schema)


def test_columns_that_nobody_knows_are_asked_for(direct):
    p = direct()
    for name, log in (("none", beam.Create([]).with_output_types(pa.Table)), ("mapped", LOGS[list(LOGS)[5]][0]())):
        with pytest.raises(ValueError, match="not known when the pipeline is built: read it with ReadParquet, or give schema="):
            _ = p | name >> log | f"table of {name}" >> TableFromChangelog(**CDC)


def test_a_vectorized_function_is_called_with_no_rows_and_one_that_cannot_be_says_so(direct):
    tables = LOGS["Arrow tables"][0]
    with pytest.raises(ValueError, match=r"key \(vectorized, for 0 rows of id, lsn, shop\) raised .*; it is called with no rows when"):
        _ = direct() | tables() | TableFromChangelog(**{**CDC, "key": vectorized(lambda rows: rows["id"][0])})
    with pytest.raises(ValueError, match="key is vectorized, and this changelog is not of Arrow tables"):
        _ = direct() | LOGS["dicts"][0]() | TableFromChangelog(**{**CDC, "key": vectorized(lambda rows: rows["id"])}, schema=SCHEMA)


@pytest.mark.parametrize("option", [lambda rows: rows["shop"].is_valid(), vectorized(lambda rows: rows["shop"].is_valid())])
def test_a_filter_of_columns_gives_columns(direct, option):
    predicate = option if isinstance(option, vectorized) else lambda key, row: row["shop"] is not None
    with direct() as p:
        table = p | LOGS["Arrow tables"][0]() | TableFromChangelog(**CDC)
        kept = table | FilterTable(predicate)
        assert table_type(kept).is_typed
        assert_that(kept | TableToChanges(), equal_to([TABLE[0], TABLE[2]]), label="kept")
        others = table | "others" >> FilterTable(predicate, negate=True)
        assert_that(others | "changes of others" >> TableToChanges(), equal_to([TABLE[1]]), label="others")


def test_mapped_values_are_columns_where_they_are_declared_or_computed(direct):
    upper = vectorized(lambda rows: {"n": pa.compute.utf8_upper(rows["shop"])})
    with direct() as p:
        table = p | LOGS["Arrow tables"][0]() | TableFromChangelog(**CDC)
        for name, mapped in {
            "computed": MapTable(upper),
            "declared": MapTable(lambda key, row: {"n": row["shop"] and row["shop"].upper()}, schema=pa.schema([("n", pa.string())])),
        }.items():
            inputs = table | name >> mapped
            assert table_type(inputs).value == pa.struct([("n", pa.string())])
            seen = (
                inputs
                | f"changes {name}" >> TableToChanges()
                | f"seen {name}" >> beam.Map(lambda c: (c.old and c.old["n"], c.new["n"]))
            )
            assert_that(seen, equal_to([(None, "A"), (None, None), ("A", "B")]), label=name)
    with pytest.raises(ValueError, match="schema= says what a function of one record gives"):
        MapTable(upper, schema=SCHEMA)
    with pytest.raises(ValueError, match="the values of this table are Python objects .opaque."):
        _ = direct() | beam.Create([("k", 1)]) | TableFromChangelog() | MapTable(upper)


class Named(NamedTuple):
    words: frozenset[str]
    more: dict[str, Any]


def test_options_are_displayed_as_they_were_given_in_each_process_alike():
    shown = TableFromChangelog(**CDC, apply_as_deletes=vectorized(max)).display_data()
    assert shown == {
        "key": "id",
        "sequence_by": "lsn",
        "timestamp_by": "lsn",
        "except_columns": "['id', 'lsn']",
        "apply_as_deletes": "vectorized(max)",
    }
    made = Named(frozenset({"u", "i", "d"}), {"a": [frozenset({"y", "x"})]})
    of_nested = TableFromChangelog(unchanged_by="n", completed_by=partial(max, made)).display_data()
    assert of_nested["completed_by"] == "partial(max, Named(words=['d', 'i', 'u'], more={'a': [['x', 'y']]}))"
    assert FilterTable(max, negate=True).display_data() == {"predicate": "max", "negate": True}


BAD = {"id": 2, "lsn": 2, "shop": "b", "n": 1.5}
GOOD = {"id": 1, "lsn": 1, "shop": "a", "n": 1.0}
ROW = {"shop": "b", "n": 1.5}
COMPLAINT = "a batch gave 1.5 (float) for the column 'n' of type int64"
WITH_N = pa.schema([*SCHEMA, ("n", pa.int64())])


@pytest.mark.parametrize(
    ("where", "transform", "bad"),
    [
        ("records", TableFromChangelog(**CDC, schema=WITH_N), BAD),
        ("map", MapTable(lambda key, row: {"n": row["n"]}, schema=pa.schema([("n", pa.int64())])), Change(2, None, ROW, 2, 2)),
        ("join", TableTableJoin(lambda one, other: {"n": other["n"]}, schema=pa.schema([("n", pa.int64())])), (2, ROW, ROW)),
    ],
)
def test_a_value_that_does_not_fit_the_schema_is_a_bad_record_where_these_are_handled(direct, where, transform, bad):
    with direct() as p:
        inputs = p | beam.Create([GOOD, BAD])
        if where != "records":
            inputs = inputs | TableFromChangelog(**CDC)
        made, failed = ((inputs, inputs) if where == "join" else inputs) | transform.with_exception_handling()
        assert_that(made | TableToChanges() | beam.Map(lambda change: (change.key, change.new["n"])), equal_to([(1, 1)]), label="good")
        assert_that(failed | beam.Map(lambda pair: (pair[0], pair[1][0])), equal_to([(bad, "ValueError")]), label="bad")


def test_a_row_of_a_batch_that_does_not_fit_the_schema_is_a_bad_record_where_these_are_handled(direct):
    with direct() as p:
        batch = pa.Table.from_pylist([GOOD, BAD])
        made, failed = p | beam.Create([batch]) | TableFromChangelog(**CDC, schema=WITH_N).with_exception_handling()
        assert_that(made | TableToChanges() | beam.Map(lambda change: (change.key, change.new["n"])), equal_to([(1, 1)]), label="good")
        assert_that(failed | beam.Map(lambda pair: (pair[0], pair[1][1].partition(",")[0])), equal_to([(BAD, COMPLAINT)]), label="bad")


def test_a_batch_with_a_column_that_is_not_known_stops_the_run_where_bad_records_are_handled(direct):
    batch = pa.Table.from_pylist([{**GOOD, "more": 1}])
    with pytest.raises(Exception, match="has the column 'more'"), direct() as p:
        _ = p | beam.Create([batch]) | TableFromChangelog(**CDC, schema=WITH_N).with_exception_handling()
