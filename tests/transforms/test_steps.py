"""Steps: transforms of tables in this process, step by step, beside what pipelines give."""

import logging
import random
import re

import apache_beam as beam
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that

from beam_joins import (
    CountTable,
    DistinctTable,
    FilterTable,
    ForeignKeyJoin,
    ManyToManyJoin,
    MapTable,
    Steps,
    SumTable,
    TableTableJoin,
    TableToChanges,
    UnionTables,
    View,
)
from beam_joins.elements.iso_times import NO_TIME
from tests.transforms.changelog_tables import changelog, changelog_table, changelog_tables

ORDERS = pa.schema({"id": pa.int64(), "customer": pa.int64(), "amount": pa.float64()})
CUSTOMERS = pa.schema({"id": pa.int64(), "city": pa.string()})
ORDER_COLUMNS = {"id": "left.id", "amount": "left.amount", "city": "right.city"}


def both(tables):
    return tables["orders"], tables["customers"]


APPLIED = {
    "key join": lambda tables: both(tables) | TableTableJoin(ORDER_COLUMNS, how="outer"),
    "foreign-key join": lambda tables: both(tables) | ForeignKeyJoin(ORDER_COLUMNS, foreign_key="customer", how="outer"),
    "many-to-many join": lambda tables: both(tables) | ManyToManyJoin(ORDER_COLUMNS, left_on="customer", right_on="id", how="outer"),
    "counts": lambda tables: tables["orders"] | FilterTable(pc.field("amount") > 1) | CountTable(group_by="customer"),
    "sums": lambda tables: tables["orders"] | SumTable(group_by="customer", of="amount"),
    "distinct": lambda tables: tables["customers"] | DistinctTable(columns="city"),
    "union": lambda tables: (
        {name: table | f"ids of {name}" >> MapTable({"id": "value.id"}) for name, table in tables.items()}
        | UnionTables(tables=[*tables])
    ),
    "total": View("SELECT count(*) AS n, sum(amount) AS total FROM orders JOIN customers c ON customer = c.id"),
}
"""Transforms of two tables."""


def random_logs(chance):
    """Changes of both tables in the order of their positions; one of one row at a position."""
    logs = {"orders": [], "customers": []}
    for position in range(1, 40):
        name = chance.choice([*logs])
        key = chance.randrange(6)
        row = {"customer": chance.choice([None, 0, 1, 2]), "amount": chance.choice([None, 0.5, 2.0])}
        if name == "customers":
            row = {"city": chance.choice([None, "Oslo", "Rome"])}
        logs[name].append({"id": key, **row, "op": "d" if chance.random() < 0.2 else "u", "position": position})
    return logs


def frames(logs, begin=0, end=99):
    """The rows behind a position up to another."""
    rows = {name: [row for row in log if begin < row["position"] <= end] for name, log in logs.items()}
    return {"orders": changelog(rows["orders"], ORDERS), "customers": changelog(rows["customers"], CUSTOMERS)}


def steps_of(applied):
    """Steps of both tables."""
    return Steps(applied, orders=changelog_table(["id"]), customers=changelog_table(["id"]))


@pytest.mark.parametrize("name", APPLIED)
def test_steps_that_end_anywhere_give_the_changes_of_a_pipeline(direct, name):
    chance = random.Random(name)
    logs, steps, begin, made = random_logs(chance), steps_of(APPLIED[name]), 0, []
    for end in [*sorted(chance.sample(range(1, 40), 4)), 40]:
        made += steps.apply(**frames(logs, begin, end)).to_pylist()
        begin = end
    changes = [(row["old"], row["new"], NO_TIME if row["position"] is None else row["position"]) for row in made]
    with direct() as p:
        tables = changelog_tables(p, {name: (frame, ["id"]) for name, frame in frames(logs).items()})
        table = tables | APPLIED[name] if isinstance(APPLIED[name], beam.PTransform) else APPLIED[name](tables)

        def same(given):
            assert sorted(map(repr, changes)) == sorted(repr((each.old, each.new, each.position)) for each in given)

        assert_that(table | TableToChanges(), same)
    rows = {repr(row["key"]): row["new"] for row in sorted(made, key=lambda row: row["position"] or NO_TIME)}
    values = [row.get("value", row) for row in steps.rows().to_pylist()]
    expected = [row for row in rows.values() if row is not None]
    assert sorted(map(repr, values)) == sorted(map(repr, expected))


