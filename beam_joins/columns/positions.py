"""Reads event times and positions of many records, from values or from Arrow columns."""

import operator
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import valid
from beam_joins.elements.iso_times import NO_TIME, has_nanoseconds, micros_of_text

Values: TypeAlias = "pa.Array | Sequence[Any]"
"""The values of an option for many records: a column, or one Python object for each."""

_SIGN = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS = 76
"""The most digits of a decimal of Arrow."""
_ONLY_INT = frozenset({int})
_WHOLE = frozenset({int, type(None)})


def micros(time: Any) -> int:
    """Microseconds since the epoch of an int (which is that already), a Beam timestamp, a datetime with a
    time zone, a date, which is its midnight in UTC, or a text of one of these in ISO 8601.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), micros("1970-01-01T00:00:01Z")
    (1000000, 1000000)
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    if type(time).__name__ == "Timestamp" and isinstance(micros_of_beam := getattr(time, "micros", None), int):
        return int(micros_of_beam)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    if isinstance(time, date) and not isinstance(time, datetime):
        return (datetime(time.year, time.month, time.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    if isinstance(time, str):
        with suppress(ValueError):
            return micros_of_text(time)
    raise ValueError(
        f"timestamp_by gave {time!r} of type {type(time).__name__}: give microseconds since the epoch as an int, a datetime with a"
        " time zone, a text in ISO 8601, or a Beam Timestamp"
    )


def times_of(option: str, values: Values, *, ordering: bool = False) -> pa.Array:
    """Times in microseconds since the epoch; those of an Arrow timestamp have a time zone, and a date is its
    midnight in UTC. Where they are ``ordering`` records, a text that is finer is refused.
    """
    if not isinstance(values, pa.Array):
        if ordering and (finer := next((time for time in values if isinstance(time, str) and has_nanoseconds(time)), None)):
            raise ValueError(f"{option} gave {finer!r}, whose nanoseconds do not order records: give sequence_by, whole numbers")
        times = values if _WHOLE.issuperset(map(type, values)) else [None if time is None else micros(time) for time in values]
        return _in_64_bits(option, times)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return _cast(option, values, pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_date(values.type):
        return _cast(option, values, pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_integer(values.type) or pa.types.is_null(values.type):
        return _cast(option, values, pa.int64())
    raise ValueError(
        f"{option} gave times of type {values.type}: give microseconds since the epoch as whole numbers, or timestamps with a "
        "time zone"
    )


def times_or_null(times: pa.Array) -> pa.Array:
    """Event times or positions, null in place of :data:`~beam_joins.elements.iso_times.NO_TIME`.

    >>> times_or_null(pa.array([5, NO_TIME])).to_pylist()
    [5, None]
    """
    return pc.if_else(pc.equal(times, NO_TIME), pa.scalar(None, pa.int64()), times)


def places_of(option: str, values: Values) -> tuple[pa.Array, pa.Array | None]:
    """The positions that ``sequence_by`` gives and, where it is of several numbers, the order within them.

    Both are null where one of the numbers is.

    Times are microseconds since the epoch, UTC if they do not say. Raises ``ValueError`` for anything but
    whole numbers of 64 bits.
    """
    if isinstance(values, pa.Array):
        numbers = _numbers(option, values)
        complete = np.logical_and.reduce([valid(column) for column in numbers])
        first = numbers[0] if complete.all() else pc.if_else(pa.array(complete), numbers[0], pa.scalar(None, pa.int64()))
        return first, _order(numbers[1:]) if len(numbers) > 1 else None
    if _WHOLE.issuperset(map(type, values)):
        return _in_64_bits(option, values), None
    sequences = [_sequence(option, each) for each in values]
    position = _in_64_bits(option, [None if numbers is None else numbers[0] for numbers in sequences])
    within = [b"" if numbers is None or len(numbers) == 1 else order_bytes(numbers[1:], option) for numbers in sequences]
    return position, pa.array(within, pa.binary()) if any(within) else None


def ties_of(values: Values) -> pa.Array:
    """The order that ``tie_break_by`` gives, as bytes; raises ``ValueError`` for anything but whole numbers
    of 64 bits.
    """
    if not isinstance(values, pa.Array):
        return pa.array([order_bytes(_sequence("tie_break_by", each) or (), "tie_break_by") for each in values], pa.binary())
    numbers = _numbers("tie_break_by", values)
    complete = pa.array(np.logical_and.reduce([valid(column) for column in numbers]))
    return pc.if_else(complete, _order(numbers), pa.scalar(b""))


def order_bytes(numbers: Sequence[int], option: str = "sequence_by") -> bytes:
    """Whole numbers of 64 bits as bytes that compare as the tuple of the numbers does; raises ``ValueError``,
    naming the option, for a larger one.

    >>> order_bytes([1, -1]) < order_bytes([1, 0]) < order_bytes([2, -1])
    True
    """
    biased = [number + _SIGN for number in numbers]
    try:
        return struct.pack(f">{len(biased)}Q", *biased)
    except struct.error:
        raise _too_large(option, numbers) from None


def _sequence(option: str, value: Any) -> Sequence[int] | None:
    """The whole numbers that were given for a record, one or a tuple of several; ``None`` if one is missing."""
    numbers = value if isinstance(value, tuple | list) else (value,)
    if not numbers:
        raise ValueError(f"{option} gave an empty tuple: give at least one number, the first is the position")
    if _ONLY_INT.issuperset(map(type, numbers)):
        return numbers
    return None if None in numbers else [_whole_number(option, number) for number in numbers]


def _whole_number(option: str, value: Any) -> int:
    if isinstance(value, datetime):
        return micros(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, date):
        return micros(value)
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value():
        return int(value)
    with suppress(TypeError):
        if not isinstance(value, bool):
            return operator.index(value)
    raise ValueError(f"{option} gave {value!r} of type {type(value).__name__}: a position is a whole number, so turn it into an int")


def _in_64_bits(option: str, numbers: Sequence[int | None]) -> pa.Array:
    try:
        return pa.array(numbers, pa.int64())
    except OverflowError:
        raise _too_large(option, numbers) from None


def _too_large(option: str, numbers: Iterable[int | None]) -> ValueError:
    number = next(number for number in numbers if number is not None and not -_SIGN <= number < _SIGN)
    remedy = "give microseconds since the epoch" if option == "timestamp_by" else "scale the sequence down"
    return ValueError(f"{option} gave {number}, which does not fit in 64 bits: {remedy}")


def _cast(option: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{option} gave a time of type {column.type} that microseconds in 64 bits do not hold exactly: {error}"
        ) from None


def _numbers(option: str, values: pa.Array) -> list[pa.Array]:
    return [_whole_numbers(option, column) for column in (values.flatten() if pa.types.is_struct(values.type) else [values])]


def _whole_numbers(option: str, column: pa.Array) -> pa.Array:
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return _cast(option, column, pa.timestamp("us", getattr(column.type, "tz", None))).cast(pa.int64())
    if pa.types.is_decimal(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ValueError(f"{option} gave a position of type {column.type} that is no whole number of 64 bits: {error}") from None
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise ValueError(f"{option} gave a position that does not fit in 64 bits: scale the sequence down") from None
    raise ValueError(f"{option} gave positions of type {column.type}: a position is a whole number, so turn it into an int")


def _order(columns: Sequence[pa.Array]) -> pa.Array:
    """Bytes that compare as the tuples of the columns' numbers do."""
    biased = [
        column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63) for column in columns
    ]
    width = 8 * len(columns)
    data = np.stack(biased, axis=1).astype(">u8").tobytes() if len(biased[0]) else b""
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(biased[0]), [None, pa.py_buffer(data)])
    return fixed.cast(pa.binary())
