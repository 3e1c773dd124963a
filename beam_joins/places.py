"""What the fields of a changelog or a stream hold, for many records: event times, positions, and which records delete."""

import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.fields import Truncating, deletes_of
from beam_joins.keys.columns import Bools
from beam_joins.operations import word
from beam_joins.sorting import valid

Given: TypeAlias = "pa.Array | Sequence[Any]"
"""What an option gives for many records: a column, or one Python object for each."""

_SIGN = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ONLY_INT = frozenset({int})
_WHOLE = frozenset({int, type(None)})


def micros(time: Any) -> int:
    """Microseconds since the epoch of an int (which is that already), a Beam timestamp, or a datetime with a time zone.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if isinstance(time, int):
        return time
    if type(time).__name__ == "Timestamp" and isinstance(micros_of_beam := getattr(time, "micros", None), int):
        return int(micros_of_beam)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    raise ValueError(
        f"timestamp_by gave {time!r} of type {type(time).__name__}: give microseconds since the epoch as an int, a datetime with a"
        " time zone, or a Beam Timestamp"
    )


def times_of(option: str, given: Given) -> pa.Array:
    """Times in microseconds since the epoch; those of an Arrow timestamp have a time zone."""
    if not isinstance(given, pa.Array):
        times = given if _WHOLE.issuperset(map(type, given)) else [None if time is None else micros(time) for time in given]
        return _in_64_bits(option, times)
    if pa.types.is_timestamp(given.type) and given.type.tz is not None:
        return given.cast(pa.timestamp("us", given.type.tz)).cast(pa.int64())
    if pa.types.is_integer(given.type) or pa.types.is_null(given.type):
        return given.cast(pa.int64())
    raise ValueError(
        f"{option} gave times of type {given.type}: give microseconds since the epoch as whole numbers, or timestamps with a time zone"
    )


def places_of(option: str, given: Given) -> tuple[pa.Array, pa.Array | None]:
    """The positions that ``sequence_by`` gives and, where it is of several numbers, the order within them. Both are null where one of the numbers is.

    Raises ``ValueError`` for what is no whole number of 64 bits.
    """
    if isinstance(given, pa.Array):
        numbers = _numbers(option, given)
        there = np.logical_and.reduce([valid(column) for column in numbers])
        first = numbers[0] if there.all() else pc.if_else(pa.array(there), numbers[0], pa.scalar(None, pa.int64()))
        return first, _order(numbers[1:]) if len(numbers) > 1 else None
    if _WHOLE.issuperset(map(type, given)):
        return _in_64_bits(option, given), None
    sequences = [_sequence(option, each) for each in given]
    position = _in_64_bits(option, [None if numbers is None else numbers[0] for numbers in sequences])
    within = [b"" if numbers is None or len(numbers) == 1 else order_bytes(numbers[1:]) for numbers in sequences]
    return position, pa.array(within, pa.binary()) if any(within) else None


def ties_of(given: Given) -> pa.Array:
    """The order that ``tie_break_by`` gives, as bytes; raises ``ValueError`` for what is no whole number of 64 bits."""
    if not isinstance(given, pa.Array):
        return pa.array([order_bytes(_sequence("tie_break_by", each) or ()) for each in given], pa.binary())
    numbers = _numbers("tie_break_by", given)
    there = pa.array(np.logical_and.reduce([valid(column) for column in numbers]))
    return pc.if_else(there, _order(numbers), pa.scalar(b""))


def deleted_of(spec: Any, given: Given) -> pa.Array:
    """Which records delete their row; raises ``ValueError`` for a value whose meaning is not known."""
    if not isinstance(given, pa.Array):
        return pa.array(map(bool, given), pa.bool_())
    if not callable(spec) and (deletes := deletes_of(spec)):
        return _by_word(given, deletes)
    if not pa.types.is_boolean(given.type) and not pa.types.is_null(given.type):
        raise ValueError(f"apply_as_deletes gave values of type {given.type}: give true for a row that deletes")
    return given.cast(pa.bool_()).fill_null(False)


def truncates_of(spec: Truncating, given: Given) -> Bools:
    """Which records empty the table; ``given`` is what ``apply_as_truncates`` gives for each, or the column that it names."""
    if not isinstance(given, pa.Array):
        return np.fromiter(map(bool, given), np.bool_, len(given))
    if isinstance(spec, Mapping):
        (values,) = spec.values()
        words = frozenset(map(word, values))
        given = _by_word(given, lambda value: word(value) in words)
    if not pa.types.is_boolean(given.type):
        raise ValueError(f"apply_as_truncates gave values of type {given.type}: give true for a record that empties the table")
    found: Bools = given.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _by_word(operations: pa.Array, means: Callable[[Any], Any]) -> pa.Array:
    """What each operation means, asked once for each that there is."""
    words = operations.dictionary_decode() if pa.types.is_dictionary(operations.type) else operations
    encoded = words.dictionary_encode("encode")
    return pa.array(map(means, encoded.dictionary.to_pylist()), pa.bool_()).take(encoded.indices)


def order_bytes(numbers: Iterable[int]) -> bytes:
    """Whole numbers of 64 bits as bytes that compare as the tuple of the numbers does; raises ``ValueError`` for a larger one.

    >>> order_bytes([1, -1]) < order_bytes([1, 0]) < order_bytes([2, -1])
    True
    """
    biased = [number + _SIGN for number in numbers]
    try:
        return struct.pack(f">{len(biased)}Q", *biased)
    except struct.error:
        raise ValueError("a number that orders changes does not fit in 64 bits: scale the sequence down") from None


def _sequence(option: str, given: Any) -> Sequence[int] | None:
    """The whole numbers that were given for a record, one or a tuple of several; ``None`` if one is missing."""
    numbers = given if isinstance(given, tuple | list) else (given,)
    if not numbers:
        raise ValueError(f"{option} gave an empty tuple: give at least one number, the first is the position")
    if _ONLY_INT.issuperset(map(type, numbers)):
        return numbers
    return None if None in numbers else [_whole_number(option, number) for number in numbers]


def _whole_number(option: str, given: Any) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise ValueError(
            f"{option} gave {given!r} of type {type(given).__name__}: a position is a whole number, so turn it into an int"
        ) from None


def _in_64_bits(option: str, numbers: Sequence[int | None]) -> pa.Array:
    try:
        return pa.array(numbers, pa.int64())
    except OverflowError:
        raise ValueError(f"{option} gave a number that does not fit in 64 bits: scale the sequence down") from None


def _numbers(option: str, given: pa.Array) -> list[pa.Array]:
    return [_whole_numbers(option, column) for column in (given.flatten() if pa.types.is_struct(given.type) else [given])]


def _whole_numbers(option: str, column: pa.Array) -> pa.Array:
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
