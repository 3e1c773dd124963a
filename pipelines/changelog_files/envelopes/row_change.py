"""One change of one row, taken out of its envelope."""

import datetime as dt
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
UPSERT, DELETE = "u", "d"


class RowChange(NamedTuple):
    """``row`` is the JSON text of the row, of a deleted one at least its key; ``time`` are microseconds since the epoch.

    ``position`` is the same for all changes of a transaction where the envelope tells transactions apart, and ``order`` says which comes later within it.
    ``key`` are the columns of the primary key, none where the envelope does not say. ``table`` is the full name.
    """

    table: str
    operation: str
    row: bytes
    time: int
    position: int
    order: int = 0
    key: tuple[str, ...] = ()


class Envelope(Protocol):
    """Reads the lines of a file in their order."""

    def changes(self, line: bytes) -> Iterable[RowChange]:
        """The changes of a line, none for one that is about no row; raises ValueError, a sentence, for a line that is none of the format."""


def object_text(names: Iterable[str], values: Iterable[msgspec.Raw]) -> bytes:
    """The JSON object of the values' own texts.

    >>> object_text(["a"], [msgspec.Raw(b"1.10")])
    b'{"a":1.10}'
    """
    members = (msgspec.json.encode(name) + b":" + bytes(value) for name, value in zip(names, values, strict=True))
    return b"{" + b",".join(members) + b"}"


def microseconds(text: str) -> int:
    """Microseconds since the epoch of an ISO 8601 text, in UTC if it does not say; raises ValueError.

    >>> microseconds("1970-01-01 01:00:00.5+01")
    500000
    """
    time = dt.datetime.fromisoformat(text)
    return (time.replace(tzinfo=time.tzinfo or dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)


def lsn(text: str) -> int:
    """The number of a PostgreSQL log sequence number.

    >>> lsn("16/B374D848")
    97500059720
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def in_binary_log(position: str | None, offset: int) -> int:
    """The number of a place in MySQL's binary log, of the file's name and the offset in it.

    >>> in_binary_log("mysql-bin.000003", 154) == (3 << 40) + 154
    True
    """
    _, _, number = (position or "").rpartition(".")
    return ((int(number) if number.isdigit() else 0) << 40) + offset


def moved(old: bytes | None, new: bytes, key: str) -> bool:
    """Whether a row has left its key for another one; ``old`` has some columns as they were before, or is None."""
    if old is None:
        return False
    before, after = (msgspec.json.decode(text, type=dict[str, msgspec.Raw]) for text in (old, new))
    return key in before and key in after and bytes(before[key]) != bytes(after[key])
