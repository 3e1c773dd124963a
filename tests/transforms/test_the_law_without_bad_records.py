"""What with_exception_handling() leaves is what functions give that give ``None`` where those raise, whatever
the history.
"""

import random

import apache_beam as beam
import pytest

from beam_joins import AggregateTable, CountTable, FilterTable, ForeignKeyJoin, MapTable, TableFromChangelog, TableTableJoin
from tests.transforms.orders_that_raise import n_of, table
from tests.transforms.test_functions_of_users import same


def rows(seed, count=60):
    """Changes of few rows that refer to each other; a third of them have no number."""
    chance = random.Random(seed)
    ids = [chance.randrange(6) for _ in range(count)]
    return [
        {"id": i, "by": chance.choice([0, 1, 2, 3, None]), "n": chance.choice([1, 2, None]), "lsn": at} for at, i in enumerate(ids)
    ]


def checked(function):
    """``function`` of values, and of none of them where a number is not known."""
    return lambda *values: [n_of(value) for value in values if value] and function(*values)


def total(function, otherwise=None):
    return lambda *values: otherwise if any(value and value["n"] is None for value in values) else function(*values)


def numbers(*values):
    return "-".join(str(value and value["n"]) for value in values)


def of_value(function):
    return lambda key, value: function(value)


PAIRS = {
    **{f"foreign key, {how}": (lambda f, how=how: ForeignKeyJoin(f(numbers), foreign_key="by",
        how=how)) for how in ("inner", "left", "outer", "semi", "anti")},
    **{f"table-table, {how}": (lambda f, how=how: TableTableJoin(f(numbers), how=how)) for how in ("inner", "left",
        "right", "outer", "semi", "anti")},
    **{
        f"foreign key's function, {how}": (lambda f, how=how: ForeignKeyJoin(numbers,
            foreign_key=of_value(f(lambda row: row["by"])), how=how))
        for how in ("inner", "left", "outer")
    },
}  # fmt: skip
TABLES = {
    "map": lambda f: MapTable(of_value(f(numbers))),
    "filter": lambda f: FilterTable(of_value(lambda row: f(lambda row: row["n"] == 1)(row) or False)),
    "group": lambda f: CountTable(group_by=of_value(f(lambda row: row["n"]))),
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("join", PAIRS)
@pytest.mark.each_value
def test_a_join_is_that_without_the_pairs_that_raise(direct, join, form):
    with direct() as p:
        left, right = table(p, "left", rows(join), form), table(p, "right", rows(form + join), form)
        good, _ = (left, right) | "raising" >> PAIRS[join](checked).with_exception_handling()
        same(good, (left, right) | "total" >> PAIRS[join](total))


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("transform", TABLES)
@pytest.mark.each_value
def test_a_table_is_that_without_the_rows_that_raise(direct, transform, form):
    with direct() as p:
        left = table(p, "left", rows(transform + form), form)
        good, _ = left | "raising" >> TABLES[transform](checked).with_exception_handling()
        same(good, left | "total" >> TABLES[transform](total))


def test_an_aggregate_is_that_of_the_values_that_can_be_added(direct):
    with direct() as p:
        orders = table(p, "orders", rows(7))
        functions = {"initial": 0, "add": lambda n, row: n + n_of(row), "subtract": lambda n, row: n - n_of(row)}
        good, _ = orders | "raising" >> AggregateTable(group_by=lambda key, row: row["by"], **functions).with_exception_handling()
        same(good, orders | "total" >> AggregateTable(group_by=lambda key, row: None if row["n"] is None else row["by"], **functions))


def test_a_table_is_that_of_the_records_that_do_not_raise(direct):
    with direct() as p:
        log = p | beam.Create(rows(8))
        good, _ = (
            log | "raising" >> TableFromChangelog(key=lambda row: n_of(row) and row["id"], sequence_by="lsn").with_exception_handling()
        )
        left = log | beam.Filter(lambda row: row["n"] is not None)
        same(good, left | "total" >> TableFromChangelog(key="id", sequence_by="lsn"))
