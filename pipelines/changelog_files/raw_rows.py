"""Many records at a time: their columns as a file has them, and as they are read."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.columns import Bools
from beam_joins.operations import word
from beam_joins.pipelines.changelog_files.columns import NANOSECONDS, Unit
from beam_joins.pipelines.changelog_files.reading import (
    DELETED,
    ENOUGH,
    KEY,
    KEY_TYPES,
    PLACE,
    REFERENCE,
    TIME,
    Reading,
    sequence_name,
)
from beam_joins.sorting import valid

_ISO: Final = r"^[1-9]\d{3}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_ZONE: Final = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
_DIGITS: Final = r"^-?[0-9]{1,18}$"


class RawRows(NamedTuple):
    """Records of a part: ``columns`` that are read, as the file has them, null where a record has none; none at all where they are not of one type.

    ``places`` says where each begins; ``texts`` are the JSON texts of the rows without the columns about the change. ``sure`` are the records
    that these are right for; the others must be read one by one with ``row``, which gives a dict, or says what is wrong.
    """

    places: pa.Array
    row: Callable[[int], dict[str, Any] | str]
    columns: Mapping[str, pa.Array] | None = None
    texts: pa.Array | None = None
    sure: Bools | None = None

    def text(self, n: int) -> bytes | None:
        """The JSON text of a record's row, if it is right."""
        if self.texts is None or (self.sure is not None and not self.sure[n]):
            return None
        text: bytes = self.texts[n].as_py()
        return text


def typed_rows(raw: RawRows, reading: Reading) -> tuple[pa.RecordBatch | None, Bools]:
    """The columns of the records that can be used as they are, and which these are.

    All others, those that have no key or no sequence and bad ones among them, are to be read one by one.
    """
    count = len(raw.places)
    if raw.columns is None or raw.texts is None:
        return None, np.zeros(count, np.bool_)
    columns, given = reading.columns, raw.columns
    try:
        made = {
            KEY: _key(given[columns.key], reading.key_type),
            TIME: _times(given[columns.timestamp], columns.unit),
            **{sequence_name(n): _whole_numbers(given[name]) for n, name in enumerate(reading.sequences)},
            DELETED: pa.array(np.zeros(count, np.bool_))
            if columns.delete is None
            else _deleted(given[columns.delete], columns.deletes, columns.upserts),
        }
        nullable = {PLACE: raw.places}
        if reading.reference is not None:
            nullable[REFERENCE] = _key(given[reading.reference], KEY_TYPES[reading.refers])
        made_sure = np.ones(count, np.bool_) if raw.sure is None else raw.sure.copy()
        if reading.amount is not None and reading.least is not None:
            nullable[ENOUGH], clear = _enough(given[reading.amount], reading.least)
            made_sure &= clear
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None, np.zeros(count, np.bool_)
    for column in made.values():
        if column.null_count:
            made_sure &= valid(column)
    found: dict[str, pa.Array] = {**made, **nullable, **dict.fromkeys(reading.forms, raw.texts)}
    batch = pa.record_batch([found[field.name] for field in reading.schema], schema=reading.schema)
    return (batch if made_sure.all() else batch.filter(pa.array(made_sure))), made_sure


def _key(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind or pa.types.is_null(column.type):
        return column.cast(kind)
    if _family(column.type) != _family(kind):
        raise pa.ArrowInvalid("keys of another kind")
    return column.cast(kind)


def _family(kind: pa.DataType) -> str:
    """What values of a type are; types of different families never are the same key."""
    for family, belongs in _FAMILIES.items():
        if belongs(kind):
            return family
    return str(kind)


_FAMILIES: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "text": lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    "whole numbers": lambda kind: bool(pa.types.is_integer(kind)),
    "bytes": lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)),
}


def _times(column: pa.Array, unit: Unit) -> pa.Array:
    """Microseconds since the epoch; null where that takes a closer look."""
    if _family(column.type) == "whole numbers":
        whole = column.cast(pa.int64())
        if unit != "ns":
            return pc.multiply_checked(whole, pa.scalar(NANOSECONDS[unit] // 1_000, pa.int64()))
        return pa.array(np.floor_divide(whole.fill_null(0).to_numpy(zero_copy_only=False), 1_000), mask=~valid(whole))
    if _family(column.type) != "text":
        raise pa.ArrowInvalid("not times")
    zoned = pc.match_substring_regex(column, _ISO + _ZONE)
    bare = pc.match_substring_regex(column, f"{_ISO}$")
    nothing = pa.scalar(None, column.type)
    with_zone = pc.if_else(zoned, column, nothing).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    without = pc.if_else(bare, column, nothing).cast(pa.timestamp("us")).cast(pa.int64())
    return pc.coalesce(with_zone, without)


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Whole numbers; null where that takes a closer look."""
    if _family(column.type) == "whole numbers":
        return column.cast(pa.int64())
    if _family(column.type) != "text":
        raise pa.ArrowInvalid("no whole numbers")
    digits = pc.match_substring_regex(column, _DIGITS)
    return pc.if_else(digits, column, pa.scalar(None, column.type)).cast(pa.int64())


def _deleted(column: pa.Array, deletes: frozenset[str], upserts: frozenset[str]) -> pa.Array:
    """Which records delete their rows; null for a word that is in neither list."""
    if _family(column.type) not in ("text", "whole numbers") and not pa.types.is_boolean(column.type):
        raise pa.ArrowInvalid("no words")
    words = column.cast(pa.string()).dictionary_encode()
    said = [word(text) for text in words.dictionary.to_pylist()]
    means = pa.array([True if each in deletes else False if each in upserts else None for each in said], pa.bool_())
    return means.take(words.indices)


def _enough(column: pa.Array, least: Decimal) -> tuple[pa.Array, Bools]:
    """Which numbers are not below ``least``, and for which of them that is clear from the doubles next to them."""
    if pa.types.is_decimal(column.type):
        return pc.greater_equal(column, pa.scalar(least)).fill_null(False), np.ones(len(column), np.bool_)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise pa.ArrowInvalid("no numbers")
    numbers = column.cast(pa.float64(), safe=False)
    bound = float(least)
    enough = pc.greater(numbers, bound).fill_null(False)
    clear: Bools = ~pc.equal(numbers, bound).fill_null(False).to_numpy(zero_copy_only=False)
    return enough, clear
