"""View of SQL: random queries against DuckDB at every position, the queries that are kept, and those that are refused."""

import random
import re
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import ibis
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, MapTable, StateRefused, TableToChanges, View, content, views
from beam_joins.functions.expressions import of_columns
from beam_joins.functions.function_versions import function_version
from beam_joins.transforms.engine.construction.fingerprints import displayed
from tests.pipelines.streaming.jobs import Append, written
from tests.random_queries import PLANNER, compare, long_history, random_queries, steps_of
from tests.reference.random_sql import bag, random_shop
from tests.transforms.changelog_tables import changelog, changelog_tables

ORDERS = pa.schema({"id": pa.int64(), "customer": pa.int32(), "amount": pa.decimal128(10, 2), "note": pa.string(), "paid": pa.bool_()})
CUSTOMERS = pa.schema(
    {"id": pa.int64(), "city": pa.string(), "home": pa.struct({"street": pa.string()}), "at": pa.timestamp("us", "UTC")}
)
RELATIONS = {"orders": views.table("orders", ORDERS, key="id"), "customers": views.table("customers", CUSTOMERS, key="id")}
LOGS = {
    "orders": [(1, 7, 5, "x", True, 1), (2, 7, 20, None, False, 3), (3, 8, 9, "z", None, 5), (4, None, 1, "z", True, 5)],
    "customers": [(7, "Oslo", {"street": "A"}, 0, 2), (8, None, None, None, 4), (7, "Rome", {"street": "B"}, 10**15, 6)],
}


def tables(p, schemas, rows):
    """The tables of rows with a position, by the names of their schemas and keys."""
    return changelog_tables(p, {name: (changelog(rows[name], schema), key) for name, (schema, key) in schemas.items()})


def shop(p):
    """The tables of the rows above."""
    schemas = {"orders": (ORDERS, ["id"]), "customers": (CUSTOMERS, ["id"])}
    rows = {name: [dict(zip([*schemas[name][0].names, "position"], row, strict=True)) for row in rows] for name, rows in LOGS.items()}
    return tables(p, schemas, rows)


def last_rows(changes, expected, query=""):
    """Raises if the rows at the end are not the expected ones."""
    rows = [tuple(row.values()) for row in content(changes, 100).values()]
    assert bag(rows) == bag(expected), f"{query}: {rows}"


@pytest.mark.parametrize("seed", range(1))
def test_random_queries_are_right_at_every_position(direct, seed):
    chance = random.Random(seed)
    drawn = random_shop(chance)
    with direct() as p:
        inputs = tables(p, {name: (drawn.schema(name), drawn.key(name)) for name in drawn.tables}, drawn.changes)
        for number, (query, relation) in enumerate(random_queries(chance, drawn, 6)):
            changes = inputs | f"view {number}" >> View(relation) | f"changes {number}" >> TableToChanges()
            check = lambda got, query=query: compare(got, query, drawn, drawn.positions())  # noqa: E731
            assert_that(changes, check, label=f"right {number}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1_000, 1_250))
def test_many_random_queries_are_right_at_every_position(direct, seed):
    test_random_queries_are_right_at_every_position(direct, seed)


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_queries_are_right_step_by_step(seed):
    chance = random.Random(seed)
    drawn = random_shop(chance)
    for query, relation in random_queries(chance, drawn, 6):
        compare([*steps_of(relation, drawn, chance)], query, drawn, drawn.positions())


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_no_step_touches_count_in_later_steps(seed):
    long_history(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2_000, 2_250))
def test_many_random_queries_are_right_step_by_step(seed):
    test_random_queries_are_right_step_by_step(seed)


def test_another_version_of_the_planner_is_taken_when_random_queries_have_been_run_with_it():
    constraints = Path(__file__).parents[2] / "constraints.txt"
    pins = dict(line.split("==") for line in constraints.read_text().splitlines() if "==" in line)
    assert pins["datafusion"] == PLANNER, "run python -m tests.random_queries 10000, and have PLANNER say the version"


