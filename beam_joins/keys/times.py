"""Dates and times in the canonical encoding (:mod:`beam_joins.keys.canonical`): in microseconds, those with a
zone as instants.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from beam_joins.errors import CorruptData
from beam_joins.keys.numbers import NotCanonical, read_number, whole

_EPOCH, _UTC_EPOCH = dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST, _LAST = ((moment - _EPOCH) // _MICROSECOND for moment in (dt.datetime.min, dt.datetime.max))
_SPAN_BYTES: Final = 10  # timedelta.max is more microseconds than 64 bits count
_SPAN_BIAS: Final = 1 << (8 * _SPAN_BYTES - 1)

INSTANT, LOCAL, DATE, TIME, SPAN, TIMESTAMP = b"t", b"l", b"d", b"c", b"x", b"m"


def datetime(value: dt.datetime) -> bytes:
    """A datetime with or without a zone; raises :class:`NotCanonical` for an instant that UTC has no datetime
    for.
    """
    if value.tzinfo is None or value.utcoffset() is None:
        return LOCAL + whole((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)[1:]
    micros = (value - _UTC_EPOCH) // _MICROSECOND
    if not _FIRST <= micros <= _LAST:
        raise NotCanonical(f"{value!r} is before the year 1 or after 9999 in UTC")
    return INSTANT + whole(micros)[1:]


def other_datetime(value: dt.datetime) -> bytes:
    """A datetime of a subclass, such as pandas has; raises :class:`NotCanonical` for nanoseconds and for NaT."""
    if getattr(value, "nanosecond", 0):
        raise NotCanonical(f"{value!r} has nanoseconds, and times are compared in microseconds: round it")
    if not value == value:  # noqa: PLR0124  # NaT is not equal to itself
        raise NotCanonical(f"{value!r} is no time: use None for a missing one")
    return datetime(value)


def of_numpy(value: np.datetime64 | np.timedelta64) -> dt.datetime | dt.timedelta:
    """The datetime without a zone, or the timedelta; raises :class:`NotCanonical` for nanoseconds, NaT and
    times that Python has no value for.
    """
    if isinstance(value, np.datetime64):
        micros: Any = value.astype("datetime64[us]")
    elif np.datetime_data(value.dtype)[0] in ("Y", "M", "generic"):
        raise NotCanonical(f"{value!r} is no length of time: give its unit, weeks or smaller")
    else:
        micros = value.astype("timedelta64[us]")
    plain = micros.item()
    # a unit that is too long for 64 bits of microseconds wraps around
    if micros != value or not isinstance(plain, dt.datetime | dt.timedelta) or micros.astype(value.dtype) != value:
        raise NotCanonical(f"{value!r} is no time in microseconds that Python has: round it, and use None for a missing one")
    return plain


def time(value: dt.time) -> bytes:
    """A time of day; raises :class:`NotCanonical` for one with a zone."""
    if value.tzinfo is not None:
        raise NotCanonical(f"{value!r} is a time of day with a time zone, which has no place in time: leave the zone out")
    return TIME + value.isoformat("microseconds").encode()


def span(value: dt.timedelta) -> bytes:
    """A timedelta."""
    return SPAN + (value // _MICROSECOND + _SPAN_BIAS).to_bytes(_SPAN_BYTES, "big")


def _span(data: bytes) -> int:
    if len(data) != _SPAN_BYTES:
        raise CorruptData(f"a timedelta in {len(data)} bytes")
    return int.from_bytes(data, "big") - _SPAN_BIAS


def _days(data: bytes) -> int:
    return dt.date.fromisoformat(data.decode()).toordinal() - _EPOCH.toordinal()


def _of_day(data: bytes) -> int:
    return (dt.datetime.combine(_EPOCH, dt.time.fromisoformat(data.decode())) - _EPOCH) // _MICROSECOND


COUNTS: Final[dict[bytes, Callable[[bytes], int]]] = {
    INSTANT: read_number,
    LOCAL: read_number,
    SPAN: _span,
    DATE: _days,
    TIME: _of_day,
}
"""Readers of dates and times as the number in an Arrow column: days or microseconds."""
READERS: Final[dict[bytes, Callable[[bytes], Any]]] = {
    INSTANT: lambda data: _UTC_EPOCH + read_number(data) * _MICROSECOND,
    LOCAL: lambda data: _EPOCH + read_number(data) * _MICROSECOND,
    DATE: lambda data: dt.date.fromisoformat(data.decode()),
    TIME: lambda data: _zoneless(dt.time.fromisoformat(data.decode())),
    SPAN: lambda data: _span(data) * _MICROSECOND,
}


def _zoneless(value: dt.time) -> dt.time:
    if value.tzinfo is not None:
        raise CorruptData("a time of day with a time zone")
    return value
