"""The foreign-key join as it runs between partitions: messages wait in channels, and any channel may be the
next to deliver.

In order are, as in Kafka, the changes of one row, the messages from one left row to one foreign key, and
those back from one foreign key to one left row. Nothing else is.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from beam_joins import Change
from tests.reference.foreign_key import How, Response, ResponseJoiner, Subscription, SubscriptionStore
from tests.reference.operators import ForeignKey, Joiner, as_record, messages_of

Channel = tuple[str, bytes, bytes]


class Interleaving:
    """The join's cores and the channels between them. ``changes`` are what came out so far."""

    def __init__(
        self,
        left: Iterable[Change[bytes, bytes]],
        right: Iterable[Change[bytes, bytes]],
        *,
        how: How,
        foreign_key: ForeignKey,
        joiner: Joiner,
    ) -> None:
        self._how: How = how
        self._foreign_key = foreign_key
        self._stores: dict[bytes, SubscriptionStore] = defaultdict(SubscriptionStore)
        self._rows: dict[bytes, ResponseJoiner[Any]] = defaultdict(lambda: ResponseJoiner(joiner, how))
        self._channels: dict[Channel, deque[Any]] = defaultdict(deque)
        self.changes: list[Change[bytes, Any]] = []
        self.add_left(left)
        for change in sorted(right, key=lambda change: change.position):
            self._channels["right", change.key, b""].append(change)

    def add_left(self, left: Iterable[Change[bytes, bytes]]) -> None:
        """Let further changes of the left table wait for delivery."""
        for change in sorted(left, key=lambda change: change.position):
            self._channels["left", change.key, b""].append(change)

    def waiting(self) -> list[Channel]:
        """The channels that have something to deliver."""
        return sorted(channel for channel, messages in self._channels.items() if messages)

    def deliver(self, channel: Channel) -> None:
        """Take the oldest message of a channel to where it goes."""
        message = self._channels[channel].popleft()
        match channel[0]:
            case "left":
                self._left(message)
            case "right":
                self._answer(message.key, message.position, [as_record(message)])
            case "subscription":
                self._answer(message.foreign_key, message.position, [message])
            case "response":
                self._join(message.primary_key, message.position, [message])

    def run(self, choose: Callable[[Sequence[Channel]], Channel], sides: str | None = None) -> None:
        """Deliver until nothing waits, or nothing on the channels named ``sides``."""
        while channels := [channel for channel in self.waiting() if sides is None or channel[0] == sides]:
            self.deliver(choose(channels))

    def rows(self) -> dict[bytes, Any]:
        """The result table that came out; fails if its changes do not follow on each other."""
        rows: dict[bytes, Any] = {}
        for change in self.changes:
            assert (change.old, change.new) != (None, None)
            assert rows.get(change.key) == change.old, f"{change} follows on {rows.get(change.key)!r}"
            rows[change.key] = change.new
        return {key: value for key, value in rows.items() if value is not None}

    def _left(self, change: Change[bytes, bytes]) -> None:
        events: list[Any] = [as_record(change)]
        for message in messages_of(change, self._how, self._foreign_key):
            if isinstance(message, Subscription):
                self._channels["subscription", change.key, message.foreign_key].append(message)
            else:
                events.append(message)
        self._join(change.key, change.position, events)

    def _answer(self, foreign_key: bytes, position: int, events: list[Any]) -> None:
        response: Response
        for response in self._stores[foreign_key].advance(position, events):
            self._channels["response", foreign_key, response.primary_key].append(response)

    def _join(self, primary_key: bytes, position: int, events: list[Any]) -> None:
        outputs = self._rows[primary_key].advance(position, events)
        self.changes.extend(output for output in outputs if isinstance(output, Change))
