"""AggregateTable, CountTable and ReduceTable: a table grouped by something that is not its key."""

from collections.abc import Callable
from typing import Any

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from beam_joins.coders.combined_key import combine
from beam_joins.coders.key import encode_key, key_coder, value_coder
from beam_joins.fields import of_row
from beam_joins.record import Record
from beam_joins.transforms.engine.aggregate_replay import AggregateReplay
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.checked_table import checked_table
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import Outputs, WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route, RowRouter
from beam_joins.transforms.engine.table_type import TableType, as_table, not_a_change, require_bounded, table_key_coder, table_type
from beam_joins.transforms.table_to_records import in_records
from beam_joins.user_functions import OfRows
from tests.reference.aggregate import ADD, SUBTRACT

OF_AGGREGATE = "of the aggregate and a value"


class AggregateTable(WithOutputs):
    """The rows of a table, grouped and aggregated: ``PCollection[Change[K, V]]`` to ``PCollection[Change[G, A]]``, keyed by the group.

    * ``group_by(key, value)`` gives the group of a row, or ``None``; or name the field of the value.
    * ``initial`` is the aggregate of no rows, or a function without arguments that gives it.
    * ``add(aggregate, value)`` and ``subtract(aggregate, value)`` give the aggregate with one row more and one less; ``None`` removes the
      group's row. They may write into the aggregate that they are given and return it.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    A change of a row subtracts its old value from the old value's group and adds the new value to the new value's group. A group changes
    once at a position, all subtractions before all additions. It has a row from its first addition on, and keeps it when its last row has
    left: a count goes to 0. A result has the largest timestamp of all that went into it.

    A value whose group is ``None`` is not aggregated, and is dropped as ``"null_group"``: counted, and an output of :meth:`with_outputs`. Groups
    that are equal in Python are one group: 7 and 7.0, but not "7".

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed or unbounded input or to keys whose coder is not
    deterministic; and in the run for a group that cannot be a key.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> changes = [
    ...     Change(1, None, {"by": "ann", "amount": 5}, timestamp=10, position=1),
    ...     Change(1, {"by": "ann", "amount": 5}, {"by": "ann", "amount": 7}, timestamp=20, position=2),
    ... ]
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(changes)
    ...         | AggregateTable(
    ...             group_by="by",
    ...             initial=0,
    ...             add=lambda total, order: total + order["amount"],
    ...             subtract=lambda total, order: total - order["amount"],
    ...         )
    ...         | beam.Map(print)
    ...     )
    Change(key='ann', old=None, new=5, timestamp=10, position=1)
    Change(key='ann', old=5, new=7, timestamp=20, position=2)
    """

    def __init__(
        self,
        *,
        group_by: str | Callable[[Any, Any], Any],
        initial: Any,
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        self._group_by, self._group_by_given = of_row("group_by", group_by), group_by
        self._initial = initial_of(initial)
        self._add = function("add", add, OF_AGGREGATE)
        self._subtract = function("subtract", subtract, OF_AGGREGATE)
        self._partitions = partition_count(partitions)

    def build(self, pvalue: PCollection[Any]) -> Outputs:
        """The aggregates and the dropped records."""
        name = type(self).__name__
        require_bounded(name, pvalue)
        pvalue = checked_table(in_records(pvalue), f"the key of {name}", self._partitions)
        table = table_type(pvalue)
        keys, values = table_key_coder(table, f"the key of {name}"), value_coder(table.value)
        groups = key_coder(Any, f"the group of {name}")
        handling, functions = self.handling, self.handling.functions
        group_by = functions.of_rows(functions.function("group_by", self._group_by_given, self._group_by))
        routed = pvalue | "Group" >> Route(
            functions.route(_member_rows(group_by, keys, groups, values)),
            to=("members", *self.dropping, *handling.tags),
            partitions=self._partitions,
        )
        aggregate = AggregateReplay(
            functions.function("initial", self._initial), self._add, self._subtract, functions, (groups, keys, values)
        )
        replayed = (routed["members"],) | "Aggregate" >> Replay(
            functions.replay(aggregate), to=(MAIN, *handling.tags), partitions=self._partitions, main_type=Change
        )
        handling.collect(routed, replayed)
        return Outputs(as_table(replayed[MAIN], TableType(order=table.order)), self.all_dropped(routed))


class CountTable(AggregateTable):
    """How many rows of a table each group has: :class:`AggregateTable` with a count.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change(1, None, {"city": "Oslo"}, 10, 1), Change(2, None, {"city": "Oslo"}, 20, 1)])
    ...         | CountTable(group_by="city")
    ...         | beam.Map(print)
    ...     )
    Change(key='Oslo', old=None, new=2, timestamp=20, position=1)
    """

    def __init__(self, *, group_by: str | Callable[[Any, Any], Any], partitions: int | None = None) -> None:
        super().__init__(
            group_by=group_by,
            initial=0,
            add=lambda count, value: count + 1,
            subtract=lambda count, value: count - 1,
            partitions=partitions,
        )


class ReduceTable(AggregateTable):
    """The values of each group of a table reduced to one: :class:`AggregateTable` whose first value is the aggregate itself.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("a", None, 5, 10, 1), Change("b", None, 7, 20, 2)])
    ...         | ReduceTable(group_by=lambda key, value: "all", add=lambda one, other: one + other, subtract=lambda one, other: one - other)
    ...         | beam.Map(print)
    ...     )
    Change(key='all', old=None, new=5, timestamp=10, position=1)
    Change(key='all', old=5, new=12, timestamp=20, position=2)
    """

    def __init__(
        self,
        *,
        group_by: str | Callable[[Any, Any], Any],
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        partitions: int | None = None,
    ) -> None:
        combine = function("add", add, OF_AGGREGATE)
        super().__init__(
            group_by=group_by,
            initial=None,
            add=lambda reduced, value: value if reduced is None else combine(reduced, value),
            subtract=subtract,
            partitions=partitions,
        )


def initial_of(initial: Any) -> Callable[[], Any]:
    """The function that gives the first aggregate; raises ``ValueError`` for a container, which all groups would share.

    >>> initial_of(0)(), initial_of(list)()
    (0, [])
    """
    if isinstance(initial, list | dict | set | bytearray):
        raise ValueError(f"initial={initial!r} would be shared by all groups: give a function, such as {type(initial).__name__}")
    return initial if callable(initial) else lambda: initial


def _member_rows(group_by: OfRows, keys: Coder, groups: Coder, values: Coder) -> RowRouter:
    """The values that leave and enter a group, under ``combine(group, key)``."""

    def rows(change: Change[Any, Any], arrival: int, writer: BlockWriter) -> None:
        if type(change) is not Change:
            raise not_a_change(change)
        key, old, new, timestamp, position = change
        encoded_key = encode_key(keys, key, "the key")
        for value, leaves_or_enters in ((old, SUBTRACT), (new, ADD)):
            if value is None:
                continue
            group = group_by(key, value)
            if group is not None:
                encoded_group = encode_key(groups, group, "the group")
                record = Record(combine(encoded_group, encoded_key), values.encode(value), timestamp, position, leaves_or_enters)
                writer.send("members", encoded_group, record)
            elif leaves_or_enters == ADD and not group_by.report(change, timestamp):
                writer.drop("null_group", change, timestamp)

    return rows
