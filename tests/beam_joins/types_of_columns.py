"""Arrow types of which columns of keys and values can be, each with values that differ, and the types that
are made of them.
"""

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from beam_joins.values.exact_values import ValuePlace, exact_column

_DAY, _OTHER_DAY = dt.date(2026, 3, 1), dt.date(1969, 12, 31)
_NOON, _OTHER_NOON = dt.datetime(2026, 3, 1, 12), dt.datetime(1969, 12, 31, 23, 59, 59)
_ZONED = [noon.replace(tzinfo=dt.UTC) for noon in (_NOON, _OTHER_NOON)]

DECIMALS = [pa.decimal128(12, 2)]
if hasattr(pa, "decimal32"):  # PyArrow 19
    DECIMALS += [pa.decimal32(5, 2), pa.decimal64(12, 2)]
LEAVES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    **{kind: [7, 0] for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())},
    pa.int64(): [-(2**63), 2**53 + 1],
    pa.uint64(): [2**64 - 1, 2**53 + 1],
    **{kind: [0.5, 7.0] for kind in (pa.float16(), pa.float32(), pa.float64())},
    **{kind: [Decimal("7.00"), Decimal("-0.05")] for kind in DECIMALS},
    pa.decimal256(50, 2): [Decimal("7.00"), Decimal(2**130)],
    **{kind: ["a", ""] for kind in (pa.string(), pa.large_string(), pa.string_view())},
    pa.dictionary(pa.int8(), pa.string()): ["a", "é"],
    pa.run_end_encoded(pa.int32(), pa.string()): ["a", "é"],
    **{kind: [b"ab", b"\x00\xff"] for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))},
    **{kind: [_DAY, _OTHER_DAY] for kind in (pa.date32(), pa.date64())},
    **{kind: [dt.time(1, 2, 3), dt.time(0)] for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{pa.timestamp(unit): [_NOON, _OTHER_NOON] for unit in ("s", "ms", "us", "ns")},
    **{pa.timestamp(unit, "UTC"): _ZONED for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "Europe/Berlin"): _ZONED,
    **{pa.duration(unit): [dt.timedelta(1), dt.timedelta(seconds=-1)] for unit in ("s", "ms", "us", "ns")},
    pa.uuid(): [uuid.UUID(int=7), uuid.UUID(int=8)],
}
VALUES_ONLY: dict[pa.DataType, list[Any]] = {
    pa.map_(pa.string(), pa.int64()): [[("a", 1), ("b", None)], []],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0])],
}


class Sample(NamedTuple):
    """A type and some of its values, the last of which is null."""

    type: pa.DataType
    values: list[Any]

    @property
    def column(self) -> pa.Array:
        if _is_made_here(self.type):
            return exact_column(self.values, self.type, ValuePlace("a sample"))
        return pa.array(self.values, self.type)

    @property
    def keys(self) -> list[Any]:
        """The values as keys: a struct is a tuple, and so is a list; a struct in a list is a dict."""
        return [_key(value, self.type) for value in self.values]


def _is_made_here(kind: pa.DataType) -> bool:
    """Whether not every PyArrow makes a column of the type of Python objects."""
    return "extension" in str(kind) or "halffloat" in str(kind)


def _key(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, dict):
        return tuple(_key(part, kind.field(name).type) for name, part in value.items())
    return _frozen(value)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def plain_sample(kind: pa.DataType) -> Sample:
    """Values of a plain type."""
    return Sample(kind, [*LEAVES[kind], None])


def made_of(kind: pa.DataType) -> Iterator[Sample]:
    """Structs and lists of a plain type."""
    return _made_of(kind, *LEAVES[kind])


def key_types() -> Iterator[Sample]:
    """Every type of keys: the plain ones, lists and structs of each, and these in each other."""
    for kind in LEAVES:
        yield plain_sample(kind)
        if not pa.types.is_run_end_encoded(kind):  # Arrow makes none within others
            yield from made_of(kind)
    struct = pa.struct([("a", pa.int64()), ("b", pa.string_view())])
    yield from _made_of(struct, {"a": 1, "b": None}, {"a": None, "b": None})
    yield from _made_of(pa.list_(pa.date64()), [_DAY, None], [])


def _made_of(kind: pa.DataType, one: Any, other: Any) -> Iterator[Sample]:
    fields = pa.struct([("x", kind), ("n", pa.int64())])
    rows = [{"x": one, "n": 1}, {"x": other, "n": 1}, {"x": None, "n": None}, None]
    yield Sample(fields, rows)
    yield Sample(pa.struct([("of", fields)]), [{"of": row} for row in rows] + [None])
    for list_of in (pa.list_, pa.large_list) if _is_made_here(kind) else (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        yield Sample(list_of(kind), [[one, other], [one], [None], [], None])
    yield Sample(pa.list_(kind, 2), [[one, other], [None, one], None])
    yield Sample(pa.struct([("l", pa.list_(kind)), ("s", pa.string())]), [{"l": [one, None], "s": "a"}, {"l": None, "s": "a"}, None])


def value_types() -> Iterator[Sample]:
    """Every type of values."""
    yield from key_types()
    for kind, (one, other) in VALUES_ONLY.items():
        yield Sample(kind, [one, other, None])
        yield from _made_of(kind, one, other)
