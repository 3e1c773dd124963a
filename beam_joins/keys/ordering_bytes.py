"""Bytes by which values of one kind are ordered: of whole numbers and floats together, and in any Arrow type that holds them."""

import datetime as dt
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.opaque import is_opaque, python_values
from beam_joins.values.arrow_types import is_bytes, is_text

_SIGN: Final = np.uint64(1 << 63)
_LARGEST: Final = np.nextafter(2.0**63, 0.0)
_DIGITS: Final = 76
"""The digits of a decimal before and behind its point."""
_DECIMAL_BYTES: Final = 64
_EXACT: Final = Context(prec=4 * _DIGITS)


def ordering_bytes(values: pa.Array) -> pa.Array:
    """The bytes of each value, null for null: equal where values are, and ordered as they are. Numbers are ordered by size, NaN
    behind all others; texts by their UTF-8. Raises ``ValueError`` for values that have no order, or are of several kinds.

    >>> ordered = ordering_bytes(pa.array([7.5, -1.0, 7.0])).to_pylist()
    >>> sorted(ordered) == [ordered[1], ordered[2], ordered[0]], ordered[2:] == ordering_bytes(pa.array([7])).to_pylist()
    (True, True)
    """
    kind = values.type
    if is_opaque(kind):
        return _of_objects(python_values(values))
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.binary())
    if is_text(kind) or is_bytes(kind):
        return values.cast(pa.string() if is_text(kind) else pa.binary()).cast(pa.binary())
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else _of_decimal(value) for value in values.to_pylist()], pa.binary())
    is_number = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not is_number and not pa.types.is_temporal(kind):
        raise ValueError(f"values of type {kind} have no order: give a column of numbers, texts, bytes, dates or times")
    return _with_nulls(_of_numbers(values), values) if is_number else _of_instants(values)


def _of_instants(values: pa.Array) -> pa.Array:
    micros, beyond = _instants(values)
    whole = _with_nulls([_sortable(micros)], values)
    if not beyond.any():
        return whole
    return pc.if_else(pa.array(beyond == 0), whole, _with_nulls([_sortable(micros), _sortable(beyond)], values))


def _instants(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Dates, times and durations in microseconds, and the nanoseconds beyond them, so that a wider type has the same."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.timestamp("s")) if pa.types.is_date32(kind) else values.cast(pa.timestamp("ms"))
        kind = values.type
    storage = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    numbers: npt.NDArray[np.int64] = values.view(storage).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if kind.unit == "ns":
        return np.divmod(numbers, 1000)
    return numbers * {"s": 10**6, "ms": 10**3, "us": 1}[kind.unit], np.zeros(len(numbers), np.int64)


def _of_numbers(values: pa.Array) -> list[npt.NDArray[np.uint64]]:
    """The nearest double, and how much a whole number is more than it."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return [_of_floats(np.where(np.isnan(numbers), np.nan, numbers + 0.0)), _sortable(np.zeros(len(numbers), np.int64))]
    elif pa.types.is_uint64(kind):
        whole = values.fill_null(0).to_numpy(zero_copy_only=False)
        near = np.minimum(whole.astype(np.float64), np.nextafter(2.0**64, 0.0))
        return [_of_floats(near), _sortable((whole - near.astype(np.uint64)).view(np.int64))]
    signed = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    near = np.minimum(signed.astype(np.float64), _LARGEST)
    return [_of_floats(near), _sortable(signed - near.astype(np.int64))]


def _of_floats(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    bits = numbers.view(np.int64)
    return _sortable(bits ^ ((bits >> 63) & np.int64(2**63 - 1)))


def _sortable(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    return numbers.view(np.uint64) ^ _SIGN


def _with_nulls(words: list[npt.NDArray[np.uint64]], values: pa.Array) -> pa.Array:
    data = np.stack(words, axis=1).astype(">u8")
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8 * len(words)), len(values), [None, pa.py_buffer(data.tobytes())])
    return pc.if_else(values.is_valid(), fixed.cast(pa.binary()), pa.scalar(None, pa.binary()))


def _of_decimal(value: Decimal) -> bytes:
    scaled = int(value.scaleb(_DIGITS, _EXACT))
    return (scaled + (1 << (8 * _DECIMAL_BYTES - 1))).to_bytes(_DECIMAL_BYTES, "big")


_OBJECTS: Final[tuple[tuple[tuple[type, ...], str, Callable[[list[Any]], pa.Array]], ...]] = (
    ((bool, int, float, np.number), "numbers", pa.array),
    ((Decimal,), "decimals", pa.array),
    ((str,), "texts", lambda objects: pa.array(objects, pa.string())),
    ((bytes,), "bytes", lambda objects: pa.array(objects, pa.binary())),
    ((dt.datetime,), "times", lambda objects: pa.array(objects, pa.timestamp("us", objects[0].tzinfo and "UTC"))),
    ((dt.date,), "dates", lambda objects: pa.array(objects, pa.date32())),
    ((dt.time,), "times of day", lambda objects: pa.array(objects, pa.time64("us"))),
    ((dt.timedelta,), "spans of time", lambda objects: pa.array(objects, pa.duration("us"))),
)


def _of_objects(objects: list[Any]) -> pa.Array:
    present = [each for each in objects if each is not None]
    if not present:
        return pa.nulls(len(objects), pa.binary())
    for classes, name, column in _OBJECTS:
        if all(isinstance(each, classes) for each in present):
            numbers = name == "numbers"
            if (
                numbers
                and any(isinstance(each, float | np.floating) for each in present)
                and any(isinstance(each, int) for each in present)
            ):
                encoded = [ordering_bytes(pa.array([each]))[0].as_py() for each in present]
            else:
                encoded = ordering_bytes(
                    column([float(each) if isinstance(each, np.floating) else each for each in present])
                ).to_pylist()
            rest = iter(encoded)
            return pa.array([None if each is None else next(rest) for each in objects], pa.binary())
    kinds = ", ".join(sorted({type(each).__name__ for each in present}))
    raise ValueError(f"values of type {kinds} have no common order: give numbers, texts, bytes, dates or times, of one kind")
