"""Event times: text in ISO 8601, and the time of records without one; without Arrow, which the help of commands does not load."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_TIME: Final = -9_223_372_036_854_775_000
"""The event time of a record without one, in microseconds: that of an element without a timestamp in Beam."""
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000
_NANOSECONDS: Final = re.compile(r"[.,][0-9]{6}0*[1-9]")
_BARE: Final = re.compile(r"[0-9]{9}|[0-9]+$")
"""A number rather than a date: Python's ISO 8601 takes any character between date and time, and so reads
1712011512301 as the year 1712.
"""
_DATE: Final = re.compile(r"(?:([0-9]{4})-([0-9]{3})|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|[0-9]{4}-?W[0-9]{2}(?:-?[0-9])?)(?![0-9])")
"""A date, of a year and a day's number, or one that Python reads."""
_ZONE_OF_DATE: Final = re.compile(r"Z|[+-]([0-9]{2}):?([0-9]{2})?")
"""A zone behind a date, as XML Schema has it, which Python would take for the time of day."""
_MOST_HOURS: Final = 14
_END_OF_DAY: Final = re.compile(r"(?<=[^+-])24(?=(:?00){0,2}([.,]0+)?([^0-9:.,].*)?$)")
"""The hour of a midnight that is the end of its day."""


def micros_of_text(text: str) -> int:
    """Microseconds since the epoch of a time or date in ISO 8601, in UTC if it does not say, cut where it is finer; a date
    with a zone is its midnight there.

    Raises ``ValueError`` for any other text, also for one of digits alone.

    >>> micros_of_text("1970-01-02"), micros_of_text("1970-01-01T01:00:00.0000019+01:00"), micros_of_text("1970-01-01-01:00")
    (86400000000, 1, 3600000000)
    """
    date = None if _BARE.match(text) or not text.isascii() else _DATE.match(text)
    if date is None:
        raise ValueError("not a time")
    day, rest, days = date[0], text[date.end() :].replace("z", "Z"), 0
    if date[2]:
        day, days = f"{date[1]}-01-01", int(date[2]) - 1
        if (datetime.fromisoformat(day) + timedelta(days)).year != int(date[1]):
            raise ValueError("no day of its year")
    if zone := _ZONE_OF_DATE.fullmatch(rest):
        if zone[1] and (not zone[2] or int(zone[1]) > _MOST_HOURS):
            raise ValueError("a date before what may be a zone or a time of day")
        rest = f"T00:00{rest}"
    elif _END_OF_DAY.match(rest, 1):
        days, rest = days + 1, f"{rest[0]}00{rest[3:]}"
    time = datetime.fromisoformat(day + rest)
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND + days * _DAY


def has_nanoseconds(text: str) -> bool:
    """Whether a time in ISO 8601 is finer than microseconds.

    >>> has_nanoseconds("1970-01-01T00:00:00.0000019Z"), has_nanoseconds("1970-01-01T00:00:00.000001000Z")
    (True, False)
    """
    return _NANOSECONDS.search(text) is not None


def text_of_micros(micros: int) -> str:
    """The text in ISO 8601 of a time in microseconds; the number where no date has it.

    >>> text_of_micros(5_000_000), text_of_micros(1 << 62)
    ('1970-01-01T00:00:05Z', '4611686018427387904')
    """
    try:
        return (EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(micros)
