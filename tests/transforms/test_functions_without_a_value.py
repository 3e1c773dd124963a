"""Functions of users that are generators or coroutines: their calls give no value."""

import re
from functools import partial

import apache_beam as beam
import pytest

from beam_joins import (
    AggregateTable,
    FilterTable,
    ForeignKeyJoin,
    MapTable,
    OneToManyJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    vectorized,
    with_key,
)


def pairs(left, right, third=None):
    yield left, right


async def later(left, right):
    return left, right


async def streamed(left, right):
    yield left, right


class Calls:
    def __call__(self, left, right):
        yield left, right

    async def method(self, left, right):
        return left


WRONG = {
    "a generator": (pairs, "pairs is a generator function"),
    "a coroutine": (later, "later is a coroutine function"),
    "an asynchronous generator": (streamed, "streamed is an asynchronous generator function"),
    "a partial": (partial(pairs, third=1), "pairs is a generator function"),
    "a partial of a partial": (partial(partial(later)), "later is a coroutine function"),
    "an object": (Calls(), "Calls is a generator function"),
    "a method": (Calls().method, "Calls.method is a coroutine function"),
    "with the key": (with_key(pairs), "pairs is a generator function"),
    "of columns": (vectorized(pairs), "pairs is a generator function"),
    "a lambda": (lambda left, right: (yield left), "<lambda> is a generator function"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_function_that_is_a_generator_or_a_coroutine_is_refused_at_construction(kind):
    function, sentence = WRONG[kind]
    builds = [
        ("joiner", lambda: ForeignKeyJoin(function, foreign_key="by")),
        ("joiner", lambda: TableTableJoin(joiner=function, how="inner")),
        ("joiner", lambda: OneToManyJoin(function, foreign_key="by")),
        ("foreign_key", lambda: ForeignKeyJoin({"v": "left.v"}, foreign_key=function)),
        ("fn", lambda: MapTable(function)),
        ("predicate", lambda: FilterTable(function)),
        ("add", lambda: AggregateTable(group_by="by", initial=int, add=function, subtract=max)),
        ("key", lambda: TableFromChangelog(key=function)),
    ]
    for option, build in builds:
        with pytest.raises(ValueError, match=f"^{re.escape(f'{option}={sentence}: give a function that returns its value')}$"):
            build()


def closed(coroutine):
    coroutine.close()  # else Python warns that it was never awaited
    return coroutine


GIVEN = {
    "a generator": lambda *values: (value for value in values),
    "a coroutine": lambda *values: closed(later(*values[:2])),
    "a map": lambda *values: map(str, values),
}
USES = {
    "joiner": lambda table, function: (table, table) | ForeignKeyJoin(function, foreign_key=lambda key, value: key),
    "join of rows": lambda table, function: (table, table) | TableTableJoin(joiner=function, how="inner"),
    "fn": lambda table, function: table | MapTable(function),
    "predicate": lambda table, function: table | FilterTable(function),
    "add": lambda table, function: (
        table | AggregateTable(group_by=lambda key, value: 1, initial=lambda: 0, add=function, subtract=max)
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("given", GIVEN)
def test_what_gives_values_later_is_no_value(direct, use, given):
    with pytest.raises(Exception, match=r"gave an? \w+, which is no value: return the value itself") as failed, direct() as pipeline:
        table = pipeline | beam.Create([(1, 2)]) | TableFromChangelog()
        _ = USES[use](table, GIVEN[given]) | TableToChanges()
    assert "pickle" not in str(failed.value)
