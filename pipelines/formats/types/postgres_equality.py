"""What PostgreSQL's ``=`` says of the values of two columns, whose equal values may have several texts."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.compared import Comparison, Form

Category: TypeAlias = Literal["base", "enum", "array", "composite", "range"]
Locale: TypeAlias = Literal["ascii", "simple", "full", "other"]
"""The letters that the database's ``lower()`` knows: those of ASCII, those of Unicode one by one, those of Unicode by all
its rules, or those of a language that has rules of its own, such as Turkish.
"""
Pair: TypeAlias = tuple[Form | None, Form | None]
_SAME: Final[Pair] = (None, None)


class _NotCompared(Exception):
    """PostgreSQL has no ``=`` for the two types."""


class _Unlike(Exception):
    """The arguments are what it compares by, and how the types are made one."""


@dataclass(frozen=True)
class ComparedType:
    """A type below its domains. ``name`` is its own name in the catalog, ``modifier`` that of the column, and ``parts`` are
    the element of an array, the columns of a composite type or the bounds of a range. ``collation`` is the name of one by
    which unlike texts may be equal. ``is_text``: its values have the type of texts in Arrow.
    """

    name: str
    modifier: int = -1
    category: Category = "base"
    parts: tuple["ComparedType", ...] = ()
    collation: str = ""
    locale: Locale = "simple"
    is_text: bool = True


@dataclass(frozen=True)
class PostgresColumn:
    """A column: :class:`~beam_joins.columns.compared.ComparedColumn`. ``shown`` is the name of its type."""

    table: str
    name: str
    shown: str
    type: ComparedType

    def compared_with(self, other: Any) -> Comparison:
        """How PostgreSQL compares the values with those of another column. Raises ``ValueError``."""
        if not isinstance(other, PostgresColumn):
            return Comparison()
        try:
            return Comparison(*_pair(self.type, other.type))
        except _NotCompared:
            return Comparison(note=f"{self.beside(other)}, which PostgreSQL does not compare: they are joined by their texts")
        except _Unlike as unlike:
            how, remedy = unlike.args
            remedy = remedy.format(left=self, right=other) or self.made_one_with(other)
            raise ValueError(f"{self.beside(other)}, which PostgreSQL compares {how}: {remedy}") from None

    def compared_alone(self) -> None:
        """Raise ``ValueError`` for a column whose equal values may have several texts."""
        try:
            if not any(_pair(self.type, self.type)):
                return
        except _NotCompared:
            return
        except _Unlike:
            pass
        raise ValueError(
            f"{self.words}, and values that PostgreSQL has equal may have several texts: give a function that makes one of them, such "
            f'as vectorized(lambda rows: pyarrow.compute.utf8_lower(rows["{self.name}"]))'
        )

    @property
    def words(self) -> str:
        """The column and its type."""
        return f"{self.table}.{self.name} is {self.shown}"

    def beside(self, other: "PostgresColumn") -> str:
        """Both columns and their types."""
        return f"{self.words} and {other.words}"

    @property
    def altered(self) -> str:
        """The beginning of a statement that changes the type."""
        return f"ALTER TABLE {self.table} ALTER COLUMN {self.name} TYPE"

    def made_one_with(self, other: "PostgresColumn") -> str:
        """The remedy for two columns of two types."""
        return f"give both columns one type ({self.altered} {other.shown} USING {self.name}::{other.shown})"


def _pair(left: ComparedType, right: ComparedType) -> Pair:
    """The forms of the texts of two types."""
    if left.category != right.category:
        raise _NotCompared
    if left.category == "base":
        return _of_base(left, right)
    if left.category == "array":
        (one,), (other,) = left.parts, right.parts
        if one.category != other.category or one.name != other.name:
            raise _NotCompared
        return _both(_Nested(_array, (_pair(one, other)[0],)))
    if left.name != right.name:
        raise _NotCompared
    if left.category == "enum":
        return _SAME
    forms = tuple(_pair(one, other)[0] for one, other in zip(left.parts, right.parts, strict=True))
    return _both(_Nested(_record if left.category == "composite" else _range, forms))


def _both(form: "_Nested") -> Pair:
    return (form, form) if any(form.forms) else _SAME


def _of_base(left: ComparedType, right: ComparedType) -> Pair:
    names = left.name, right.name
    if collation := left.collation or right.collation:
        how = f"by the collation {collation}, to which unlike texts may be equal"
        raise _Unlike(how, _ALIKE.format(' text COLLATE "default"'))
    if names in _ZONED or names[::-1] in _ZONED:
        side, type_ = ("left", _ZONED[names]) if names in _ZONED else ("right", _ZONED[names[::-1]])
        raise _Unlike("by the time zone of the session", f"{{{side}.altered}} {type_.replace('?', f'{{{side}.name}}')}")
    if names in _PAIRS:
        return _PAIRS[names]
    if names[::-1] in _PAIRS:
        return _PAIRS[names[::-1]][::-1]
    if _NUMBERS.issuperset(names):
        return _of_numbers(left, right)
    if names[0] == names[1]:
        return _of_one(left, right)
    if _TEXTS.issuperset(names):
        return _SAME
    if _OIDS.issuperset(names):
        raise _Unlike("as numbers", "")
    raise _NotCompared


def _of_one(left: ComparedType, right: ComparedType) -> Pair:
    """The forms of two columns of one type that is no number."""
    name = left.name
    if name in _NOT_COMPARED:
        raise _NotCompared
    if name in _BY_SIZE:
        raise _Unlike(_BY_SIZE[name], "join by other columns")
    if name == "bpchar":
        return _SAME if left.modifier == right.modifier else (_trimmed, _trimmed)
    if name == "citext" and left.locale == "other":
        raise _Unlike(
            "by the lower case of its language", "write equal texts alike, and {left.altered} text (also {right.altered} text)"
        )
    form = _LOWER[left.locale] if name == "citext" else _OF_ONE.get(name)
    return form, form


def _of_numbers(left: ComparedType, right: ComparedType) -> Pair:
    """The forms of numbers: columns of numbers are compared as they are, but for decimals with doubles."""
    names, have_texts = {left.name, right.name}, left.is_text or right.is_text
    if any(one in names and names & others for one, others in _NO_NUMBERS.items()):
        raise _NotCompared
    if names & _DOUBLES:
        return (_double, _double) if have_texts or "numeric" in names else _SAME
    is_written_alike = "numeric" not in names and left.is_text == right.is_text
    return (_number, _number) if have_texts and not is_written_alike else _SAME


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(texts, " ")


def _number(values: pa.Array) -> pa.Array:
    """Numbers without zeros behind their fraction.

    >>> _number(pa.array(["7.50", "8.00", "100", "NaN"])).to_pylist(), _number(pa.array([7])).to_pylist()
    (['7.5', '8', '100', 'NaN'], ['7'])
    """
    texts = _one_by_one(values, lambda value: format(value, "f")) if pa.types.is_decimal(values.type) else values.cast(pa.string())
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")


def _double(values: pa.Array) -> pa.Array:
    """Numbers as PostgreSQL makes doubles of them.

    >>> _double(pa.array(["0.10", "-Infinity"])).to_pylist(), _double(pa.array([Decimal("0.1")])).to_pylist()
    ([0.1, -inf], [0.1])
    """
    if pa.types.is_decimal(values.type) or pa.types.is_string(values.type):
        return pa.array([None if value is None else float(value) + 0.0 for value in values.to_pylist()], pa.float64())
    return values.cast(pa.float64())


def _midnight(values: pa.Array) -> pa.Array:
    """Dates as the times at which they begin.

    >>> _midnight(pa.array(["2026-03-01", "0044-03-15 BC", "infinity"])).to_pylist()
    ['2026-03-01 00:00:00', '0044-03-15 00:00:00 BC', 'infinity']
    """
    if pa.types.is_string(values.type):
        return pc.replace_substring_regex(values, r"^(\d+-\d\d-\d\d)", r"\1 00:00:00")
    return values.cast(pa.timestamp("us"))


def _host(texts: pa.Array) -> pa.Array:
    """Addresses with the length of their network.

    >>> _host(pa.array(["10.0.0.1", "10.0.0.0/8", "::1"])).to_pylist()
    ['10.0.0.1/32', '10.0.0.0/8', '::1/128']
    """
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"^([0-9.]+)$", r"\1/32"), r"^([^/]*:[^/]*)$", r"\1/128")


def _one_by_one(values: pa.Array, form: Callable[[Any], str]) -> pa.Array:
    """The form of each value, which is asked for once."""
    coded = values.dictionary_encode()
    return pa.array([None if each is None else form(each) for each in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


_INTERVAL: Final = re.compile(r"(?:(-?\d+) years? ?)?(?:(-?\d+) mons? ?)?(?:(-?\d+) days? ?)?(?:(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?)?")
_MONTHS, _DAYS, _MICROS = 12, 30, 86_400_000_000


def _micros(text: str) -> str:
    """The length of an interval or a time of day in microseconds, of months of 30 days and days of 24 hours.

    >>> _micros("1 mon -1 days +02:00:00") == _micros("29 days 02:00:00"), _micros("-00:00:00.5")
    (True, '-500000')
    """
    match = _INTERVAL.fullmatch(text.replace("+", ""))
    if match is None:
        return text  # infinity
    years, months, days = (int(part or 0) for part in match.groups()[:3])
    sign, hours, minutes, seconds, fraction = match.groups()[3:]
    clock = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    micros = clock * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return str(((years * _MONTHS + months) * _DAYS + days) * _MICROS + (-micros if sign else micros))


def _spans(values: pa.Array) -> pa.Array:
    return _one_by_one(values.cast(pa.string()), _micros)


def _documents(texts: pa.Array) -> pa.Array:
    """Documents of JSON whose numbers have one text.

    >>> _documents(pa.array(['{"a": [1.0, "1.0"]}', '{"a": [1, "1.0"]}'])).to_pylist()
    ['{"a": [{"": "1"}, "1.0"]}', '{"a": [{"": "1"}, "1.0"]}']
    """

    def number(text: str) -> dict[str, str]:
        return {"": format(Decimal(text).normalize(), "f")}

    return _one_by_one(texts, lambda text: json.dumps(json.loads(text, parse_int=number, parse_float=number)))


def _lower_each(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(texts)


def _lower_ascii(texts: pa.Array) -> pa.Array:
    return pc.ascii_lower(texts)


def _lower_all(texts: pa.Array) -> pa.Array:
    return _one_by_one(texts, str.lower)


@dataclass(frozen=True)
class _Nested:
    """The form of texts with parts, which have ``forms`` of their own."""

    split: Callable[[str, Sequence[Form | None]], Any]
    forms: tuple[Form | None, ...]

    def __call__(self, texts: pa.Array) -> pa.Array:
        """The form of each text."""
        return _one_by_one(texts, lambda text: json.dumps(self.split(text, self.forms)))


def _formed(form: Form | None, text: str | None) -> str | None:
    if form is None or text is None:
        return text
    (made,) = form(pa.array([text])).to_pylist()
    return None if made is None else str(made)


_PART: Final = re.compile(r'[{}(),\[\]]|"(?:[^"\\]|\\.|"")*"(?:"(?:[^"\\]|\\.|"")*")*|(?:[^{}(),\[\]"\\]|\\.)+', re.DOTALL)


def _plain(token: str) -> str:
    """A part without its quotes.

    >>> _plain('"a""b"'), _plain("7")
    ('a"b', '7')
    """
    inner = token[1:-1].replace('""', '"') if token.startswith('"') else token
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)


def _array(text: str, forms: Sequence[Form | None]) -> Any:
    """The elements of an array, and its bounds where they are not the usual ones.

    >>> _array('{{1.0,NULL},{"NULL",2}}', [_number]), _array("[0:1]={1.0,2}", [_number])
    (['', [['1', None], ['NULL', '2']]], ['[0:1]=', ['1', '2']])
    """
    (form,) = forms
    bounds, equals, values = text.partition("=") if text.startswith("[") else ("", "", text)
    stack: list[list[Any]] = [[]]
    for token in _tokens(values):
        if token == "{":
            stack.append([])
        elif token == "}":
            closed = stack.pop()
            stack[-1].append(closed)
        elif token != ",":
            stack[-1].append(None if token == "NULL" else _formed(form, _plain(token)))
    return [bounds + equals, stack[0][0]]


def _tokens(text: str) -> Iterator[str]:
    return (match[0] for match in _PART.finditer(text))


def _fields(inner: str) -> list[str | None]:
    """The parts between commas, None for an empty one.

    >>> _fields('1.0,,"a,""b"')
    ['1.0', None, 'a,"b']
    """
    parts: list[str | None] = [None]
    for token in _tokens(inner):
        if token == ",":
            parts.append(None)
        else:
            parts[-1] = (parts[-1] or "") + _plain(token)
    return parts


def _record(text: str, forms: Sequence[Form | None]) -> Any:
    """The columns of a composite value.

    >>> _record('(1.0,"",)', [_number, None, None])
    ['1', '', None]
    """
    return [_formed(form, part) for form, part in zip(forms, _fields(text[1:-1]), strict=True)]


def _range(text: str, forms: Sequence[Form | None]) -> Any:
    """The bounds of a range, and those of each range of several.

    >>> _range("[1.0,2)", [_number]), _range("empty", [_number]), _range("{[1.0,2),(3,)}", [_number])
    ([['[', '1', '2', ')']], [], [['[', '1', '2', ')'], ['(', '3', None, ')']])
    """
    (form,) = forms
    ranges = re.findall(r'[\[(](?:[^"\])]|"(?:[^"\\]|\\.|"")*")*[\])]', text, re.DOTALL)
    return [[each[0], *(_formed(form, part) for part in _fields(each[1:-1])), each[-1]] for each in ranges]


_LOWER: Final[dict[str, Form]] = {"ascii": _lower_ascii, "simple": _lower_each, "full": _lower_all}
_INTEGERS: Final = {"int2", "int4", "int8", "oid", "xid"}
_DOUBLES: Final = {"float4", "float8"}
_NUMBERS: Final = {*_INTEGERS, *_DOUBLES, "numeric"}
_TEXTS: Final = {"text", "varchar", "name", "char", "citext"}
_OIDS: Final = {
    *_INTEGERS,
    *(f"reg{each}" for each in ("class", "proc", "procedure", "type", "role", "namespace", "oper", "operator")),
}
_NO_NUMBERS: Final = {"oid": {"numeric", *_DOUBLES}, "xid": {"numeric", *_DOUBLES, "int8", "oid"}}
"""Numbers that are not compared with others."""
_NOT_COMPARED: Final = {"json", "xml", "point", "polygon"}
_BY_SIZE: Final = {"box": "by their areas", "circle": "by their areas", "path": "by the number of their points"}
_OF_ONE: Final[dict[str, Form]] = {"interval": _spans, "jsonb": _documents}
_PAIRS: Final[dict[tuple[str, str], Pair]] = {
    ("bpchar", "varchar"): (_trimmed, _trimmed),
    **dict.fromkeys((("bpchar", each) for each in ("text", "name", "char", "citext")), (_trimmed, None)),
    ("date", "timestamp"): (_midnight, None),
    ("inet", "cidr"): (_host, _host),
    ("bit", "varbit"): _SAME,
    ("time", "interval"): (_spans, _spans),
}
_ALIKE: Final = "write equal texts alike, and {{left.altered}}{0}, and {{right.altered}}{0}"
_ZONED: Final = {
    ("date", "timestamptz"): "timestamptz USING ?::timestamp AT TIME ZONE 'UTC'",
    ("timestamp", "timestamptz"): "timestamptz USING ? AT TIME ZONE 'UTC'",
    ("time", "timetz"): "timetz USING (? || '+00')::timetz",
}
"""Pairs of which only the second type has a zone, and how the column of the first one gets it."""
