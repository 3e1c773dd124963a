"""Maps PostgreSQL's types, as wal2json names them, to Arrow types."""

import re
from functools import cache
from typing import Final

import pyarrow as pa

_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_PRECISION: Final = re.compile(r"\((\d+)\)")
_SAME: Final = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "time without time zone": pa.time64("us"),
}
_WIDEST: Final = 76


@cache
def arrow_type(name: str) -> pa.DataType:
    """The type of a column.

    Types that are not known here are text, as PostgreSQL writes them: among them ``numeric`` without a scale,
    with all its digits.

    >>> arrow_type("numeric(12,2)"), arrow_type("timestamp(3) without time zone"), arrow_type("character varying(30)")
    (Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[us]), DataType(string))
    """
    if (numeric := _NUMERIC.fullmatch(name)) and int(numeric[1]) <= _WIDEST and 0 <= int(numeric[2]) <= int(numeric[1]):
        precision, scale = int(numeric[1]), int(numeric[2])
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return _SAME.get(_PRECISION.sub("", name), pa.string())


def may_be_left_out(kind: pa.DataType) -> bool:
    """Whether values of a column may be so large that PostgreSQL stores them apart (TOAST), and its log
    leaves them out while they do not change.
    """
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind))
