"""DistinctTable, UnionTables, and MapTable with other keys."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    CombinedKey,
    DistinctTable,
    Dropped,
    ManyToManyJoin,
    MapTable,
    TableFromChangelog,
    TableToChanges,
    UnionTables,
    vectorized,
)
from beam_joins.transforms.engine.construction.table_type import table_type

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int8()), ("at", pa.int64())])
ROWS = [
    {"id": 1, "city": "Rome", "n": 1, "at": 1},
    {"id": 2, "city": "Rome", "n": 1, "at": 2},
    {"id": 3, "city": None, "n": 1, "at": 3},
    {"id": 1, "city": "Oslo", "n": 2, "at": 4},
    {"id": 2, "city": "Oslo", "n": 2, "at": 5},
]
FORMS = pytest.mark.parametrize("form", ["records", "columns"])


def table(p, form, rows=ROWS, schema=SCHEMA, name="table", **options):
    typed = form == "columns"
    source = beam.Create([pa.Table.from_pylist(rows, schema)]).with_output_types(pa.Table) if typed else beam.Create(rows)
    columns = {"key": "id", "sequence_by": "at", "timestamp_by": "at", "except_columns": ["id", "at"], **options}
    return p | f"{name} rows" >> source | name >> TableFromChangelog(**columns)


def changes(got):
    return got | TableToChanges() | beam.Map(lambda change: (change.key, change.old, change.new, change.position))


@FORMS
def test_a_distinct_row_comes_with_its_first_row_and_goes_with_its_last(direct, form):
    with direct() as p:
        cities = table(p, form) | DistinctTable(columns=["city"])
        rome, none, oslo = {"city": "Rome"}, {"city": None}, {"city": "Oslo"}
        expected = [(("Rome",), None, rome, 1), ((None,), None, none, 3), (("Oslo",), None, oslo, 4), (("Rome",), rome, None, 5)]
        assert_that(changes(cities), equal_to(expected))


def test_without_columns_all_of_a_typed_table_are_distinct(direct):
    with direct() as p:
        rows = table(p, "columns", ROWS[:2]) | DistinctTable()
        assert table_type(rows).value == pa.struct([("city", pa.string()), ("n", pa.int8())])
        assert table_type(rows).key == pa.struct([("city", pa.string()), ("n", pa.int64())])
        assert_that(changes(rows), equal_to([(("Rome", 1), None, {"city": "Rome", "n": 1}, 1)]))


def test_the_columns_of_opaque_rows_have_to_be_named(direct):
    with pytest.raises(ValueError, match="the columns of this table are not known: give columns=, or the table schema="):
        _ = table(direct(), "records") | DistinctTable()


@FORMS
def test_rows_of_tables_with_one_key_are_told_by_the_names_of_their_tables(direct, form):
    with direct() as p:
        web, shop = table(p, form, ROWS[:1], name="web"), table(p, form, ROWS[:1], name="shop")
        row = {"city": "Rome", "n": 1}
        united = {"web": web, "shop": shop} | UnionTables(tables=["web", "shop"])
        assert_that(changes(united), equal_to([(CombinedKey(name, 1), None, row, 1) for name in ("web", "shop")]))


def test_a_union_has_the_columns_of_all_tables_in_types_that_hold_them(direct):
    other = pa.schema([("id", pa.string()), ("n", pa.int64()), ("at", pa.int64())])
    for keys in ("tagged", "disjoint"):
        with direct() as p:
            left = table(p, "columns", ROWS[:1], name="left")
            right = table(p, "columns", [{"id": "x", "n": 2**40, "at": 7}] if keys == "tagged" else [], other, "right")
            if keys == "disjoint":
                right = table(p, "columns", [{"id": 9, "n": 2**40, "at": 7}], other.set(0, pa.field("id", pa.int64())), "right again")
            united = (left, right) | UnionTables(keys=keys)
            key = CombinedKey if keys == "tagged" else (lambda name, key: key)
            last = "x" if keys == "tagged" else 9
            rows = [(key("left", 1), None, {"city": "Rome", "n": 1}, 1), (key("right", last), None, {"city": None, "n": 2**40}, 7)]
            assert_that(changes(united), equal_to(rows))


def test_a_union_of_tables_with_keys_of_two_types_goes_on_as_a_table(direct):
    other = SCHEMA.set(0, pa.field("id", pa.string()))
    with direct() as p:
        left, right = table(p, "columns", ROWS[:1], name="left"), table(p, "columns", [{**ROWS[0], "id": "x"}], other, name="right")
        united = (left, right) | UnionTables()
        pairs = (united, left) | ManyToManyJoin({"n": "left.n", "city": "right.city"}, on="city")
        row = {"city": "Rome", "n": 1}
        rows = [(CombinedKey(CombinedKey(name, key), 1), None, row, 1) for name, key in (("left", 1), ("right", "x"))]
        assert_that(changes(pairs), equal_to(rows))


@FORMS
def test_tables_with_keys_of_their_own_keep_them_and_a_row_may_move_from_one_to_the_other(direct, form):
    gone = {"apply_as_deletes": lambda row: row["n"] == 0}
    left = [{"id": 1, "city": "Rome", "n": 1, "at": 1}, {"id": 1, "city": "Rome", "n": 0, "at": 3}]
    with direct() as p:
        one, other = (
            table(p, "records", left, name="one", **gone),
            table(p, "records", [{"id": 1, "city": "Oslo", "n": 2, "at": 3}], name="other"),
        )
        united = (one, other) | UnionTables(keys="disjoint")
        rome, oslo = {"city": "Rome", "n": 1}, {"city": "Oslo", "n": 2}
        assert_that(changes(united), equal_to([(1, None, rome, 1), (1, rome, oslo, 3)]))


def test_two_tables_with_one_key_at_a_position_fail_the_run_by_name(direct):
    sentence = "the web table and the shop table both have a row with the key 1: use keys='tagged'"
    with pytest.raises(Exception, match=sentence), direct() as p:
        web, shop = table(p, "columns", ROWS[:1], name="web"), table(p, "columns", ROWS[:2], name="shop")
        _ = (web, shop) | UnionTables(tables=["web", "shop"], keys="disjoint")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tables": ["a"]}, "give each of two or more tables a name of its own"),
        ({"tables": ["a", "a"]}, "give each of two or more tables a name of its own"),
        ({"keys": "same"}, "keys='same': choose one of 'tagged', 'disjoint'"),
    ],
)
def test_a_wrong_option_of_a_union_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        UnionTables(**options)


def test_tables_without_a_common_type_are_refused_when_applied(direct):
    p = direct()
    text = SCHEMA.set(2, pa.field("n", pa.string()))
    one, other, opaque = table(p, "columns"), table(p, "columns", [], text, "other"), table(p, "records", name="opaque")
    with pytest.raises(ValueError, match="UnionTables: the column 'n' was int8 and is string, which does not hold all of its values"):
        _ = (one, other) | UnionTables()
    with pytest.raises(ValueError, match="the right table has Python objects and the left table typed columns: give both a schema="):
        _ = (one, opaque) | "again" >> UnionTables()


@pytest.mark.parametrize(
    ("form", "key"),
    [(form, key) for form in ("records", "columns") for key in ("a column", "a function", *["vectorized"] * (form == "columns"))],
)
def test_rows_get_the_key_that_their_values_say_and_move_with_it(direct, form, key):
    keys = {
        "a column": "city",
        "a function": lambda key, row: row["city"],
        "vectorized": vectorized(lambda rows: pc.utf8_upper(rows["city"])),
    }
    rows = [ROWS[0], ROWS[3]]
    with direct() as p:
        keyed = table(p, form, rows) | MapTable(key=keys[key])
        one, two = ({"city": row["city"], "n": row["n"]} for row in rows)
        rome, oslo = ("ROME", "OSLO") if key == "vectorized" else ("Rome", "Oslo")
        assert_that(changes(keyed), equal_to([(rome, None, one, 1), (rome, one, None, 4), (oslo, None, two, 4)]))


def test_the_new_key_is_of_the_new_values_and_a_null_one_drops_the_row(direct):
    with direct() as p:
        outputs = (
            table(p, "records", ROWS[:3])
            | MapTable(lambda key, row: {"place": row["city"] and f"{row['city']} {key}"}, key="place").with_outputs()
        )
        expected = [("Rome 1", None, {"place": "Rome 1"}, 1), ("Rome 2", None, {"place": "Rome 2"}, 2)]
        assert_that(changes(outputs.table), equal_to(expected))
        assert_that(
            outputs.dropped | beam.Map(lambda dropped: (type(dropped), dropped.reason, dropped.timestamp)),
            equal_to([(Dropped, "null_key", 3)]),
            label="d",
        )


def test_two_rows_with_one_key_at_a_position_fail_the_run_with_both_named(direct):
    sentence = "the rows with the keys 1 and 2 both have the key 'Rome' at position 2: give a key that is unique"
    with pytest.raises(Exception, match=sentence), direct() as p:
        _ = table(p, "columns", ROWS[:2]) | MapTable(key="city")


def test_a_map_without_a_key_drops_nothing(direct):
    with direct() as p:
        outputs = table(p, "records", ROWS[:1]) | MapTable(lambda key, row: row["n"]).with_outputs()
        assert_that(changes(outputs.table), equal_to([(1, None, 1, 1)]))
        assert_that(outputs.dropped, equal_to([]), label="dropped")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give fn, a function of key and value, or key=, or both"),
        ({"key": "a", "schema": SCHEMA}, "leave schema= out without one"),
        ({"key": []}, r"key=\[\]: give a field name, a list of field names, or a function of key and value"),
    ],
)
def test_a_wrong_option_of_a_map_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        MapTable(**options)
