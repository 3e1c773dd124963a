"""View: queries as trees of relations, against recomputation at every position; and what trees are."""

import random
import re
from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, StateRefused, TableToChanges, View, content, views
from beam_joins import aggregates as agg
from beam_joins.transforms.connect.tables import table_type
from beam_joins.views.columns_needed import with_needed_columns
from beam_joins.views.row_keys import joined_by, row_key
from tests.pipelines.streaming.jobs import Append, written
from tests.reference.random_views import SCHEMAS, contents, history, view
from tests.transforms.changelog_tables import changelog, changelog_tables

ORDERS = views.table("orders", pa.schema({"id": pa.int64(), "by": pa.int64(), "amount": pa.int64(), "note": pa.string()}), key="id")
PEOPLE = views.table("people", pa.schema({"id": pa.int64(), "city": pa.string(), "name": pa.string()}), key="id")
PLACES = views.table("places", pa.schema({"person": pa.int64(), "floor": pa.int8()}), key="person")
LOG = {
    "orders": [[1, 7, 5, "x", 1], [2, 7, 20, "y", 3], [3, 8, 9, "z", 5]],
    "people": [[7, "Oslo", "Ann", 2], [8, "Oslo", "Bob", 4], [7, "Rome", "Ann", 6]],
    "places": [[7, 1, 1], [8, 2, 7]],
}


def tables(p, schemas=None, rows=None):
    """The tables of the relations above, or of schemas and keys, as a pipeline makes them of their rows."""
    schemas = schemas or {each.name: (each.schema, each.key) for each in (ORDERS, PEOPLE, PLACES)}
    logs = {}
    for name, (schema, key) in schemas.items():
        listed = rows[name] if rows else [dict(zip([*schema.names, "position"], row, strict=True)) for row in LOG[name]]
        logs[name] = changelog(listed, schema), key
    return changelog_tables(p, logs)


def bag(rows):
    return Counter(tuple(sorted((name, repr(value)) for name, value in row.items())) for row in rows)


def answers(changes, made, log):
    """Raises for the first position at which the rows of a view are not those of recomputation."""
    for position in range(-1, max(row["position"] for rows in log.values() for row in rows) + 1):
        kept, expected = bag(content(changes, position).values()), bag(made.answer(contents(log, position)))
        assert kept == expected, f"at {position}:\n{made.relation}\n{kept - expected}\n{expected - kept}"


def drawn(chance, count):
    made = []
    while len(made) < count:
        try:
            made.append(view(chance, chance.randint(1, 3)))
        except ValueError:  # columns of one name
            continue
    return made