KEPT = [
    ("SELECT city, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY city", [("Rome", 2), (None, 1)]),
    ("SELECT id, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c", [(7, 2), (8, 1)]),
    ("SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)", [(2,), (3,)]),
    ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE note = 'z')", []),
    ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE note = 'x')", [(8,)]),
    ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE note = 'y')", [(7,), (8,)]),
    ("SELECT id FROM customers c WHERE city = 'Bonn' OR EXISTS (SELECT 1 FROM orders WHERE customer = c.id AND paid)", [(7,)]),
    ("SELECT id FROM customers WHERE EXISTS (SELECT 1 FROM orders WHERE amount > 100)", []),
    ("SELECT id FROM customers WHERE NOT EXISTS (SELECT 1 FROM orders WHERE amount > 100)", [(7,), (8,)]),
    ("SELECT note FROM orders INTERSECT SELECT CASE WHEN city IS NULL THEN city ELSE 'z' END FROM customers", [("z",), (None,)]),
    ("SELECT note FROM orders EXCEPT SELECT city FROM customers", [("x",), ("z",)]),
    (
        "SELECT o.id, c.id AS c FROM orders o FULL JOIN customers c ON o.customer = c.id AND paid",
        [(1, 7), (2, None), (3, None), (4, None), (None, 8)],
    ),
    ("SELECT a.id FROM orders a JOIN orders b ON a.note = b.note AND a.id < b.id", [(3,)]),
    ("SELECT a.id FROM orders a JOIN orders b ON (a.note IS NOT DISTINCT FROM b.note) AND a.id = b.id + 1", [(4,)]),
    ("SELECT c.home.street AS street, extract(year FROM at) AS year FROM customers c", [("B", 2001), (None, None)]),
    ("SELECT min(amount) a, max(note) b, count(DISTINCT note) c, sum(amount) FILTER (WHERE paid) d FROM orders", [(1, "z", 2, 6)]),
    (
        "SELECT paid, sum(customer) AS s, avg(customer) AS a FROM orders GROUP BY paid HAVING count(*) < 2",
        [(False, 7, 7), (None, 8, 8)],
    ),
    ("WITH paid AS (SELECT * FROM orders WHERE paid) SELECT a.id FROM paid a JOIN paid b ON a.id = b.id", [(1,), (4,)]),
    ("SELECT 0 AS id UNION ALL SELECT id FROM customers UNION ALL SELECT id FROM customers", [(0,), (7,), (7,), (8,), (8,)]),
    ("SELECT id, row.least FROM customers JOIN (SELECT min(amount) AS least FROM orders) row ON row.least < id", [(7, 1), (8, 1)]),
    ("SELECT id FROM orders WHERE amount * 1.1 = 5.5", [(1,)]),
    ("SELECT paid AS a, paid AS b, sum(id) AS c FROM orders GROUP BY 1, 2", [(True, True, 5), (False, False, 2), (None, None, 3)]),
    ("SELECT 47 AS x, -customer AS c FROM orders o GROUP BY o.customer, customer, o.paid", [(47, -7), (47, -7), (47, -8), (47, None)]),
]  # fmt: skip


def test_queries_give_the_rows_of_sql(direct):
    with direct() as p:
        inputs = shop(p)
        for number, (query, expected) in enumerate(KEPT):
            changes = inputs | f"view {number}" >> View(query) | f"changes {number}" >> TableToChanges()
            check = lambda got, query=query, expected=expected: last_rows(got, expected, query)  # noqa: E731
            assert_that(changes, check, label=f"right {number}")


