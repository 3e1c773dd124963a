"""ManyToManyJoin: the forms of its options, what it drops, and what it refuses."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    CombinedKey,
    Dropped,
    LatestTable,
    ManyToManyJoin,
    TableFromChangelog,
    TableToChanges,
    vectorized,
    with_key,
)

SHOPS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("since", pa.int64()), ("lsn", pa.int64())])
SHOP_ROWS = [
    {"id": 1, "city": "Rom", "since": 5, "lsn": 11},
    {"id": 2, "city": "Rom", "since": 9, "lsn": 12},
    {"id": 3, "city": None, "since": 1, "lsn": 13},
]
PEOPLE_ROWS = [
    {"id": "ann", "city": "Rom", "since": 7, "lsn": 4},
    {"id": "bob", "city": "Oslo", "since": 8, "lsn": 5},
]
PEOPLE = SHOPS.set(0, pa.field("id", pa.string()))


def table(p, label, rows, schema=None):
    source = beam.Create(rows) if schema is None else beam.Create([pa.Table.from_pylist(rows, schema)]).with_output_types(pa.Table)
    return p | f"{label} rows" >> source | label >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")


def both(p, form):
    schemas = (SHOPS, PEOPLE) if form == "columns" else (None, None)
    return table(p, "shops", SHOP_ROWS, schemas[0]), table(p, "people", PEOPLE_ROWS, schemas[1])


def names(left, right):
    return f"{left and left['id']} {right and right['id']}"


def changes(joined):
    return joined | TableToChanges() | beam.Map(lambda change: (change.key, change.new))


IN_TIME = [
    lambda shop, person: shop["since"] <= person["since"],
    vectorized(lambda shops, people: pc.less_equal(shops["since"], people["since"])),
    pc.field("left", "since") <= pc.field("right", "since"),
]


@pytest.mark.parametrize("condition", IN_TIME, ids=["of a record", "vectorized", "expression"])
def test_a_condition_of_any_form_says_which_pairs_match(direct, condition):
    with direct() as p:
        joined = both(p, "columns") | ManyToManyJoin(names, on="city", condition=condition, how="left")
        expected = [(CombinedKey(1, "ann"), "1 ann"), (CombinedKey(2, None), "2 None"), (CombinedKey(3, None), "3 None")]
        assert_that(changes(joined), equal_to(expected))


ON = {
    "a column": {"on": "city"},
    "columns of each table": {"left_on": "city", "right_on": ["city"]},
    "several columns": {"on": ["city", "city"]},
    "functions": {"left_on": lambda key, shop: shop["city"], "right_on": lambda key, person: person["city"]},
    "a column and a function": {"left_on": "city", "right_on": lambda key, person: person["city"]},
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("on", ON.values(), ids=list(ON))
def test_join_keys_of_any_form_meet(direct, form, on):
    with direct() as p:
        joined = both(p, form) | ManyToManyJoin(names, **on)
        assert_that(changes(joined), equal_to([(CombinedKey(1, "ann"), "1 ann"), (CombinedKey(2, "ann"), "2 ann")]))


def test_a_vectorized_function_gives_the_join_keys_of_typed_tables(direct):
    upper = vectorized(lambda rows: pc.utf8_upper(rows["city"]))
    with direct() as p:
        joined = both(p, "columns") | ManyToManyJoin({"n": "right.id"}, left_on=upper, right_on=upper)
        assert_that(changes(joined), equal_to([(CombinedKey(n, "ann"), {"n": "ann"}) for n in (1, 2)]))


def test_a_semi_join_keeps_left_rows_as_they_are_and_an_anti_join_the_others(direct):
    with direct() as p:
        tables = both(p, "columns")
        for how, expected in (("semi", [1, 2]), ("anti", [3])):
            kept = tables | how >> ManyToManyJoin(on="city", how=how) | f"{how} rows" >> LatestTable()
            ids = kept | f"{how} ids" >> beam.FlatMap(
                lambda batch: zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            )
            assert_that(ids | f"{how} keys" >> beam.Keys(), equal_to(expected), label=how)


def test_rows_without_a_join_key_are_dropped_on_both_sides_where_they_are_not_kept(direct):
    people = [*PEOPLE_ROWS, {"id": "cy", "city": None, "since": 1, "lsn": 9}]
    lost = {"shops": Dropped("null_join_key", Change(3, None, SHOP_ROWS[2], 13, 13), 13)}
    lost["people"] = Dropped("null_join_key", Change("cy", None, people[-1], 9, 9), 9)
    with direct() as p:
        tables = table(p, "shops", SHOP_ROWS), table(p, "people", people)
        for how, dropped in (("inner", ["shops", "people"]), ("left", ["people"]), ("right", ["shops"]), ("outer", [])):
            outputs = tables | how >> ManyToManyJoin(names, on="city", how=how).with_outputs()
            assert_that(outputs.dropped, equal_to([lost[name] for name in dropped]), label=how)


def test_a_pair_whose_condition_raises_does_not_match_and_is_told_with_its_key(direct):
    def of_rome(shop, person):
        return {1: True}[shop["id"]]

    with direct() as p:
        joined, bad = both(p, "records") | ManyToManyJoin(names, on="city", condition=of_rome).with_exception_handling()
        assert_that(changes(joined), equal_to([(CombinedKey(1, "ann"), "1 ann")]))
        told = bad | beam.Map(lambda each: (each[0], each[1][:2]))
        assert_that(told, equal_to([((CombinedKey(2, "ann"), SHOP_ROWS[1], PEOPLE_ROWS[0]), ("KeyError", "2"))]), label="bad")


def test_a_joiner_with_the_key_gets_that_of_the_pair(direct):
    with direct() as p:
        joined = both(p, "records") | ManyToManyJoin(with_key(lambda key, left, right: tuple(key)), on="city", how="left")
        keys = [(1, "ann"), (2, "ann"), (3, None)]
        assert_that(changes(joined), equal_to([(CombinedKey(*key), key) for key in keys]))


def test_a_row_that_meets_itself_moves_with_itself(direct):
    """Both rows of a pair have another join key at one position: one change."""
    rows = [{"id": 1, "city": "Rom", "lsn": 1}, {"id": 1, "city": "Oslo", "lsn": 2}]
    with direct() as p:
        shops = table(p, "shops", rows)
        joined = (shops, shops) | ManyToManyJoin(lambda left, right: (left["city"], right["city"]), on="city", how="outer")
        moved = Change(CombinedKey(1, 1), ("Rom", "Rom"), ("Oslo", "Oslo"), 2, 2)
        assert_that(joined | TableToChanges(), equal_to([Change(CombinedKey(1, 1), None, ("Rom", "Rom"), 1, 1), moved]))


def test_the_rows_of_a_result_may_be_joined_again(direct):
    with direct() as p:
        shops, people = both(p, "columns")
        pairs = (shops, people) | ManyToManyJoin({"city": "left.city", "who": "right.id"}, on="city")
        again = (pairs, people) | "again" >> ManyToManyJoin({"who": "left.who", "id": "right.id"}, left_on="who", right_on="id")
        assert_that(
            changes(again), equal_to([(CombinedKey(CombinedKey(n, "ann"), "ann"), {"who": "ann", "id": "ann"}) for n in (1, 2)])
        )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give the columns that are equal: on, with the same names in both tables, or left_on and right_on"),
        ({"on": "a", "left_on": "a", "right_on": "a"}, "give the columns that are equal"),
        ({"left_on": "a"}, "give the columns that are equal"),
        ({"on": max}, "give the names of columns of both tables; functions of one table each are left_on and right_on"),
        ({"on": []}, r"on=\[\]: give a field name, a list of field names,"),
        ({"left_on": ["a", "b"], "right_on": "c"}, "give as many columns of each table"),
        ({"on": "a", "how": "full"}, "how='full': choose one of 'inner', 'left', 'right', 'outer', 'semi', 'anti'"),
        (
            {"on": "a", "condition": "left.a < right.b"},
            "condition='left.a < right.b': give a function of the left and the right value",
        ),
        ({"on": "a", "condition": lambda left: True}, r"condition=<lambda>\(left\) is called with 2 arguments"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ManyToManyJoin(names, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"on": "town"}, "on='town': there is no such column; there are id, city, since"),
        ({"left_on": "city", "right_on": "since"}, "joins join keys of type string with keys of type int64: they are never equal"),
        ({"on": "city", "condition": pc.field("left", "till") < 3}, "condition=.*till"),
        ({"on": "city", "condition": pc.field("left", "since") + 1}, "condition gave values of type int64: give true for a pair"),
        ({"on": "city", "condition": vectorized(lambda left, right: left["since"])}, "condition gave values of type int64"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_when_applied(direct, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        _ = both(direct(), "columns") | ManyToManyJoin({"n": "left.id"}, **options)


def test_join_keys_of_kinds_that_are_never_equal_fail_the_run(direct):
    join = ManyToManyJoin(names, left_on=lambda key, shop: shop["since"], right_on=lambda key, person: person["city"])
    with (
        pytest.raises(Exception, match="the left table's join keys are of kind number, the right table's join keys of kind text"),
        direct() as p,
    ):
        _ = both(p, "records") | join
