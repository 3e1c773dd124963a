"""AggregateTable: groups the rows of a table and aggregates each group."""

from collections.abc import Callable
from typing import Any

from beam_joins.kernels.fold import Fold
from beam_joins.transforms.engine.construction.option_checks import OF_AGGREGATE, function, initial_of
from beam_joins.transforms.engine.grouping import GroupedTable, OfRow


class AggregateTable(GroupedTable):
    """Groups the rows of a table and aggregates each group. The result is a table keyed by the group, with
    the aggregates as values.

    * ``group_by(key, value)`` returns the group of a row, or ``None``; or a field name, or a list of field
      names, of the value; or a :class:`~beam_joins.vectorized` function of the values.
    * ``initial`` is the aggregate of no rows, or a function without arguments that returns it.
    * ``add(aggregate, value)`` and ``subtract(aggregate, value)`` return the aggregate with one row more and
      with one row less; ``None`` removes the group's row. They may change the aggregate in place and return
      it.

    A change of a row subtracts its old value from the old value's group and adds the new value to the new
    value's group. A group changes once at a position, all subtractions before all additions. A group has a
    result from its first addition on, and keeps it when its last row has left: a count goes to 0. The
    timestamp of a result is the largest of all changes of its group so far.

    A value whose group is ``None`` is dropped as ``"null_group"``: counted, and an output of
    :meth:`with_outputs`. Groups that are equal in Python are one group: 7 and 7.0, but not "7".

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, and for a column
    that the table does not have; and in the run for a group that cannot be a key.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> changes = [
    ...     Change(1, None, {"by": "ann", "amount": 5}, timestamp=10, position=1),
    ...     Change(1, {"by": "ann", "amount": 5}, {"by": "ann", "amount": 7}, timestamp=20, position=2),
    ... ]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(changes)
    ...         | AggregateTable(
    ...             group_by="by",
    ...             initial=list,
    ...             add=lambda amounts, order: [*amounts, order["amount"]],
    ...             subtract=lambda amounts, order: [amount for amount in amounts if amount != order["amount"]],
    ...         )
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='ann', old=None, new=[5], timestamp=10, position=1)
    Change(key='ann', old=[5], new=[7], timestamp=20, position=2)
    """

    def __init__(self, *, group_by: OfRow, initial: Any, add: Callable[[Any, Any], Any], subtract: Callable[[Any, Any], Any]) -> None:
        super().__init__(group_by)
        self._initial = initial_of(initial)
        self._add = function("add", add, OF_AGGREGATE)
        self._subtract = function("subtract", subtract, OF_AGGREGATE)

    def fold(self) -> Fold:
        """The functions of the user."""
        functions = self.handling.functions
        return Fold(functions, functions.function("initial", self._initial), self._add, self._subtract)