REFUSED = [
    ("SELECT id FROM orders ORDER BY id", "ORDER BY is not kept: a view is a table without an order"),
    ("SELECT id FROM orders LIMIT 1", "LIMIT is not kept"),
    ("SELECT sum(amount) OVER () AS s FROM orders", "window functions are not kept: aggregate with GROUP BY and join the result"),
    ("SELECT id FROM orders WHERE now() > '2020-01-01'", "the function now is not kept, if there is one"),
    ("SELECT random() AS r FROM orders", "the function random is not kept"),
    ("SELECT nothing(id) AS r FROM orders", "the function nothing is not kept, if there is one"),
    ("SELECT stddev(amount) AS s FROM orders", "stddev(...) is not kept: there are count, sum, min, max and avg"),
    ("SELECT sum(DISTINCT amount) AS s FROM orders", "sum(DISTINCT ...) is not kept: aggregate the rows of a SELECT DISTINCT"),
    ("SELECT count(*) FROM orders", "name the column COUNT(*) of the result with AS"),
    ("SELECT a.id FROM orders a, orders b", "all rows would meet; add an equality"),
    ("SELECT a.id FROM orders a JOIN orders b ON a.id < b.id", "all rows would meet; add an equality"),
    ("SELECT id FROM orders WHERE paid OR id IN (SELECT id FROM customers)", "IN (SELECT ...) is not kept below OR"),
    (
        "SELECT id FROM orders o WHERE id NOT IN (SELECT id FROM customers c WHERE c.city = o.note)",
        "NOT IN is not kept with a subquery that refers to rows outside of it: write NOT EXISTS",
    ),
    ("SELECT (SELECT city FROM customers) AS c FROM orders", "a subquery used as a value may have several rows"),
    ("SELECT id FROM orders EXCEPT ALL SELECT id FROM customers", "EXCEPT ALL and INTERSECT ALL are not kept: leave ALL out"),
    ("SELECT id FROM orders WHERE note IS DISTINCT FROM 'x' AND paid", "IS [NOT] DISTINCT FROM is kept in parentheses"),
    ("SELECT id FROM customers WHERE at - at > INTERVAL '7 days'", "intervals are not compared, as of months, days and seconds"),
    ("SELECT id FROM customers WHERE INTERVAL '1 day' = INTERVAL '24 hours'", "write a > b + INTERVAL '7 days'"),
    ("SELECT id FROM orders TABLESAMPLE BERNOULLI (3)", "TABLESAMPLE is not kept"),
    ("SELECT DISTINCT ON (customer) id FROM orders", "DISTINCT ON is not kept: join the min or max of a group"),
    ("SELECT id FROM orders JOIN customers USING (id)", "USING and NATURAL are not kept: write ON with the columns that are equal"),
    ("SELECT orders.id FROM orders NATURAL JOIN customers", "USING and NATURAL are not kept"),
    ("SELECT unnest(make_array(id)) AS id FROM orders", "UNNEST and LATERAL are not kept: make rows of lists before the view"),
    ("SELECT id FROM orders FOR UPDATE", "FOR UPDATE is not kept"),
    ("SELECT count(*) AS n FROM orders GROUP BY ROLLUP (paid)", "ROLLUP, CUBE and GROUPING SETS are not kept"),
    ("WITH RECURSIVE r AS (SELECT id FROM orders UNION ALL SELECT id FROM r) SELECT id FROM r", "WITH RECURSIVE is not kept"),
    ("SELECT x FROM orders", "there is no column x; there are orders.id, orders.customer, orders.amount, orders.note, orders.paid"),
    ("SELECT id FROM shops", "there is no table shops"),
    ("SELECT table_name FROM information_schema.tables", "there is no table information_schema.tables"),
    ("SELECT id, id FROM orders", "the query cannot be planned: Projections require unique expression names"),
    ("SELECT * FROM orders JOIN customers ON customer = customers.id", "the query has two columns 'id': name one of them with AS"),
    ("DELETE FROM orders", "a view is one SELECT"),
    ("SELECT id FROM orders; SELECT 2 AS x", "a view is one SELECT"),
    ("SELECT (id FROM orders", "the query cannot be parsed"),
    ("SELECT x FROM (VALUES (1), (2)) AS v(x)", "VALUES of several rows are not kept: put them into a table"),
    ("", "query='': give a SELECT"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "sentence"), REFUSED, ids=[str(n) for n, _ in enumerate(REFUSED)])
def test_a_query_that_is_not_kept_is_refused_with_a_remedy(query, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        views.sql(query, RELATIONS)


def test_a_column_of_a_type_that_sql_does_not_have_is_named_where_it_is_used():
    local = views.table("t", pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "Europe/Oslo")}), key="id")
    assert views.sql("SELECT id FROM t", {"t": local}) == local.select("id")
    with pytest.raises(
        ValueError, match=re.escape("SQL has no values of type timestamp[us, tz=Europe/Oslo]: convert the column 'at'")
    ):
        views.sql("SELECT at FROM t", {"t": local})
    with pytest.raises(ValueError, match=re.escape("as t.at has: name the other columns in place of *")):
        views.sql("SELECT * FROM t", {"t": local})
    assert views.sql("SELECT count(*) AS n FROM t", {"t": local}).schema.names == ["n"]


