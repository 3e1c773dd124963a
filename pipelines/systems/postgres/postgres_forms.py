"""Says in what form values of an Arrow type go into a column of PostgreSQL, so that each stays the same value.

The rule is pure: the types of the columns are read by :mod:`~beam_joins.pipelines.systems.postgres.postgres_target`.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.values.arrow_types import is_bytes, is_text, is_uuid


class PostgresType(NamedTuple):
    """The type of a column as ``format_type`` writes it, ``plain`` without its modifier; of a domain the type that
    it is of. ``element`` is the type of the items of an array, or of the bounds of a range; ``within`` are the types within
    such items, within a composite type, and of a domain within.
    """

    shown: str
    plain: str
    element: str = ""
    within: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the modifier, such as precision and scale."""
        return [int(number) for number in re.findall(r"-?\d+", self.shown.rpartition("(")[2])] if "(" in self.shown else []

    @property
    def unbounded(self) -> str:
        """A type that holds what this one would round or cut."""
        return "text" if self.plain in _CUT or self.is_rewritten else self.plain

    @property
    def is_rewritten(self) -> bool:
        """Whether texts are compared with those that the server makes of their values."""
        return self.plain in _REWRITTEN or not all(_KEEPS_TEXT.fullmatch(each) for each in self.within)


class Form(NamedTuple):
    """The form in which values are written: ``cast`` is the type that they are cast to exactly, ``pattern`` the
    pattern that the text of each has to match, ``digits`` the type of floats that hold all digits of the text,
    ``is_compared`` whether the server compares the values with those that the column's type makes of them, and ``has_one_of_each``
    whether the column keeps one value of each key in JSON.
    """

    cast: pa.DataType | None = None
    pattern: str | None = None
    digits: pa.DataType | None = None
    is_compared: bool = False
    has_one_of_each: bool = False


class TargetColumn(NamedTuple):
    """A column that is written, and how; ``type`` is the one in the table."""

    name: str
    type: PostgresType
    form: Form


_PLAIN: Final = Form()
_COMPARED: Final = Form(is_compared=True)
_CUT: Final = frozenset({"character", "character varying", "name", '"char"'})
_TEXTS: Final = frozenset({"text", "citext", "character varying", "character"})
_JSON: Final = frozenset({"json", "jsonb"})
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint"})
_BY_WIDTH: Final = ("smallint", "integer", "bigint"), ("real", "double precision")
_MOST: Final = 1 << 20  # digits of a numeric without a limit
_NATURALS: Final = frozenset({"oid", "xid", "cid", "xid8"})
_FLOATS: Final = {"real": pa.float32(), "double precision": pa.float64()}
_GEOMETRY: Final = frozenset({"point", "line", "lseg", "box", "path", "polygon", "circle"})
_CLOCK, _CLOCK_ZONED = "time without time zone", "time with time zone"
_LOCAL, _INSTANT = "timestamp without time zone", "timestamp with time zone"
_RANGES: Final = frozenset({"int4range", "int8range", "daterange", "int4multirange", "int8multirange", "datemultirange"})
_REWRITTEN: Final = _RANGES | {"tsvector", "tsquery", "box"}
_KEEPS_TEXT: Final = re.compile(r"text|citext|json|uuid|xml|boolean|inet|cidr|macaddr8?|character varying(\(\d+\))?")
"""Types of whose values the server makes the texts that it has been given, also within others."""
_ROUNDED: Final = frozenset({"numeric", "interval", _CLOCK, _CLOCK_ZONED, _LOCAL, _INSTANT, "character varying"})
_FRACTION_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 6}

_NAME_BYTES: Final = 63
_SYSTEM: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})

