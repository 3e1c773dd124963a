"""Converts spans of time to microseconds, and their texts to seconds."""

import math
import re
from datetime import timedelta
from typing import Protocol


class Micros(Protocol):
    """A type with a number of microseconds, such as a Beam ``Duration``."""

    @property
    def micros(self) -> int:
        """The microseconds."""


Span = timedelta | float | int | Micros
"""A ``timedelta``, a number of seconds, or a Beam ``Duration``."""

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MICROSECOND = timedelta(microseconds=1)
_LIMIT = 1 << 63


def seconds_of(text: str) -> float:
    """The seconds of a span of time as text.

    >>> seconds_of("500ms"), seconds_of("10"), seconds_of("5m"), seconds_of("1d")
    (0.5, 10.0, 300.0, 86400.0)
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time: give a number with ms, s, m, h or d, as in 10s")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def span_micros(option: str, span: Span, *, negative: bool = False) -> int:
    """The microseconds of a span of time.

    Raises ``ValueError``, naming the option, for a value that is not a span, that does not fit in 64 bits, or
    that is negative without ``negative=True``.

    >>> span_micros("grace", 1.5), span_micros("grace", timedelta(minutes=1))
    (1500000, 60000000)
    """
    if isinstance(span, timedelta):
        micros = span // _MICROSECOND
    elif type(span).__name__ == "Duration" and isinstance(of_beam := getattr(span, "micros", None), int):
        micros = int(of_beam)
    elif isinstance(span, int | float) and not isinstance(span, bool) and math.isfinite(span):
        micros = round(span * 1_000_000)
    else:
        raise ValueError(f"{option}={span!r}: give a span of time: seconds, a timedelta or a Beam Duration")
    if micros < 0 and not negative:
        raise ValueError(f"{option}={span!r} is negative: give a span of time of 0 or more")
    if abs(micros) >= _LIMIT:
        raise ValueError(f"{option}={span!r} does not fit in 64 bits of microseconds: give a span of less than 292,000 years")
    return micros
