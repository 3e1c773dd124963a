"""Makes delete events of the tombstones in a topic of Debezium's events.

A delete is an event and a tombstone behind it, and compaction removes the event: the tombstone alone stays for readers that come
later, and its key says of which row it is. The delete that is made of it has the place right behind the event before it.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from beam_joins.pipelines.formats.envelopes.debezium import MARKS, NULL

_PARTS: Final = {"schema", "payload"}
OF_ROWS: Final = ("c", "u", "r", "d")
"""The operations of events about one row."""
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NONE: Final = msgspec.Raw(NULL)
_TRUE: Final = msgspec.Raw(b"true")
PLACED: Final = "of_tombstone"
"""The field of an event's source that is true in a delete that was made of a tombstone."""


class RowEvent(NamedTuple):
    """An event of a row: the ``delete``, without a row, that a tombstone behind it would be, and whether it is a delete itself."""

    delete: Any
    is_delete: bool


class EventReader(Protocol):
    """Reads events of a serialization."""

    def event(self, value: bytes) -> RowEvent | None:
        """The event of a value, ``None`` for others."""

    def deleted(self, last: Any, key: bytes | None) -> Any | None:
        """The delete of the row with the key of a tombstone behind the ``last`` event; ``None`` for a key that does not say of which
        row it is.
        """


class Tombstones:
    """Gives the values of records. ``last`` are deletes without a row, by partition: those that a tombstone after the last event
    of a row would be.
    """

    def __init__(self, last: MutableMapping[str, Any], events: EventReader) -> None:
        self.last, self._events = last, events

    def values(self, messages: Sequence[Any]) -> Iterator[Any]:
        """The values of consecutive records of a partition; that of a tombstone is a delete, or ``None`` where the record before
        it is this delete, and where its key or the event before it does not say of which row it is.
        """
        before: list[Any] = []
        for message in messages:
            if message.value():
                before.append(message)
                yield message.value()
                continue
            is_told = self._note(before) and before[-1].key() == message.key()
            before = []
            last = self.last.get(_place(message))
            yield None if is_told or last is None else self._events.deleted(last, message.key())
        self._note(before)

    def _note(self, messages: Sequence[Any]) -> bool:
        """Notes the last event of a row among records; whether it is a delete, and the last record."""
        for message in reversed(messages):
            if (event := self._events.event(message.value())) is not None:
                self.last[_place(message)] = event.delete
                return event.is_delete and message is messages[-1]
        return False


def _place(message: Any) -> str:
    return f"{message.topic()} {message.partition()}"


class JsonEvents:
    """Reads events in JSON."""

    def event(self, value: bytes) -> RowEvent | None:
        """The event of a value, whose delete is a text, as a state can have it; ``None`` for others."""
        try:
            parts = _MEMBERS.decode(value)
            is_within = "payload" in parts and parts.keys() <= _PARTS
            members = _MEMBERS.decode(parts["payload"]) if is_within else parts
            delete, is_delete = _enveloped(members) if MARKS.isdisjoint(members) else _unwrapped(members)
        except (msgspec.DecodeError, KeyError, RecursionError):
            return None
        whole = {"schema": parts.get("schema", _NONE), "payload": delete} if is_within else delete
        return RowEvent(msgspec.json.encode(whole).decode(), is_delete)

    def deleted(self, last: str, key: bytes | None) -> bytes | None:
        """The delete as the value of an event."""
        try:
            members = _MEMBERS.decode(key or NULL)
            if "payload" in members and members.keys() <= _PARTS:
                members = _MEMBERS.decode(members["payload"])
            whole = msgspec.json.decode(last)
            event = whole["payload"] if whole.keys() == _PARTS else whole
            row = event.get("before", event)
            if row == "":
                identity = msgspec.json.decode(members["id"], type=str)
                event["before"] = msgspec.json.encode({"_id": msgspec.json.decode(identity, type=msgspec.Raw)}).decode()
            elif members and members.keys() <= row.keys():
                row.update(members)
            else:
                return None
        except (msgspec.DecodeError, KeyError, RecursionError):
            return None
        return msgspec.json.encode(whole)


def _enveloped(members: Mapping[str, msgspec.Raw]) -> tuple[dict[str, Any], bool]:
    operation = msgspec.json.decode(members["op"])
    if operation not in OF_ROWS:
        raise KeyError(operation)
    row = members["before" if operation == "d" else "after"]
    is_text = bytes(row).startswith(b'"')  # of MongoDB's documents
    before = "" if is_text else dict.fromkeys(_MEMBERS.decode(row))
    source = {**_MEMBERS.decode(members["source"]), PLACED: _TRUE}
    return {"before": before, "after": None, "source": source, "op": "d", "ts_ms": members.get("ts_ms", _NONE)}, operation == "d"


def _unwrapped(members: Mapping[str, msgspec.Raw]) -> tuple[dict[str, Any], bool]:
    is_delete = bytes(members.get("__deleted", NULL)).strip(b'"') == b"true"
    made = {name: value if name in MARKS else _NONE for name, value in members.items()}
    return {**made, "__deleted": "true", f"__source_{PLACED}": _TRUE}, is_delete