_TIME: Final = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6}0*)?)?"
_DAY: Final = r"\d{4,7}-\d\d-\d\d"
_ZONE: Final = r" ?(?:Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)"
_NO_ZONE: Final = r" ?(?:Z|[+-]00(?::?00)?)"
_TIMES: Final = {
    "date": rf"-?infinity|{_DAY}(?: BC)?",
    _CLOCK: _TIME,
    _CLOCK_ZONED: rf"{_TIME}(?:{_ZONE})?",
    _LOCAL: rf"-?infinity|{_DAY}(?:[T ]{_TIME}(?:{_NO_ZONE})?)?(?: BC)?",
    _INSTANT: rf"-?infinity|{_DAY}(?:[T ]{_TIME}(?:{_ZONE})?)?(?: BC)?",
}
"""PostgreSQL reads 'now' as this moment, cuts the time off for a date, and ignores a zone where the type has none."""
_NUMBER: Final = r"(?:0|[1-9][\d_]*)(?:\.\d*)?(?:[eE][+-]?\d+)?"
_BETWEEN: Final = r"(?:[^\d.]|\.\d+)"
NUMBERS: Final = rf"{_BETWEEN}*(?:{_NUMBER}{_BETWEEN}+)*(?:{_NUMBER})?"
"""Numbers that do not begin with further zeros, of which a number keeps none."""
_OTHERS: Final = {
    "interval": r"(?:[^.]|\.\d{1,6}0*(?:[^\d.]|$))*",
    "money": r"-?\$(?:\d+|\d{1,3}(?:,\d{3})*)\.\d\d",
    **dict.fromkeys(_NATURALS, r"\d+"),
}


def form_of(kind: pa.DataType, into: PostgresType) -> Form | None:
    """The form in which values of an Arrow type are written into a column; ``None`` where the column's type changes
    values that the Arrow type tells apart, or takes none of them.

    >>> form_of(pa.decimal128(12, 4), PostgresType("numeric(10,2)", "numeric")), form_of(pa.int32(), PostgresType("bigint", "bigint"))
    (None, Form(cast=None, pattern=None, digits=None, is_compared=False, has_one_of_each=False))
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return form_of(kind.value_type, into)
    if pa.types.is_null(kind):
        return _PLAIN
    if is_bytes(kind):
        return _PLAIN if into.plain == "bytea" else None
    if is_text(kind):
        return _of_text(into)
    if into.plain.rpartition(".")[2] in _TEXTS:
        return _COMPARED if into.numbers else _PLAIN
    return next((form(kind, into) for is_kind, form in _FORMS if is_kind(kind)), None)


def is_wider(into: PostgresType, other: PostgresType) -> bool:
    """Whether another type of the same kind holds all values of a column's type, and more.

    >>> is_wider(PostgresType("integer", "integer"), PostgresType("bigint", "bigint"))
    True
    >>> is_wider(PostgresType("numeric(9,2)", "numeric"), PostgresType("numeric(9,3)", "numeric"))
    False
    """
    for types in _BY_WIDTH:
        if into.plain in types and other.plain in types:
            return types.index(other.plain) > types.index(into.plain)
    if not into.plain == other.plain == "numeric" or not into.numbers or into.numbers == other.numbers:
        return False
    (digits, scale), (more, other_scale) = ((*each.numbers, 0)[:2] if each.numbers else (_MOST, _MOST // 2) for each in (into, other))
    return other_scale >= scale and more - other_scale >= digits - scale


def _of_text(into: PostgresType) -> Form | None:
    name = into.element or into.plain
    if into.plain == "bytea":
        return None
    if into.plain == "jsonb":
        return Form(has_one_of_each=True)
    if into.is_rewritten and into.within:
        return _COMPARED
    if name in _FLOATS or name in _GEOMETRY:
        return Form(digits=_FLOATS.get(name, pa.float64()), is_compared=into.is_rewritten)
    pattern = _TIMES.get(name, _OTHERS.get(name))
    if into.element and pattern:
        pattern = _within(pattern) if name in _TIMES else None
    is_cut = into.is_rewritten or into.plain in {"name", '"char"'} or (into.plain == "character" and bool(into.numbers))
    if name in _INTEGERS or name == "numeric":
        pattern = NUMBERS
    return Form(pattern=pattern, is_compared=is_cut or (name in _ROUNDED and into.shown != into.plain))


def _within(item: str) -> str:
    """The pattern of the text of an array, or a range, of such items."""
    return rf'(?:(?:\[-?\d+:-?\d+\])+=)?[][(){{}},"]*(?:(?:{item}|NULL|empty)[][(){{}},"]+)*(?:empty)?'


def _of_boolean(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _PLAIN if into.plain == "boolean" or into.plain in _JSON else None


def _of_integer(kind: pa.DataType, into: PostgresType) -> Form | None:
    if into.plain in _INTEGERS or into.plain in _JSON or into.plain in {"boolean", "money"}:
        return _PLAIN
    if into.plain in _FLOATS:
        return Form(cast=_FLOATS[into.plain])
    if into.plain in _NATURALS:
        return Form(pattern=_OTHERS[into.plain])
    return _numeric(into, 0)


def _of_float(kind: pa.DataType, into: PostgresType) -> Form | None:
    if into.plain in _FLOATS:
        wide = _FLOATS[into.plain]
        return None if kind.bit_width > wide.bit_width else Form(cast=wide) if kind == pa.float32() != wide else _PLAIN
    if into.plain in _INTEGERS:
        return Form(cast=pa.int64())
    if into.plain == "numeric":
        return _COMPARED if into.numbers else _PLAIN
    return _PLAIN if into.plain in _JSON else None


def _of_decimal(kind: pa.DataType, into: PostgresType) -> Form | None:
    if into.plain in _INTEGERS:
        return _PLAIN if kind.scale == 0 else None
    if into.plain in _JSON:
        return _PLAIN
    return _PLAIN if into.plain == "money" and kind.scale <= len("00") else _numeric(into, kind.scale)


def _numeric(into: PostgresType, scale: int) -> Form | None:
    """PostgreSQL refuses a number of too many digits, and rounds one of too many fraction digits."""
    return _PLAIN if into.plain == "numeric" and (not into.numbers or (*into.numbers, 0)[1] >= scale) else None


def _of_date(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _PLAIN if into.plain in {"date", _LOCAL, _INSTANT} else None


def _of_time(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _timed(kind, into) if into.plain in {_CLOCK, _CLOCK_ZONED} else None


def _of_timestamp(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _timed(kind, into) if into.plain in {_LOCAL, _INSTANT} else None


def _timed(kind: pa.DataType, into: PostgresType) -> Form:
    """The Arrow types of PostgreSQL's columns have microseconds, whatever the precision of the column is."""
    return _COMPARED if into.numbers and into.numbers[0] < _FRACTION_DIGITS[kind.unit] else _PLAIN


