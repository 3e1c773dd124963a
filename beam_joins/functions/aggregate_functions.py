"""The aggregates of the rows of a group, as users name them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import pyarrow.compute as pc

from beam_joins.functions.expressions import in_columns
from beam_joins.functions.fields import of_row
from beam_joins.functions.user_functions import require_takes
from beam_joins.options.aggregate_types import AggregateName

Column: TypeAlias = str | Callable[..., Any] | pc.Expression
"""A column of the values by its name, an Arrow expression of columns, a function of key and value, or a vectorized function of
the values.
"""

_TEXT = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*")


@dataclass(frozen=True)
class Aggregate:
    """An aggregate: its function, the values that it is ``of``, ``None`` for the rows, and which rows count."""

    function: AggregateName
    of: Column | None = None
    where: Column | None = None

    def __post_init__(self) -> None:
        if self.function not in get_args(AggregateName):
            raise ValueError(f"{self.function!r} is no aggregate: choose one of {', '.join(get_args(AggregateName))}")
        if self.of is None and self.function != "count":
            raise ValueError(f"{self.function}() is of values: name their column, as in {self.function}('amount')")
        for option in ("of", "where"):
            if (column := in_columns(option, getattr(self, option))) is not None:
                object.__setattr__(self, option, column)
                of_row(option, column, one=True)
                require_takes(option, column, 2, "the key and the value")

    def __repr__(self) -> str:
        given = [repr(self.of)] if self.of is not None else []
        return f"{self.function}({', '.join([*given, *([] if self.where is None else [f'where={self.where!r}'])])})"


def count(of: Column | None = None, *, where: Column | None = None) -> Aggregate:
    """The number of rows, or of the values that are not null: ``int64``."""
    return Aggregate("count", of, where)


def sum(of: Column, *, where: Column | None = None) -> Aggregate:  # noqa: A001, as in Polars: users name the module
    """The sum of the values, null for none: exact, of the types of :class:`~beam_joins.SumTable`."""
    return Aggregate("sum", of, where)


def min(of: Column, *, where: Column | None = None) -> Aggregate:  # noqa: A001, as in Polars: users name the module
    """The least value, null for none. Numbers, texts (by their UTF-8), bytes, dates and times have an order; NaN is the greatest
    number.
    """
    return Aggregate("min", of, where)


def max(of: Column, *, where: Column | None = None) -> Aggregate:  # noqa: A001, as in Polars: users name the module
    """The greatest value, null for none, in the order of :func:`min`."""
    return Aggregate("max", of, where)


def mean(of: Column, *, where: Column | None = None) -> Aggregate:
    """The mean of the values, null for none: ``double``, of decimals a decimal with four more digits behind the point, rounded half
    up. The sum that is divided is exact.
    """
    return Aggregate("mean", of, where)


def count_distinct(of: Column, *, where: Column | None = None) -> Aggregate:
    """The number of different values that are not null: ``int64``."""
    return Aggregate("count_distinct", of, where)


def aggregate_named(function: str, column: str) -> Aggregate:
    """The aggregate of a column by the names of both; of the rows for no column, or ``*``. Raises ``ValueError``."""
    return Aggregate(function, None if column in ("", "*") else column)  # type: ignore[arg-type]  # it is checked there


def aggregates_of(option: str, given: Any) -> dict[str, Aggregate]:
    """The aggregates of an option by the columns of the result: objects of this module, or texts such as ``"sum(amount)"``. Raises
    ``ValueError``.

    >>> aggregates_of("aggregates", {"orders": "count()", "total": sum("amount")})
    {'orders': count(), 'total': sum('amount')}
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f'{option}={given!r}: give the columns of the result, such as {{"orders": count(), "total": sum("amount")}}')
    return {_name(option, name): _aggregate(option, name, each) for name, each in given.items()}


def _name(option: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{option}: the name of a column is a text, not {name!r}")
    return name


def _aggregate(option: str, name: str, given: Any) -> Aggregate:
    if isinstance(given, Aggregate):
        return given
    match = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise ValueError(f"{option}={{{name!r}: {given!r}}}: give an aggregate, such as sum('amount'), or its text, 'sum(amount)'")
    return aggregate_named(match[1], match[2])
