"""Aggregates of the rows of a group, for :class:`~beam_joins.AggregateTable`: ``from beam_joins import aggregates as agg``.

Each has ``where``, which says which rows count: the name of a column that is true or false, a function of key and value that
returns a bool, or a :class:`~beam_joins.vectorized` function of the values. The values that are aggregated are a column by its
name, a function of key and value, or a vectorized one; null values do not count.

>>> sum("amount", where="paid")
sum('amount', where='paid')
"""

from beam_joins.functions.aggregate_functions import Aggregate, count, count_distinct, max, mean, min, sum  # noqa: A004, as there

__all__ = ["Aggregate", "count", "count_distinct", "max", "mean", "min", "sum"]
