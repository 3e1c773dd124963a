"""What a core is fed with: the events of one routing key, position by position."""

from collections.abc import Iterable
from typing import NamedTuple

from beam_joins.elements.change import two_changes


class Record(NamedTuple):
    """One record of one input, its key and value encoded: what a core sees.

    ``value is None`` is a tombstone. ``timestamp`` is in microseconds. ``input`` numbers the operator's
    inputs; at one position input 0 is applied before input 1. ``within`` orders the records of one key and
    position, ``tie`` those that ``within`` and the time leave in no order; both compare as bytes
    (:func:`beam_joins.functions.fields.order_bytes`).

    >>> Record(b"k", None, timestamp=1_000_000, position=7).value is None
    True
    """

    key: bytes
    value: bytes | None
    timestamp: int
    position: int
    input: int = 0
    within: bytes = b""
    tie: bytes = b""


class LeftOut(Exception):
    """Raised by a function that is given to a core: what it was called with has no part in the result."""


def require_one_change(records: Iterable[Record]) -> None:
    """Raise ``ValueError`` if tables' records of one position have two of one row.

    >>> require_one_change([Record(b"k", b"v", 1, 5), Record(b"k", b"v", 1, 5, input=1)])
    """
    seen: set[tuple[int, bytes]] = set()
    for record in records:
        row = record.input, record.key
        if row in seen:
            raise two_changes(record.key, record.position)
        seen.add(row)
