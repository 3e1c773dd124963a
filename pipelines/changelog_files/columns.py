"""Which column of a changelog means what."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Unit = Literal["us", "ms", "s"]
UNITS: Final[dict[Unit, int]] = {"us": 1, "ms": 1_000, "s": 1_000_000}
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of one changelog that say how to read it.

    ``sequence`` None: the event time is the position. ``delete`` None: there are no deletes; else a record is one if the column's text
    (``true`` for true) is among ``delete_values``, whatever its case. ``unit`` is what a whole number in ``timestamp`` counts.

    >>> columns = Columns(key="id", timestamp="at", sequence="lsn", delete="op", unit="ms")
    >>> row = {"id": 1, "at": 5, "lsn": "17", "op": "D"}
    >>> columns.time_of(row), columns.position_of(row), columns.is_delete(row), columns.fault(row)
    (5000, 17, True, None)
    >>> columns.fault({"id": 1, "at": "yesterday", "lsn": 1, "op": "c"})
    "column 'at' is not a time: 'yesterday'"
    """

    key: str
    timestamp: str
    sequence: str | None = None
    delete: str | None = None
    delete_values: frozenset[str] = frozenset({"d", "delete", "true"})
    unit: Unit = "us"

    def time_of(self, row: Row) -> int:
        """The event time in microseconds since the epoch; text is ISO 8601, in UTC if it does not say.

        Raises:
            ValueError: it is neither a whole number nor such a text.
            KeyError: there is no such column.
        """
        value = row[self.timestamp]
        if type(value) is int:
            return value * UNITS[self.unit]
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        if not isinstance(value, dt.datetime):
            raise ValueError("not a time")
        if value.tzinfo is None:
            value = value.replace(tzinfo=dt.UTC)
        return (value - EPOCH) // dt.timedelta(microseconds=1)

    def position_of(self, row: Row) -> int | None:
        """The sequence number, a whole number or its digits as text; None where it is null.

        Raises:
            ValueError: it is something else.
            KeyError: there is no such column.
        """
        if self.sequence is None:
            return self.time_of(row)
        value = row[self.sequence]
        if value is None or type(value) is int:
            return value
        if isinstance(value, str):
            return int(value)
        raise ValueError("not a whole number")

    def is_delete(self, row: Row) -> bool:
        """Whether the record deletes its row."""
        if self.delete is None:
            return False
        value = row.get(self.delete)
        return value is not None and str(value).lower() in self.delete_values

    def about_the_change(self) -> tuple[str, ...]:
        """The columns that describe the change and not the row: they are not part of the row's value."""
        return tuple(
            column for column in (self.delete, self.sequence) if column is not None and column not in (self.key, self.timestamp)
        )

    def fault(self, row: Row) -> str | None:
        """What makes the record unusable, or None. A null key or sequence is no fault here: the table drops and counts it."""
        try:
            fault = key_fault(self.key, row[self.key])
            position = None if fault else self._position_or_fault(row)
        except KeyError as error:
            return f"no column {error}"
        if isinstance(position, int) and not -(2**63) <= position < 2**63:
            return f"column '{self.sequence or self.timestamp}' does not fit in 64 bits: {position}"
        return position if isinstance(position, str) else fault

    def _position_or_fault(self, row: Row) -> int | str | None:
        try:
            self.time_of(row)
        except (ValueError, OverflowError):
            return f"column '{self.timestamp}' is not a time: {row[self.timestamp]!r}"
        try:
            return self.position_of(row)
        except ValueError:
            return f"column '{self.sequence}' is not a whole number: {row[self.sequence or '']!r}"


def key_fault(column: str, key: object) -> str | None:
    """What makes a value unusable as a key or a reference, or None.

    >>> key_fault("id", 1.5)
    "column 'id' is no key: 1.5 (keys are whole numbers, text, true or false)"
    """
    if key is None or isinstance(key, int | str | bytes):
        return None
    return f"column '{column}' is no key: {key!r} (keys are whole numbers, text, true or false)"
