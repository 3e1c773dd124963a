"""The type of an event's column: its Arrow type, and the conversion of values that events store in another
form.
"""

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.pipelines.formats.columns import EPOCH
from beam_joins.pipelines.formats.exact_json import dumps_line

_DAY_ZERO: Final = dt.date(1970, 1, 1).toordinal()
_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY: Final = 86_400
_WIDEST: Final = 38


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
        """Those of the columns that are not among the names: the same object each time."""
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

    >>> date_text(20_455)
    b'"2026-01-02"'
    """
    if isinstance(value, str):
        return text_of(value)
    try:
        day = value if isinstance(value, dt.date) else dt.date.fromordinal(_DAY_ZERO + value)
    except (ValueError, OverflowError):
        raise ValueError(f"a date of {value} days since 1970, which no calendar has") from None
    return f'"{day.isoformat()}"'.encode()


def timestamp_text(unit: str, zone: str = "") -> Callable[[Any], bytes]:
    """How a timestamp is written that counts units since 1970.

    >>> timestamp_text("us")(1_500_000), timestamp_text("ms", "Z")(-1)
    (b'"1970-01-01T00:00:01.500000"', b'"1969-12-31T23:59:59.999Z"')
    """
    of_second, digits = _SECOND[unit], len(str(_SECOND[unit])) - 1

    def text(value: Any) -> bytes:
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, dt.datetime):
            since = value.replace(tzinfo=value.tzinfo or dt.UTC) - EPOCH
            value = since // dt.timedelta(microseconds=1) * of_second // 1_000_000
        seconds, part = divmod(value, of_second)
        day, second = divmod(seconds, _DAY)
        return date_text(day)[:-1] + _clock(second, part, digits) + f'{zone}"'.encode()

    return text


def time_text(unit: str) -> Callable[[Any], bytes]:
    """How a time of day is written that counts units since midnight; raises ValueError for what is none.

    >>> time_text("ms")(45_000_500)
    b'"12:30:00.500"'
    """
    of_second, digits = _SECOND[unit], len(str(_SECOND[unit])) - 1

    def text(value: Any) -> bytes:
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, dt.time):
            whole = (value.hour * 60 + value.minute) * 60 + value.second
            value = whole * of_second + value.microsecond * of_second // 1_000_000
        seconds, part = divmod(value, of_second)
        if not 0 <= seconds < _DAY:
            raise ValueError(f"a time of {value} {unit}, which is no time of day")
        return b'"' + _clock(seconds, part, digits)[1:] + b'"'

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


def _clock(second: int, part: int, digits: int) -> bytes:
    clock = f"T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return (f"{clock}.{part:0{digits}d}" if digits else clock).encode()


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