def test_an_expression_of_ibis_is_the_sql_that_ibis_writes(direct):
    orders = ibis.table({"id": "int64", "customer": "int32", "amount": "decimal(10, 2)", "paid": "boolean"}, name="orders")
    customers = ibis.table({"id": "int64", "city": "string"}, name="customers")
    rome = orders.join(customers, orders.customer == customers.id).filter(ibis._.paid).group_by("city")
    with direct() as p:
        changes = shop(p) | View(rome.agg(n=ibis._.count(), total=ibis._.amount.sum())) | TableToChanges()
        assert_that(changes, lambda got: last_rows(got, [("Rome", 1, 5)]))
    assert views.sql(orders.filter(orders.id > 1)[["id"]], RELATIONS) == views.sql("SELECT id FROM orders WHERE id > 1", RELATIONS)
    with pytest.raises(ValueError, match="ORDER BY is not kept"):
        View(orders.order_by("id"))


OVERFLOWS = [
    "SELECT customer * CAST(400000000 AS INT) AS x FROM orders WHERE customer = 7",
    "SELECT id + 9223372036854775807 AS x FROM orders",
    "SELECT -(id - 1 - 9223372036854775807 - 1) AS x FROM orders WHERE id = 1",
    "SELECT CAST(id * 100 AS TINYINT) AS x FROM orders",
    "SELECT CAST(amount AS DECIMAL(38, 2)) + 999999999999999999999999999999999999.00 AS x FROM orders",
    "SELECT id / (id - 1) AS x FROM orders",
]


@pytest.mark.parametrize("query", OVERFLOWS, ids=[str(n) for n, _ in enumerate(OVERFLOWS)])
def test_numbers_that_overflow_end_the_run(direct, query):
    with pytest.raises(Exception, match="overflow|Can't cast value|Divide by zero"), direct() as p:
        _ = shop(p) | View(query)


def test_the_keys_of_tables_make_joins_by_key_of_sql():
    joined = "SELECT o.id, city FROM orders o LEFT JOIN customers c ON o.customer = c.id"
    plan = View(views.sql(joined, RELATIONS)).explain().splitlines()
    assert plan[1].startswith("  left join on customer = id | key: id | ForeignKeyJoin")
    assert [line.strip() for line in plan[2:]] == ["table orders: id, customer | key: id", "table customers: id, city | key: id"]


def test_sql_takes_columns_and_keys_from_the_tables_and_from_other_views(direct):
    with direct() as p:
        inputs = shop(p)
        paid = inputs | "paid" >> View("SELECT id, customer FROM orders WHERE paid")
        joined = View("SELECT p.id, city FROM paid p JOIN customers c ON p.customer = c.id", key="id")
        rows = {"paid": paid, "customers": inputs["customers"]} | joined | TableToChanges()
        last = rows | beam.Filter(lambda change: change.position == 6)
        assert_that(last, equal_to([Change(1, {"id": 1, "city": "Oslo"}, {"id": 1, "city": "Rome"}, 6, 6)]))
    assert "inner join on customer = id | key: id | ForeignKeyJoin" in joined.explain()


def test_a_table_whose_key_has_no_known_columns_is_joined_by_its_columns(direct):
    with direct() as p:
        inputs = shop(p)
        loud = inputs["customers"] | MapTable(
            lambda key, row: {"id": key, "city": str(row["city"])}, schema=pa.schema({"id": pa.int64(), "city": pa.string()})
        )
        joined = View("SELECT o.id, city FROM orders o JOIN loud ON o.customer = loud.id")
        rows = {"orders": inputs["orders"], "loud": loud} | joined | TableToChanges()
        assert_that(rows, lambda changes: last_rows(changes, [(1, "Rome"), (2, "Rome"), (3, "None")]))
    assert "ManyToManyJoin" in joined.explain()  # fmt: skip


