"""How records and results are written in the tables of the documentation.

A cell holds several of them with ``; `` between. ``k: v @100`` is the record of key k and value v at time
100; ``k: delete`` a tombstone; ``null`` a null key, value or time. ``k: A → B`` is a change from A to B, and
``-`` no row. A combined key is ``foreign/primary``, a windowed key ``key[0..10)``.
"""

import re
from typing import Any, NamedTuple

from beam_joins import Change, CombinedKey, Windowed

_ITEM = re.compile(r"(?:(?P<key>[^:]+): )?(?P<value>.*?)(?: @(?P<time>\S+))?")
DELETE, NULL = "delete", "null"
MICROS = 1_000_000


class Item(NamedTuple):
    """A record as it is written; a key, value or time that is written ``null`` is ``None``."""

    key: str | None
    value: str | None
    time: int | None
    has_time: bool


class Got(NamedTuple):
    """A result: the place of the row that it belongs to, and how it is written, with its time behind ``@``."""

    place: Any
    text: str


def items(cell: str) -> list[Item]:
    """The records of a cell."""
    actual = []
    for text in filter(None, (part.strip() for part in cell.split(";"))):
        match = _ITEM.fullmatch(text)
        assert match, f"{text!r} is no record"
        key, value, time = match["key"], match["value"], match["time"]
        actual.append(
            Item(
                None if key == NULL else key,
                None if value == NULL else value,
                None if time in (None, NULL) else int(time),
                time is not None,
            )
        )
    return actual


def results(cell: str) -> list[str]:
    """The results of a cell, in order of their text: a collection has no order."""
    return sorted(part.strip() for part in cell.split(";") if part.strip())


def place(cell: str) -> int | str | None:
    """Where a row stands: a position or a time, ``None`` for null, or just its text."""
    return None if cell == NULL else int(cell) if cell.lstrip("-").isdigit() else cell


def written(change: Change[Any, Any]) -> str:
    """A change as it is written."""
    return f"{key(change.key)}: {side(change.old)} → {side(change.new)}"


def side(value: Any) -> str:
    """A value as it is written."""
    return "-" if value is None else str(value)


def key(of: Any) -> str:
    """A key as it is written; windows in seconds."""
    if isinstance(of, CombinedKey):
        return f"{side(of.foreign_key)}/{side(of.primary_key)}"
    if isinstance(of, Windowed):
        return f"{of.key}[{of.window.start // MICROS}..{of.window.end // MICROS})"
    return NULL if of is None else str(of)


def pair(left: str | None, right: str | None) -> str:
    """The joiner of the tables."""
    return f"({side(left)}, {side(right)})"
