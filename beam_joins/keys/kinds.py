"""Kinds of encoded values: values of two kinds are never equal."""

from typing import Final

from beam_joins.keys.canonical import (
    BYTES,
    FIELDS,
    MEMBER,
    NULL,
    OWN,
    RECORD,
    ROW,
    SET,
    TEXT,
    TUPLE,
    UUID,
    parts,
)
from beam_joins.keys.numbers import ABOVE, BELOW, DECIMAL, FRACTION, WHOLE
from beam_joins.keys.times import DATE, INSTANT, LOCAL, SPAN, TIME, TIMESTAMP

OF_PARTS: Final = (TUPLE, MEMBER, RECORD, OWN)
"""Front bytes that do not determine the kind: it depends on the parts."""

_KINDS: Final = {
    **dict.fromkeys((FRACTION, DECIMAL, BELOW, WHOLE, ABOVE), "number"),
    NULL: "null",
    TEXT: "text",
    BYTES: "bytes",
    UUID: "UUID",
    INSTANT: "datetime with a time zone",
    LOCAL: "datetime without a time zone",
    DATE: "date",
    TIME: "time of day",
    SPAN: "timedelta",
    TIMESTAMP: "Beam Timestamp",
    SET: "set",
    FIELDS: "dict",
    ROW: "Row",
}


def kind(encoded: bytes) -> str:
    """The kind of an encoded value, in words: values of two kinds are never equal.

    >>> from beam_joins.keys.canonical import encode
    >>> kind(encode((7.5, "a"))), kind(encode(b"a"))
    ('(number, text)', 'bytes')
    """
    tag = encoded[:1]
    if tag == TUPLE:
        return f"({', '.join(map(kind, parts(encoded)))})"
    if tag in (MEMBER, RECORD, OWN):
        return next(parts(encoded), b"unknown").decode(errors="replace")
    return _KINDS.get(tag, "unknown")
