"""Whole operators put together from the pure cores, as the engine does it: one core per routing key,
positions in rising order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from beam_joins import Change, Dropped
from beam_joins.elements.content import Emit
from tests.reference.foreign_key import How, Reference, Response, ResponseJoiner, Subscription, SubscriptionStore, send, value_hash
from tests.reference.record import Record
from tests.reference.upsert_table import UpsertTable

ForeignKey = Callable[[bytes], bytes | None]
Joiner = Callable[[bytes, bytes | None], Any]


def upsert_table(records: Iterable[Record], emit: Emit = "updates") -> list[Change[bytes, bytes] | Dropped]:
    """The table that a raw changelog stands for, and what was dropped."""
    rows: dict[bytes, UpsertTable] = defaultdict(lambda: UpsertTable(emit))
    together: dict[tuple[int, bytes], list[Record]] = defaultdict(list)
    for record in records:
        together[record.position, record.key].append(record)
    return [out for (position, key), events in sorted(together.items()) for out in rows[key].advance(position, events)]


def changes_of(outputs: Iterable[Any]) -> list[Change[Any, Any]]:
    """The changes alone."""
    return [output for output in outputs if isinstance(output, Change)]


class Replayed(NamedTuple):
    """The outputs of a join and the messages that were sent for it, all in order of position."""

    outputs: list[Any]
    subscriptions: list[Subscription]
    responses: list[Response]


def messages_of(change: Change[bytes, bytes], how: How, foreign_key: ForeignKey) -> list[Subscription | Response]:
    """What the left side sends for a change of a left row."""
    old, new = (None if value is None else Reference(foreign_key(value)) for value in (change.old, change.new))
    return list(
        send(
            how,
            change.key,
            old,
            new,
            new_hash=value_hash(change.new, change.position),
            timestamp=change.timestamp,
            position=change.position,
        )
    )


def foreign_key_join(
    left: Iterable[Change[bytes, bytes]], right: Iterable[Change[bytes, bytes]], *, how: How, foreign_key: ForeignKey, joiner: Joiner
) -> Replayed:
    """Both tables through the three steps of the join, position by position."""
    stores: dict[bytes, SubscriptionStore] = defaultdict(SubscriptionStore)
    rows: dict[bytes, ResponseJoiner[Any]] = defaultdict(lambda: ResponseJoiner(joiner, how))
    lefts, rights = _by_position(left), _by_position(right)
    outputs: list[Any] = []
    subscriptions: list[Subscription] = []
    responses: list[Response] = []
    for position in sorted(lefts.keys() | rights.keys()):
        at_stores: dict[bytes, list[Any]] = defaultdict(list)
        at_rows: dict[bytes, list[Any]] = defaultdict(list)
        for change in lefts.get(position, ()):
            at_rows[change.key].append(as_record(change))
            for message in messages_of(change, how, foreign_key):
                if isinstance(message, Subscription):
                    subscriptions.append(message)
                    at_stores[message.foreign_key].append(message)
                else:
                    responses.append(message)
                    at_rows[message.primary_key].append(message)
        for change in rights.get(position, ()):
            at_stores[change.key].append(as_record(change))
        for key in sorted(at_stores):
            for response in stores[key].advance(position, at_stores[key]):
                responses.append(response)
                at_rows[response.primary_key].append(response)
        for key in sorted(at_rows):
            outputs.extend(rows[key].advance(position, at_rows[key]))
    return Replayed(outputs, subscriptions, responses)


def as_record(change: Change[bytes, bytes]) -> Record:
    """The new state of a row, as the join's cores take it."""
    return Record(change.key, change.new, change.timestamp, change.position)


def _by_position(changes: Iterable[Change[bytes, bytes]]) -> Mapping[int, Sequence[Change[bytes, bytes]]]:
    at: dict[int, list[Change[bytes, bytes]]] = defaultdict(list)
    for change in changes:
        at[change.position].append(change)
    return at
