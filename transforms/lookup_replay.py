"""The lookup join on the engine: what the table-table join and all joins of windowed tables run."""

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.coders import Coder

from beam_joins.change import Change
from beam_joins.lookup_join import LookupHow, LookupJoin, ResultKey
from beam_joins.record import Record
from beam_joins.transforms.core_operator import CoreOperator
from beam_joins.transforms.outlet import Outlet, at


class LookupReplay(CoreOperator):
    """Left rows (input 0) with the right rows (input 1) that they look up, all of one routing key.

    ``lookup`` and ``route`` work on encoded records; ``result_key`` makes the key of a result from its encoded one, and ``row_key`` that of
    a row of the given input.
    """

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        how: LookupHow,
        *,
        values: tuple[Coder, Coder],
        result_key: Callable[[ResultKey], Any],
        row_key: Callable[[bytes, int], Any],
        lookup: Callable[[Record], bytes | None] = lambda left: left.key,
        route: Callable[[Record], bytes] | None = None,
        shared_keys: bool = True,
    ) -> None:
        self._joiner = joiner
        self._how: LookupHow = how
        self._left_values, self._right_values = values
        self._result_key = result_key
        self._row_key = row_key
        self._lookup = lookup
        self._route = route
        self._shared_keys = shared_keys

    def core(self) -> LookupJoin[Any]:
        """The join of one routing key."""
        return LookupJoin(self._join, self._how, self._lookup, shared_keys=self._shared_keys)

    def _join(self, left: bytes | None, right: bytes | None) -> Any:
        return self._joiner(
            None if left is None else self._left_values.decode(left), None if right is None else self._right_values.decode(right)
        )

    def routes(self, records: Sequence[Record]) -> list[bytes]:
        """The keys, or what ``route`` makes of the records."""
        route = self._route
        return [record.key for record in records] if route is None else [route(record) for record in records]

    def row_key(self, key: bytes, input: int) -> Any:
        """Decoded."""
        return self._row_key(key, input)

    def write(self, output: Change[ResultKey, Any], outlet: Outlet) -> Any:
        """The change with its key decoded, at its event time."""
        key, old, new, timestamp, position = output
        return at(Change(self._result_key(key), old, new, timestamp, position), timestamp)
