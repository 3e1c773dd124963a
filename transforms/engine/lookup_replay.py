"""The lookup join on the engine: joins of windowed tables, the one-to-many join, and foreign-key joins keyed by combined keys."""

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.coders import Coder

from beam_joins.change import Change
from beam_joins.copied import copied
from beam_joins.function_failed import FunctionFailed
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.core_operator import CoreOperator
from beam_joins.transforms.engine.user_functions import StageFunctions
from tests.reference.lookup_join import LookupHow, LookupJoin, ResultKey


class LookupReplay(CoreOperator):
    """Left rows (input 0) with the right rows (input 1) that they look up, all of one routing key.

    ``lookup`` and ``route`` work on encoded records; ``result_key`` makes the key of a result from its encoded one, ``key_mapper`` another one
    from that, and ``row_key`` the key of a row of the given input. ``swapped`` says that the joiner takes the right value first.
    """

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        how: LookupHow,
        *,
        functions: StageFunctions,
        values: tuple[Coder, Coder],
        result_key: Callable[[ResultKey], Any],
        row_key: Callable[[bytes, int], Any],
        key_mapper: Callable[[Any], Any] | None = None,
        swapped: bool = False,
        lookup: Callable[[Record], bytes | None] = lambda left: left.key,
        route: Callable[[Record], bytes] | None = None,
        shared_keys: bool = True,
    ) -> None:
        self._joiner = joiner
        self._how: LookupHow = how
        self._functions = functions
        self._left_values, self._right_values = values
        self._result_key = result_key
        self._row_key = row_key
        self._key_mapper = key_mapper
        self._swapped = swapped
        self._lookup = lookup
        self._route = route
        self._shared_keys = shared_keys

    def core(self) -> LookupJoin[Any]:
        """The join of one routing key."""
        join: LookupJoin[Any] = LookupJoin(
            lambda left, right: self._join(join, left, right), self._how, self._lookup, shared_keys=self._shared_keys
        )
        return join

    def _join(self, core: LookupJoin[Any], left: bytes | None, right: bytes | None) -> Any:
        # every call has values of its own, and nobody else has what it gives
        try:
            result = self._joiner(*self._arguments(left, right))
        except Exception as error:
            assert core.joining is not None
            key, timestamp = core.joining
            given = self._arguments(left, right)
            self._functions.failed("joiner", error, given, timestamp, key=self._result_key(key))
            return None
        return copied(result)

    def _arguments(self, left: bytes | None, right: bytes | None) -> tuple[Any, Any]:
        left_value = None if left is None else self._left_values.decode(left)
        right_value = None if right is None else self._right_values.decode(right)
        return (right_value, left_value) if self._swapped else (left_value, right_value)

    def routes(self, records: Sequence[Record]) -> list[bytes]:
        """The keys, or what ``route`` makes of the records."""
        route = self._route
        return [record.key for record in records] if route is None else [route(record) for record in records]

    def row_key(self, key: bytes, input: int) -> Any:
        """Decoded."""
        return self._row_key(key, input)

    def write(self, output: Change[ResultKey, Any], writer: BlockWriter) -> Any:
        """The change with its key decoded, at its event time; ``None`` if its key is one for which ``key_mapper`` raised."""
        encoded, old, new, timestamp, position = output
        key = self._result_key(encoded)
        try:
            result_key = key if self._key_mapper is None else self._key_mapper(key)
        except FunctionFailed as failed:
            if new is not None or not self._functions.handles(failed.__cause__):
                self._functions.caught(Change(key, old, new, timestamp, position), failed, timestamp)
            return None
        # the core keeps the new value: whoever takes this one may write into it
        return timestamped(Change(result_key, old, copied(new), timestamp, position), timestamp)