@pytest.mark.parametrize("seed", range(3))
def test_a_random_view_is_right_at_every_position(direct, seed):
    chance = random.Random(seed)
    log = history(chance, 30)
    made = drawn(chance, 8)
    with direct() as p:
        inputs = tables(p, SCHEMAS, log)
        for number, each in enumerate(made):
            changes = inputs | f"view {number}" >> View(each.relation) | f"changes {number}" >> TableToChanges()
            assert_that(changes, lambda got, each=each: answers(got, each, log), label=f"right {number}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_random_views_are_right_at_every_position(direct, seed):
    test_a_random_view_is_right_at_every_position(direct, seed)


def test_a_join_by_the_key_of_a_side_is_one_with_a_foreign_key_and_keeps_the_key_of_the_other():
    cities = ORDERS.join(PEOPLE, left_on="by", right_on="id", columns={"order": "left.id", "city": "right.city"})
    assert (joined_by(cities), row_key(cities).columns) == ("reference", ("order",))
    mirrored = PEOPLE.join(ORDERS, left_on="id", right_on="by", how="right", columns={"order": "right.id", "city": "left.city"})
    assert (joined_by(mirrored), row_key(mirrored).columns) == ("referring", ("order",))
    assert joined_by(ORDERS.join(PEOPLE, left_on="by", right_on="id", condition=pc.field("left", "amount") > 1)) == "many"


def test_joins_by_one_key_are_one_step(direct):
    three = PEOPLE.join(PLACES, left_on="id", right_on="person", how="left", columns={"nr": "left.id", "floor": "right.floor"})
    three = three.join(PEOPLE, left_on="nr", right_on="id", how="semi")
    plan = View(three).explain().splitlines()
    assert [line.partition(":")[0] for line in plan] == [
        "semi join on nr = id | key",
        "  table people",
        "  table places",
        "  table people",
    ]
    with direct() as p:
        last = tables(p) | View(three) | TableToChanges() | beam.Filter(lambda change: change.position == 7)
        assert_that(last, equal_to([Change(8, {"nr": 8, "floor": None}, {"nr": 8, "floor": 2}, 7, 7)]))


def test_columns_that_nobody_needs_are_left_out_where_a_table_comes_in():
    by_city = (
        ORDERS.filter(pc.field("amount") > 1).join(PEOPLE, left_on="by", right_on="id").aggregate({"n": "count()"}, group_by="city")
    )
    read = [line.strip() for line in str(with_needed_columns(by_city)).splitlines() if "table" in line]
    assert read == ["table orders: by, amount", "table people: id, city"]


def test_the_key_of_a_view_is_made_of_its_columns_where_it_is_asked_for(direct):
    totals = ORDERS.join(PEOPLE, left_on="by", right_on="id").aggregate({"total": agg.sum("amount")}, group_by=["city"])
    with direct() as p:
        kept = tables(p) | View(totals.filter(pc.field("city").is_valid()), key="city")
        assert table_type(kept).key == pa.string()
        last = kept | TableToChanges() | beam.Filter(lambda change: change.position == 6) | beam.Map(lambda c: (c.key, c.new))
        assert_that(last, equal_to([("Oslo", {"city": "Oslo", "total": 9}), ("Rome", {"city": "Rome", "total": 25})]))


def test_a_single_table_needs_no_name(direct):
    with direct() as p:
        kept = tables(p)["orders"] | View(ORDERS.select({"nr": "id"}).filter(pc.field("nr") > 2)) | TableToChanges()
        assert_that(kept, equal_to([Change(3, None, {"nr": 3}, 5, 5)]))


def test_a_filter_guards_the_next_one(direct):
    tenth = pc.divide(pc.scalar(10), pc.field("amount") - 5)
    with direct() as p:
        kept = tables(p)["orders"] | View(ORDERS.filter(pc.field("amount") != 5).filter(tenth > 1).select("id")) | TableToChanges()
        assert_that(kept, equal_to([Change(3, None, {"id": 3}, 5, 5)]))


def test_a_tree_of_many_joins_is_compared_and_planned_at_once():
    def chain():
        made = PEOPLE
        for _ in range(30):
            made = made.join(PEOPLE, on="id", columns={"id": "left.id", "name": "right.name"})
        return made

    assert (chain() == chain(), row_key(chain()).columns) == (True, ("id",))


def test_a_key_that_the_table_does_not_have_is_refused_or_ends_the_run(direct):
    by_text = views.table("orders", ORDERS.schema, key="note")
    with pytest.raises(ValueError, match=re.escape("the key of 'orders' is note (string), and the keys of the table are int64")):
        _ = tables(beam.Pipeline())["orders"] | View(by_text)
    by_another = views.table("orders", ORDERS.schema, key="by")
    with pytest.raises(Exception, match="the key of 'orders' is by, and it has a row whose key is another"), direct() as p:
        _ = tables(p)["orders"] | View(by_another)


def test_trees_are_equal_where_they_mean_the_same():
    one = ORDERS.filter((pc.field("amount") > 1) & (pc.field("by") > 2)).select({"nr": "id", "by": "by"}).select(["nr"])
    other = ORDERS.filter((pc.field("amount") > 1) & (pc.field("by") > 2)).select({"nr": "id"})
    assert (one == other, hash(one) == hash(other)) == (True, True)
    for different in (
        ORDERS.filter((pc.field("amount") > pa.scalar(1, pa.int8())) & (pc.field("by") > 2)).select({"nr": "id"}),
        ORDERS.filter((pc.field("amount") > 1) & (pc.field("by") > 2)).select({"id": "id"}),
        views.table("orders", ORDERS.schema, key="by").filter((pc.field("amount") > 1) & (pc.field("by") > 2)).select({"nr": "id"}),
    ):
        assert one != different
    with pytest.raises(AttributeError):
        ORDERS.name = "x"


REFUSED = [
    (lambda: views.table("", ORDERS.schema, key="id"), "name='': give the name of the table"),
    (lambda: views.table("t", ORDERS.schema, key="nr"), "key='nr': there is no such column; there are id, by, amount, note"),
    (lambda: ORDERS.filter(pc.field("x") > 1), "filter=(x > 1): there is no column 'x'; there are id, by, amount, note"),
    (lambda: ORDERS.filter(pc.field("by")), "filter=by gives values of type int64: give an expression that is true or false"),
    (lambda: ORDERS.filter("by"), "filter='by': give an Arrow expression of columns"),
    (lambda: ORDERS.select("x"), "select='x': there is no such column"),
    (lambda: ORDERS.select({"x": 1}), "select: 1 is neither the name of a column nor an Arrow expression"),
    (lambda: ORDERS.join(PEOPLE), "give the columns that are equal: on"),
    (lambda: ORDERS.join(PEOPLE, on="by"), "right_on='by': there is no such column; there are id, city, name"),
    (lambda: ORDERS.join(PEOPLE, on="id", how="full"), "how='full': choose one of 'inner', 'left', 'right', 'outer', 'semi', 'anti'"),
    (lambda: ORDERS.join(PEOPLE, on="id", columns={"a": "city"}), 'give "left.<column>" or "right.<column>"; select computes others'),
    (lambda: ORDERS.join(PEOPLE, on="id", how="semi", columns={"a": "right.city"}), 'give "left.<column>"; select computes others'),
    (lambda: ORDERS.join(PEOPLE, on="id", condition=pc.field("left", "amount")), "gives values of type int64"),
    (lambda: ORDERS.aggregate({"n": "sum(note)"}), "aggregates: n: values of type string cannot be added"),
    (lambda: ORDERS.aggregate({"by": "count()"}, group_by="by"), "aggregates: 'by' is a column of group_by too"),
    (lambda: ORDERS.aggregate({"n": agg.sum(lambda key, row: 1)}), "give the name of a column, or an Arrow expression"),
    (lambda: ORDERS.union(PEOPLE), "union: the relations have not the same columns"),
    (lambda: View(1), "query=1: give SQL, or a relation of beam_joins.views, which begins with views.table(...)"),
    (lambda: View(ORDERS, key="nr"), "key='nr': there is no such column"),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED)
def test_what_is_no_query_is_refused_at_construction(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_tables_that_do_not_fit_the_query_are_named_when_it_is_applied():
    both, given = ORDERS.join(PEOPLE, left_on="by", right_on="id"), tables(beam.Pipeline())
    narrow = views.table("orders", pa.schema({"id": pa.int32(), "x": pa.int64()}), key="id")
    for number, (query, inputs, sentence) in enumerate(
        [
            (both, {"orders": given["orders"]}, "the query reads the table 'people': apply it to a dict with orders, people"),
            (both, given["orders"], "the query reads the table 'people': apply it to a dict with orders, people"),
            (narrow.select("x"), given["orders"], "the table 'orders' has no column 'x'; it has id, by, amount, note"),
            (narrow.select("id"), given["orders"], "the column 'id' of 'orders' is int64, and int32 in the query"),
        ]
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            _ = inputs | f"view {number}" >> View(query)


def run_with_state(folder, queries, log, *options):
    """The changes that a run gives of each query, and how the result begins anew."""
    out = folder / f"run {len([*folder.glob('run *')])}"
    out.mkdir()
    given = PipelineOptions([f"--beam_joins_state={folder}/state", "--beam_joins_partitions=3", *options])
    with beam.Pipeline(runner=FnApiRunner(), options=given) as p:
        inputs = tables(p, SCHEMAS, log)
        for number, query in enumerate(queries):
            kept = inputs | f"view {number}" >> View(query)
            _ = kept | f"changes {number}" >> TableToChanges() | f"list {number}" >> beam.Map(list) | beam.ParDo(Append(out))
    return [*written(out)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_view_in_runs_is_what_it_is_in_one(tmp_path, seed):
    chance = random.Random(seed)
    log, (made,) = history(chance, 30), drawn(chance, 1)
    cut = chance.randrange(1, 25)
    parts = [
        {name: [row for row in rows if (row["position"] > cut) == later] for name, rows in log.items()} for later in (False, True)
    ]
    changes = [Change(*change) for part in parts for change in run_with_state(tmp_path, [made.relation], part)]
    keyed = [change._replace(key=repr(change.key)) for change in changes]
    answers(keyed, made, log)


def test_a_changed_view_is_made_anew_from_what_the_state_has(tmp_path):
    log = history(random.Random(3), 30)
    none = {name: [] for name in log}
    people = views.table("people", *SCHEMAS["people"][:1], key="id")
    before, now = (people.filter(pc.field("n") > least).aggregate({"n": "count()"}, group_by="city") for least in (2, 1))
    run_with_state(tmp_path, [before], log)
    with pytest.raises(StateRefused, match="predicate"):
        run_with_state(tmp_path, [now], none)
    changes = [Change(*change) for change in run_with_state(tmp_path, [now], none, "--beam_joins_changed=rebuild")]
    rows = Counter(row["city"] for row in contents(log, 100)["people"] if row["n"] is not None and row["n"] > 1)
    assert {change.new["city"]: change.new["n"] for change in changes} == rows