def _of_uuid(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _PLAIN if into.plain == "uuid" else None


def _of_nested(kind: pa.DataType, into: PostgresType) -> Form | None:
    return _PLAIN if into.plain in _JSON else None


_FORMS: Final = (
    (pa.types.is_boolean, _of_boolean),
    (pa.types.is_integer, _of_integer),
    (pa.types.is_floating, _of_float),
    (pa.types.is_decimal, _of_decimal),
    (pa.types.is_date, _of_date),
    (pa.types.is_time, _of_time),
    (pa.types.is_timestamp, _of_timestamp),
    (is_uuid, _of_uuid),
    (pa.types.is_nested, _of_nested),
)


def require_names(table: str, columns: Sequence[str], *, has_view: bool) -> None:
    """Raises InputError for a name that PostgreSQL would cut, has itself, or does not take."""
    names = [("schema or table", part) for part in table.split(".")] + [("column", name) for name in columns]
    if has_view:
        names.append(("view", f"{table.rpartition('.')[2]}_live"))
    for what, name in names:
        if (size := len(name.encode())) > _NAME_BYTES:
            way = "shorten that of the table" if what == "view" else "shorten it"
            raise InputError(f"PostgreSQL: the name of the {what} {name} has {size} bytes, and PostgreSQL keeps {_NAME_BYTES}: {way}")
        if not name or "\0" in name:
            raise InputError(f"PostgreSQL: {name!r} is no name of a {what}: give another one")
        if what == "column" and name in _SYSTEM:
            raise InputError(f"PostgreSQL: the name {name} is of a system column, which each table has: give the column another name")
