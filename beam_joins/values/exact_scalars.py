"""Converts Python numbers, text, bytes, dates and times to Arrow columns without changing any value."""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.elements.iso_times import EPOCH
from beam_joins.values.arrow_types import is_bytes, is_text

_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 and 9999 in microseconds
_NONE: Final = frozenset({type(None)})
_FAILURES: Final = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError)


class NotHeld(ValueError):
    """Raised for a value that a type does not hold exactly."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def scalar_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Converts values to a column, ``None`` to null; raises :class:`NotHeld` for the first that the type does
    not hold exactly.

    >>> scalar_column([1, 2.0, None], pa.int8()).to_pylist()
    [1, 2, None]
    """
    at_once, many, exact = next(
        ((types, many, exact) for is_kind, types, many, exact in _KINDS if is_kind(kind)), (_NONE, pa.array, _as_it_comes_back)
    )
    if at_once.issuperset(map(type, values)):
        try:
            return many(values, kind)
        except _FAILURES:
            pass  # below each by itself
    try:
        return pa.array([None if value is None else _held(exact, value, kind) for value in values], kind)
    except NotHeld:
        raise
    except _FAILURES:  # a number beyond the range
        for value in values:
            try:
                pa.array([None if value is None else _held(exact, value, kind)], kind)
            except _FAILURES:
                raise NotHeld(value) from None
        raise


def _held(exact: Callable[[Any, Any], Any], value: Any, kind: pa.DataType) -> Any:
    try:
        made = exact(value, kind)
    except _FAILURES:
        made = None
    if made is None:
        raise NotHeld(value)
    return made


def _as_it_comes_back(value: Any, kind: pa.DataType) -> Any:
    (back,) = pa.array([value], kind).to_pylist()
    return value if back == value else None


def _whole(value: Any, kind: pa.DataType) -> int | None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer | float | np.floating | Decimal):
        return None
    whole = int(value)
    return whole if whole == value else None


def _float(value: Any, kind: pa.DataType) -> float | None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer | float | np.floating | Decimal):
        return None
    made = float(value)
    plain = value.item() if isinstance(value, np.generic) and not isinstance(value, np.longdouble) else value
    return made if math.isnan(made) or (made == plain and _is_narrow(np.array([made]), kind)) else None


def _is_narrow(numbers: np.ndarray[Any, Any], kind: pa.DataType) -> bool:
    if pa.types.is_float64(kind):
        return True
    with np.errstate(over="ignore"):
        narrowed = numbers.astype(f"f{kind.bit_width // 8}").astype(np.float64)
    return bool(np.array_equal(narrowed, numbers, equal_nan=True))


def _floats(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    made = pa.array(values, pa.float64())
    if pa.types.is_float64(kind):
        return made
    if not _is_narrow(made.fill_null(0).to_numpy(zero_copy_only=False), kind):
        raise ValueError("a fraction is cut off")
    return made.cast(kind)


def _decimal(value: Any, kind: pa.DataType) -> Decimal | None:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Decimal(int(value))
    return value if isinstance(value, Decimal) else None


def _text(value: Any, kind: pa.DataType) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def _bytes(value: Any, kind: pa.DataType) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _truth(value: Any, kind: pa.DataType) -> bool | None:
    return bool(value) if isinstance(value, bool | np.bool_) else None


def _date(value: Any, kind: pa.DataType) -> dt.date | None:
    plain = value.item() if isinstance(value, np.datetime64) else value
    return plain if isinstance(plain, dt.date) and not isinstance(plain, dt.datetime) else None


def _in_unit(value: np.datetime64 | np.timedelta64, unit: str) -> int | None:
    form = "datetime64" if isinstance(value, np.datetime64) else "timedelta64"
    made: Any = value.astype(f"{form}[{unit}]")
    exact = not np.isnat(value) and made == value and made.astype(value.dtype) == value
    return int(made.astype(np.int64)) if exact else None


def _instant(value: Any, kind: pa.TimestampType) -> Any:
    """The number of units of a datetime, or of a Beam ``Timestamp``."""
    if isinstance(value, np.datetime64):
        return None if kind.tz is not None else _in_unit(value, kind.unit)
    if type(value).__name__ == "Timestamp" and isinstance(micros := getattr(value, "micros", None), int):  # of Beam
        value = _beam_instant(micros)
    if not isinstance(value, dt.datetime) or (value.utcoffset() is None) != (kind.tz is None) or getattr(value, "nanosecond", False):
        return None
    return _datetimes([value], kind)[0].value


def _beam_instant(micros: int) -> dt.datetime | None:
    return EPOCH + dt.timedelta(microseconds=micros) if _FIRST <= micros <= _LAST else None


def _datetimes(values: Sequence[Any], kind: pa.TimestampType) -> pa.Array:
    if any(value is not None and (value.tzinfo is None) != (kind.tz is None) for value in values):
        raise ValueError("a time with a zone and one without are not equal")
    made = pa.array(values, pa.timestamp("us", kind.tz))
    if kind.tz is not None:
        ends = pc.min_max(made.cast(pa.int64())).as_py()
        if ends["min"] is not None and not _FIRST <= ends["min"] <= ends["max"] <= _LAST:
            raise ValueError("a time that UTC has no year for")
    return made.cast(kind)


def _time(value: Any, kind: pa.DataType) -> Any:
    return _times([value], kind)[0].value if isinstance(value, dt.time) else None


def _times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if any(value is not None and value.tzinfo is not None for value in values):
        raise ValueError("a time of day has no zone")
    return pa.array(values, pa.time64("us")).cast(kind)


def _span(value: Any, kind: pa.DurationType) -> Any:
    if isinstance(value, np.timedelta64):
        return _in_unit(value, kind.unit)
    return _spans([value], kind)[0].value if isinstance(value, dt.timedelta) and not getattr(value, "nanoseconds", False) else None


def _spans(values: Sequence[Any], kind: pa.DurationType) -> pa.Array:
    return pa.array(values, pa.duration("us")).cast(kind)


_Kind = tuple[Callable[[Any], bool], frozenset[type], Callable[[Sequence[Any], Any], pa.Array], Callable[[Any, Any], Any]]
_KINDS: Final[tuple[_Kind, ...]] = (
    (pa.types.is_null, _NONE, pa.array, lambda value, kind: None),
    (pa.types.is_boolean, _NONE | {bool}, pa.array, _truth),
    (pa.types.is_integer, _NONE | {int}, pa.array, _whole),
    (pa.types.is_floating, _NONE | {int, float}, _floats, _float),
    (pa.types.is_decimal, _NONE | {int, Decimal}, pa.array, _decimal),
    (is_text, _NONE | {str}, pa.array, _text),
    (is_bytes, _NONE | {bytes}, pa.array, _bytes),
    (pa.types.is_date, _NONE | {dt.date}, pa.array, _date),
    (pa.types.is_timestamp, _NONE | {dt.datetime}, _datetimes, _instant),
    (pa.types.is_time, _NONE | {dt.time}, _times, _time),
    (pa.types.is_duration, _NONE | {dt.timedelta}, _spans, _span),
)
"""Types of columns: the Python types whose values become a column at once; the function for that; and the
function that makes one value of any other type, ``None`` where the column does not hold it.
"""