def test_tables_that_sql_cannot_read_are_named_when_it_is_applied():
    p = beam.Pipeline()
    inputs = shop(p)
    opaque = p | beam.Create([Change(1, None, "x", 1, 1)])
    for number, (given, query, sentence) in enumerate(
        [
            (inputs["orders"], "SELECT id FROM orders", "SQL reads tables by their names: apply it to a dict of tables"),
            ({**inputs, "t": opaque}, "SELECT * FROM t", "the table 't' has no typed columns: give schema= where it is made"),
            (inputs, "SELECT id FROM shops", "View: there is no table shops"),
        ]
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            _ = given | f"view {number}" >> View(query)
    with pytest.raises(ValueError, match="key='nr': there is no such column; there are id"):
        _ = inputs | View("SELECT id FROM orders", key="nr")
    with pytest.raises(ValueError, match="the plan of SQL depends on the tables"):
        View("SELECT id FROM orders").explain()


def test_a_text_and_a_column_of_that_name_are_different_columns():
    column, text = (views.sql(f"SELECT id, {each} AS x FROM orders", RELATIONS) for each in ("note", "'note'"))
    assert column != text
    versions = [function_version(of_columns("select", {"id": "id", "x": each.columns["x"]})) for each in (column, text)]
    assert versions[0] != versions[1]


def test_states_remember_the_text_of_a_condition_and_no_message_of_the_planner():
    query = "SELECT a.id FROM orders a LEFT JOIN orders b ON a.note = b.note AND a.id < b.id + 1"
    condition = views.sql(query, RELATIONS).of.condition
    assert displayed(condition) == "SqlExpression(text='(left.id < (right.id + 1))')"
    of_another_planner = replace(condition, encoded=b"another message")
    assert function_version(condition) == function_version(of_another_planner) != function_version(replace(condition, text="true"))


def run_with_state(folder, query, log, *options):
    """The changes that a run with a state gives of a query."""
    out = folder / f"run {len([*folder.glob('run *')])}"
    out.mkdir()
    given = PipelineOptions([f"--beam_joins_state={folder}/state", "--beam_joins_partitions=3", *options])
    schema = pa.schema({"id": pa.int64(), "n": pa.int64()})
    with beam.Pipeline(runner=FnApiRunner(), options=given) as p:
        rows = [dict(zip(("id", "n", "position"), row, strict=True)) for row in log]
        changes = tables(p, {"t": (schema, ["id"])}, {"t": rows}) | View(query) | TableToChanges()
        _ = changes | beam.Map(list) | beam.ParDo(Append(out))
    return [Change(*change) for change in written(out)]


def test_another_condition_beside_the_equality_of_a_join_is_a_changed_pipeline(tmp_path):
    query = "SELECT a.id FROM t a LEFT JOIN t b ON a.n = b.n AND a.id < b.id"
    run_with_state(tmp_path, query, [(1, 5, 1), (2, 5, 2)])
    run_with_state(tmp_path, query.replace("a.id < b.id", "(a.id < b.id)"), [(3, 5, 3)])
    with pytest.raises(StateRefused, match="condition"):
        run_with_state(tmp_path, query.replace("<", "<="), [])


def test_runs_go_on_with_sql_of_one_meaning_and_a_changed_query_is_a_changed_pipeline(tmp_path):
    run_with_state(tmp_path, "SELECT n, count(*) AS rows FROM t WHERE n + 1 > 2 GROUP BY n", [(1, 5, 1), (2, 5, 2), (3, 1, 2)])
    same = "select t.n, count(1) as rows\nfrom t where (n + 1) > 2 group by n"
    (change,) = run_with_state(tmp_path, same, [(1, None, 3)])
    assert (change.old, change.new) == ({"n": 5, "rows": 2}, {"n": 5, "rows": 1})
    other = "SELECT n, count(*) AS rows FROM t WHERE n + 1 > 1 GROUP BY n"
    with pytest.raises(StateRefused, match="predicate"):
        run_with_state(tmp_path, other, [])
    changes = run_with_state(tmp_path, other, [], "--beam_joins_changed=rebuild")
    assert bag([tuple(change.new.values()) for change in changes]) == bag([(5, 1), (1, 1)])
