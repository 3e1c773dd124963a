"""The aggregates of groups on the engine."""

from collections.abc import Callable
from typing import Any

from apache_beam.coders import Coder

from beam_joins.change import Change
from beam_joins.coders.combined_key import split
from beam_joins.copied import copied
from beam_joins.record import LeftOut
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.core_operator import CoreOperator
from beam_joins.transforms.engine.user_functions import StageFunctions
from tests.reference.aggregate import GroupAggregate


class AggregateReplay(CoreOperator):
    """Values that leave a group (input 0) and enter it (input 1), under ``combine(group, key)``; ``coders`` are of group, key and value."""

    def __init__(
        self,
        initial: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        functions: StageFunctions,
        coders: tuple[Coder, Coder, Coder],
    ) -> None:
        self._initial = initial
        self._add = add
        self._subtract = subtract
        self._functions = functions
        self._groups, self._keys, self._values = coders

    def core(self) -> GroupAggregate[Any]:
        """The aggregate of one group."""
        not_added: set[bytes] = set()  # the members whose present value is not in the aggregate

        def add(aggregate: Any, encoded: bytes) -> Any:
            try:
                result = self._add(copied(aggregate), self._values.decode(encoded))
            except Exception as error:
                (group, key), value = self._member(core), self._values.decode(encoded)
                time = core.applying.timestamp if core.applying else None
                self._functions.failed("add", error, (aggregate, value), time, key=group, record=(group, key, value))
                not_added.add(core.applying.key if core.applying else b"")
                raise LeftOut from None
            if not_added and core.applying:
                not_added.discard(core.applying.key)
            return copied(result)

        def subtract(aggregate: Any, encoded: bytes) -> Any:
            if not_added and core.applying and core.applying.key in not_added:
                not_added.remove(core.applying.key)
                raise LeftOut
            try:
                result = self._subtract(copied(aggregate), self._values.decode(encoded))
            except Exception as error:
                # what was added and cannot be subtracted leaves no aggregate that is right
                raise self._functions.failure(
                    "subtract", error, (aggregate, self._values.decode(encoded)), self._member(core)[0]
                ) from error
            return copied(result)

        core: GroupAggregate[Any] = GroupAggregate(self._initial, add, subtract)
        return core

    def _member(self, core: GroupAggregate[Any]) -> tuple[Any, Any]:
        assert core.applying is not None
        group, key = split(core.applying.key)
        return self._groups.decode(group), self._keys.decode(key)

    def routes(self, records: Any) -> list[bytes]:
        """The groups."""
        return [split(record.key).foreign_key for record in records]

    def write(self, output: Change[bytes, Any], writer: BlockWriter) -> Any:
        """The change with its group decoded, at its event time."""
        key, old, new, timestamp, position = output
        # the core keeps the new aggregate: whoever takes this one may write into it
        return timestamped(Change(self._groups.decode(split(key).foreign_key), old, copied(new), timestamp, position), timestamp)
