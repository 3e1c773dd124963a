"""Step three: back at the left row, an answer is joined if it belongs to the row's current value.

Kafka does this in ResponseJoinProcessorSupplier.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from beam_joins.elements.change import Change, Dropped, V, two_changes
from tests.reference.foreign_key.messages import How, Response
from tests.reference.foreign_key.value_hash import value_hash
from tests.reference.record import Record


class ResponseJoiner(Generic[V]):
    """One left row and its result row.

    ``joiner(left value, right value or None)`` gets encoded values, and gives the result (``None``: no row).
    An answer whose hash is not that of the current left row is stale: it comes out as
    ``Dropped("stale_response", response, timestamp)``. In ordered replay there are none.

    Beyond Kafka: a stale null answer still retracts a result that was joined from a left value that is gone.
    Kafka keeps such a row for good when a left row is deleted and written again before the answer to the
    deletion is back.
    """

    def __init__(self, joiner: Callable[[bytes, bytes | None], V | None], how: How) -> None:
        self._joiner = joiner
        self._how = how
        self._left: Record | None = None
        self._hash: bytes | None = None
        self._result: V | None = None
        self._joined_from: Record | None = None

    def advance(self, position: int, events: Sequence[Record | Response]) -> Iterator[Change[bytes, V] | Dropped]:
        """Apply the left row and the answers of one position; at most one change follows.

        Raises ``ValueError`` if the left table has two changes of the row at this position.
        """
        old = self._result
        answer: Response | None = None
        left_seen = False
        for event in events:
            if isinstance(event, Record):
                if left_seen:
                    raise two_changes(event.key, position)
                left_seen = True
                self._left = event if event.value is not None else None
                self._hash = value_hash(event.value, event.position)
            elif event.hash == self._hash:
                answer = event if answer is None or event.timestamp > answer.timestamp else answer
                self._result = self._join(event)
                self._joined_from = self._left
            else:
                yield Dropped("stale_response", event, event.timestamp)
                if event.value is None and self._result is not None and self._joined_from is not self._left:
                    answer, self._result = event, None
        if answer is not None and not (old is None and self._result is None):
            yield Change(answer.primary_key, old, self._result, answer.timestamp, position)

    def _join(self, answer: Response) -> V | None:
        if self._left is None or self._left.value is None or (answer.value is None and self._how == "inner"):
            return None
        return self._joiner(self._left.value, answer.value)
