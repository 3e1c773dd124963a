"""SumTable: the sum of a number of the rows of each group of a table."""

from collections.abc import Callable
from typing import Any

from beam_joins.fields import of_row
from beam_joins.functions import vectorized
from beam_joins.transforms.engine.grouping import GroupedTable, OfRow


class SumTable(GroupedTable):
    """The sum of a number of the rows of each group of a table; groups, drops and exceptions are as in :class:`~beam_joins.AggregateTable`.

    ``of`` names the field of the value that is summed, or is a function of key and value that gives a number, or a :class:`~beam_joins.vectorized`
    one of the values. A null number adds nothing: a group of such rows has the sum 0.

    The sum of a column of integers is ``int64``, that of floating-point numbers ``double``, that of decimals a decimal of the same scale. Integers and
    decimals are summed exactly; the run raises ``ValueError`` for a sum that does not fit. Floating-point numbers are added in the order of
    positions: as each sum is rounded, the sum after a row has left may differ in the last digits from the sum of the other rows. Where values are
    Python objects, so are their sums, made by Python's ``+`` and ``-``.

    Raises ``ValueError`` also for a column that is not of numbers, and in the run for a value that is not a number, or for decimals and floats in one group.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> orders = [
    ...     Change(1, None, {"by": "ann", "amount": 5}, timestamp=10, position=1),
    ...     Change(2, None, {"by": "ann", "amount": 7}, timestamp=20, position=2),
    ... ]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = pipeline | beam.Create(orders) | SumTable(group_by="by", of="amount") | TableToChanges() | beam.Map(print)
    Change(key='ann', old=None, new=5, timestamp=10, position=1)
    Change(key='ann', old=5, new=12, timestamp=20, position=2)
    """

    def __init__(self, *, group_by: OfRow, of: str | vectorized[Any] | Callable[[Any, Any], Any]) -> None:
        super().__init__(group_by, of)
        of_row("of", of, one=True)
