"""Step two: the side of the foreign key keeps subscriptions beside the right row and answers them.

Kafka does this in SubscriptionReceive, SubscriptionJoin and ForeignTableJoin, on a store scanned by the
combined key's prefix. Here a store is all of one foreign key, which is what the prefix selects.
"""

from collections.abc import Iterator, Sequence

from beam_joins.elements.change import two_changes
from tests.reference.foreign_key.messages import Instruction, Response, Subscription
from tests.reference.record import Record


class SubscriptionStore:
    """One foreign key: its right row and the left rows that refer to it.

    Every left row gets at most one answer per position: a subscription and a change of the right row at one
    position are one event. An answer to a subscription has the larger timestamp of both sides; an answer that
    only the right row caused has the right row's (seen in 4.3.1: left at 100, right at 50 gives 50).

    Beyond Kafka, where no two records are at one position: of a left row that is deleted as its right row
    changes the tombstone has the larger timestamp too, so its subscription is answered even if it says that
    somebody else answers.
    """

    def __init__(self) -> None:
        self._right: Record | None = None
        self._subscribers: dict[bytes, bytes | None] = {}

    def advance(self, position: int, events: Sequence[Subscription | Record]) -> Iterator[Response]:
        """Apply the subscriptions and the right row of one position, then answer.

        Raises ``ValueError`` if the right table has two changes of the row at this position.
        """
        asked: dict[bytes, Subscription] = {}
        right_changed = False
        right_time = self._right.timestamp if self._right else None
        for event in events:
            if isinstance(event, Subscription):
                asked[event.primary_key] = event
                if event.instruction.deletes:
                    self._subscribers.pop(event.primary_key, None)
                else:
                    self._subscribers[event.primary_key] = event.hash
            elif right_changed:
                raise two_changes(event.key, position)
            else:
                right_changed, right_time = True, event.timestamp
                self._right = event if event.value is not None else None
        value = self._right.value if self._right else None
        for subscription in asked.values():
            _, primary_key, instruction, value_hash, timestamp, _ = subscription
            answer = None if instruction.deletes else value
            deleted_at_once = right_changed and value_hash is None
            if instruction is Instruction.DELETE_KEY_NO_PROPAGATE and not deleted_at_once:
                continue
            if instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and answer is None and not right_changed:
                continue
            if right_time is not None and (answer is not None or instruction.deletes or right_changed):
                timestamp = max(timestamp, right_time)
            yield Response(primary_key, value_hash, answer, timestamp, position)
        if right_changed and right_time is not None:
            for primary_key in sorted(self._subscribers.keys() - asked.keys()):
                yield Response(primary_key, self._subscribers[primary_key], value, right_time, position)
