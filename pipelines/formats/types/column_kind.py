"""The type of an event's column: its Arrow type, and the conversion of values that events store in another
form.
"""

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.elements.iso_times import EPOCH
from beam_joins.pipelines.formats.types.exact_json import dumps_line

_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY: Final = 86_400
_WIDEST: Final = 38
_FOREVER: Final = "infinity"
_EVER: Final = "-infinity"
_ENDLESS_DAYS: Final = {2**31 - 1: _FOREVER, -(2**31): _EVER}
_OF_DRIVER: Final = {9_223_372_036_825_200_000: _FOREVER, -9_223_372_036_832_400_000: _EVER}
_ENDLESS_TIMES: Final[dict[str, dict[int, str]]] = {
    "ms": {9_223_372_036_825_200: _FOREVER, -9_223_372_036_832_400: _EVER, **_OF_DRIVER},
    "us": _OF_DRIVER,
}
"""PostgreSQL's infinity as Debezium writes it, by the unit: the number of the driver, or a thousandth of it."""


class Kind(NamedTuple):
    """``text`` gives the JSON text of a value that is not null; without it the value is written as it is."""

    type: pa.DataType
    text: Callable[[Any], bytes] | None = None


class Types:
    """The ``types`` of the columns of rows."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.types = pa.schema([(name, kind.type) for name, kind in kinds.items()])
        self._without: dict[frozenset[str], pa.Schema] = {}

    def types_without(self, names: frozenset[str]) -> pa.Schema:
        """The types of the columns that are not among the names: the same object each time."""
        if names not in self._without:
            self._without[names] = pa.schema([field for field in self.types if field.name not in names])
        return self._without[names]


def text_of(value: Any) -> bytes:
    """The JSON text of any value: times and dates in ISO 8601, decimals with their digits, bytes in base64.

    >>> text_of({"a": Decimal("1.50"), "b": dt.date(2026, 1, 2), "c": b"hi"})
    b'{"a":1.50,"b":"2026-01-02","c":"aGk="}'
    """
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}".encode()
    return dumps_line({"": value})[4:-2]


def date_text(value: Any) -> bytes:
    """A day, or the number of days since 1970; text as it is.

    What no calendar of Python has is written as PostgreSQL writes it; columns of dates do not take such text.

    >>> date_text(20_455), date_text(-735_000), date_text(2**31 - 1)
    (b'"2026-01-02"', b'"0044-08-22 BC"', b'"infinity"')
    """
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, dt.date):
        return f'"{value.isoformat()}"'.encode()
    day, era = (_ENDLESS_DAYS[value], "") if value in _ENDLESS_DAYS else _day_and_era(value)
    return f'"{day}{era}"'.encode()


def timestamp_text(unit: str, zone: str = "") -> Callable[[Any], bytes]:
    """A function that writes a timestamp, given as units since 1970.

    >>> timestamp_text("us")(1_500_000), timestamp_text("ms", "Z")(-1), timestamp_text("us")(9_223_372_036_825_200_000)
    (b'"1970-01-01T00:00:01.500000"', b'"1969-12-31T23:59:59.999Z"', b'"infinity"')
    """
    of_second, digits = _SECOND[unit], len(str(_SECOND[unit])) - 1
    endless = _ENDLESS_TIMES.get(unit, {})

    def text(value: Any) -> bytes:
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, dt.datetime):
            since = value.replace(tzinfo=value.tzinfo or dt.UTC) - EPOCH
            value = since // dt.timedelta(microseconds=1) * of_second // 1_000_000
        if value in endless:
            return f'"{endless[value]}"'.encode()
        seconds, part = divmod(value, of_second)
        days, second = divmod(seconds, _DAY)
        day, era = _day_and_era(days)
        return f'"{day}T{_clock(second, part, digits)}{zone}{era}"'.encode()

    return text


def time_text(unit: str) -> Callable[[Any], bytes]:
    """A function that writes a time of day, given as units since midnight; also a time beyond a day or below zero, as
    MySQL has them.

    >>> time_text("ms")(45_000_500), time_text("ms")(-90_000_000)
    (b'"12:30:00.500"', b'"-25:00:00.000"')
    """
    of_second, digits = _SECOND[unit], len(str(_SECOND[unit])) - 1

    def text(value: Any) -> bytes:
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, dt.time):
            whole = (value.hour * 60 + value.minute) * 60 + value.second
            value = whole * of_second + value.microsecond * of_second // 1_000_000
        seconds, part = divmod(abs(value), of_second)
        return f'"{"-" * (value < 0)}{_clock(seconds, part, digits)}"'.encode()

    return text


def whole_digits(text: Any) -> int:
    """Parses a whole number in a schema's parameter. Raises ValueError for other text.

    >>> whole_digits("2")
    2
    """
    try:
        return int(text)
    except (TypeError, ValueError):
        raise ValueError(f"a decimal of the scale or precision {text!r}, which is no whole number") from None


def decimal_kind(scale: int, precision: int | None) -> Kind:
    r"""A number whose digits are stored as the bytes of a whole number, which in JSON are in base64.

    >>> decimal_kind(2, 5).text("AJY="), decimal_kind(2, 5).text(b"\xff\x38")
    (b'1.50', b'-2.00')
    """

    def text(value: Any) -> bytes:
        if isinstance(value, str):
            value = base64.b64decode(value, validate=True)
        if isinstance(value, bytes):
            value = unscaled(value, scale)
        return f"{Decimal(str(value)):f}".encode()

    digits = _WIDEST if precision is None else precision
    return Kind(pa.decimal128(digits, scale) if digits <= _WIDEST else pa.decimal256(digits, scale), text)


def unscaled(whole: bytes, scale: int) -> Decimal:
    """The whole number in the bytes of a decimal."""
    number = int.from_bytes(whole, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def any_scale_text(value: Any) -> bytes:
    """A number that says its scale itself."""
    whole = value["value"]
    return f"{unscaled(base64.b64decode(whole, validate=True) if isinstance(whole, str) else whole, value['scale']):f}".encode()


def _day_and_era(days: int) -> tuple[str, str]:
    """The date of a number of days since 1970, and the text behind it where it is before the year 1."""
    day = str(np.datetime64(days, "D"))
    year = int(day[:-6])
    return (f"{year:04d}{day[-6:]}", "") if year > 0 else (f"{1 - year:04d}{day[-6:]}", " BC")


def _clock(second: int, part: int, digits: int) -> str:
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{clock}.{part:0{digits}d}" if digits else clock


_TIMES: Final = {
    "Timestamp": "ms",
    "MicroTimestamp": "us",
    "NanoTimestamp": "ns",
}
_CLOCKS: Final = {"Time": pa.time32("ms"), "MicroTime": pa.time64("us"), "NanoTime": pa.time64("ns")}
NAMED: Final[dict[str, Kind]] = {
    **{f"io.debezium.time.{name}": Kind(pa.timestamp(unit), timestamp_text(unit)) for name, unit in _TIMES.items()},
    **{f"io.debezium.time.{name}": Kind(kind, time_text(kind.unit)) for name, kind in _CLOCKS.items()},
    "io.debezium.time.Date": Kind(pa.date32(), date_text),
    "io.debezium.time.ZonedTimestamp": Kind(pa.timestamp("us", "UTC")),
    "io.debezium.data.VariableScaleDecimal": Kind(pa.string(), any_scale_text),
    "org.apache.kafka.connect.data.Date": Kind(pa.date32(), date_text),
    "org.apache.kafka.connect.data.Time": Kind(pa.time32("ms"), time_text("ms")),
    "org.apache.kafka.connect.data.Timestamp": Kind(pa.timestamp("ms"), timestamp_text("ms")),
}
"""By the names that Debezium and Kafka Connect give to what columns mean."""
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