def test_what_raises_leaves_all_as_it_was():
    calls = []

    def checked(key, value):
        calls.append(value)
        if value["amount"] == 7:
            raise RuntimeError("seven")
        return True

    log = [{"id": n, "customer": n, "amount": float(n), "op": "u", "position": n} for n in range(1, 9)]
    steps = Steps(
        lambda tables: tables["orders"] | FilterTable(checked) | CountTable(group_by="customer"), orders=changelog_table(["id"])
    )
    steps.apply(orders=changelog(log[:3], ORDERS))
    with pytest.raises(Exception, match="seven"):
        steps.apply(orders=changelog(log[3:], ORDERS))
    with pytest.raises(ValueError, match="no such column|amount"):
        steps.apply(orders=changelog(log[3:6], ORDERS).drop_columns(["id"]))
    steps.apply(orders=changelog(log[3:6], ORDERS))
    assert steps.rows()["value"].to_pylist() == [1] * 6
    assert len(calls) == 3 + 4 + 3


def test_rows_come_as_frames_of_pandas_and_of_others_that_arrow_reads():
    class Other:
        """A frame of another library."""

        def __init__(self, table):
            self.__arrow_c_stream__ = table.__arrow_c_stream__

    counts = Steps(View("SELECT city, count(*) AS n FROM customers GROUP BY city"), customers=changelog_table(["id"]))
    log = [{"id": n, "city": "Oslo", "op": "u", "position": n} for n in range(1, 5)]
    counts.apply(customers=pd.DataFrame(log[:1], index=[7]))
    counts.apply(customers=Other(changelog(log[1:2], CUSTOMERS)))
    counts.apply(customers=changelog(log[2:3], CUSTOMERS).to_batches()[0])
    counts.apply(customers=changelog(log[3:], CUSTOMERS).set_column(1, "city", pa.array(["Oslo"]).dictionary_encode()))
    assert counts.rows().to_pylist() == [{"city": "Oslo", "n": 4}]
    with pytest.raises(ValueError, match="give a pyarrow.Table, or a data frame of pandas or Polars"):
        counts.apply(customers=log)


def test_dropped_and_late_records_are_told(caplog):
    log = [{"id": 1, "city": "Oslo", "op": "u", "position": 5}, {"id": None, "city": "Rome", "op": "u", "position": 6}]
    steps = Steps(View("SELECT id, city FROM customers"), customers=changelog_table(["id"]))
    with caplog.at_level(logging.WARNING, logger="beam_joins"):
        steps.apply(customers=changelog(log, CUSTOMERS))
    assert caplog.messages == ["customers has dropped 1 record (null_key 1)"]
    late = [{"id": 1, "city": "Bonn", "op": "u", "position": 4}, {"id": 2, "city": "Bern", "op": "u", "position": 4}]
    changes = steps.apply(customers=changelog(late, CUSTOMERS)).to_pylist()
    assert caplog.messages[1:] == ["customers has dropped 1 record (late_stale 1)"]
    assert [(row["new"], row["position"]) for row in changes] == [({"id": 2, "city": "Bern"}, 6)]


def test_a_row_is_late_behind_the_positions_of_another_table():
    steps = steps_of(APPLIED["key join"])
    steps.apply(**frames({"orders": [], "customers": [{"id": 1, "city": "Oslo", "op": "u", "position": 9}]}))
    order = {"id": 1, "customer": 7, "amount": 1.0, "op": "u", "position": 3}
    (change,) = steps.apply(**frames({"orders": [order], "customers": []})).to_pylist()
    assert change["position"] == 10


NOTHING = {"orders": [], "customers": []}
WRONG = [
    (lambda: Steps("SELECT 1", orders=changelog_table(["id"])), "transform='SELECT 1': give a View, or a function"),
    (lambda: Steps(View("SELECT id FROM orders")), "give what makes the tables, by name"),
    (lambda: Steps(View("SELECT id FROM orders"), orders=CUSTOMERS), "give a TableFromChangelog"),
    (lambda: steps_of(both).apply(shops=None), "there is no table 'shops'; there are orders, customers"),
    (
        lambda: steps_of(both).apply(orders=changelog([], ORDERS)),
        "the first step needs rows of 'customers', or none with its columns: customers=frame[:0]",
    ),
    (
        lambda: steps_of(lambda tables: tables["orders"] | MapTable(lambda key, row: {1})).apply(
            **frames(random_logs(random.Random(1)))
        ),
        "the keys or the values of this table are Python objects (opaque)",
    ),
    (
        lambda: steps_of(
            lambda tables: (tables["orders"], tables["customers"] | beam.Reshuffle()) | TableTableJoin(ORDER_COLUMNS)
        ).apply(**frames(random_logs(random.Random(1)))),
        "is not evaluated in steps: use transforms of tables, beam.Map and beam.FlatMap",
    ),
]


@pytest.mark.parametrize(("wrong", "sentence"), WRONG, ids=[str(n) for n, _ in enumerate(WRONG)])
def test_what_cannot_be_applied_in_steps_is_refused(wrong, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        wrong()
