"""How the numbers, times, and words for true and false of a column of text are written: ``1.234,5``, ``%d.%m.%Y``, ``ja/nein``."""

import datetime as dt
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.formats.csv_schema import Formats, written_name

ColumnFormats: TypeAlias = Mapping[str, str | Sequence[str]]
"""Columns of text, and how each is written; of several formats a text is in the only one that fits, or they mean the same of it."""

_SAMPLE: Final = re.compile("1([., '\u2019\u00a0\u202f]?)234([.,])5")
_SPACES: Final = {" ": " \u00a0\u202f", "\u00a0": " \u00a0\u202f", "\u202f": " \u00a0\u202f", "'": "'\u2019", "\u2019": "'\u2019"}
"""The characters that count as the same mark of thousands."""
_PARTS: Final = re.compile("%(.?)")
_DAYS: Final = ({"j"}, {"m", "d"}, {"b", "d"}, {"B", "d"})
_TIMES: Final = frozenset("HIMSfp")
_OF_TIMES: Final = "YymdbBjHIMSfpz%"
_FAST: Final = {"Y": "[1-9][0-9]{3}", **dict.fromkeys("ymdHMS", "[0-9]{1,2}")}
_FIRST_OF_1900: Final = 69
"""The first year of two digits that is one of the 20th century, as POSIX has it."""
_EXAMPLES: Final = "a number as in '1.234,5', a form of strptime as in '%d.%m.%Y %H:%M', or words as in 'ja/nein'"

_MARKS: Final = ("1234,5", "1.234,5", "1 234,5", "1'234,5", "1,234.5", "1 234.5", "1'234.5")
_LONG: Final = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d")
_SHORT: Final = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y")
_OF_DAY: Final = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_TIME_FORMS: Final = tuple(day + time for day in (*_LONG, *_SHORT) for time in _OF_DAY)
_WORDS: Final = ("ja/nein", "yes/no", "oui/non", "si/no", "sí/no", "sim/não", "j/n", "y/n", "o/n", "t/f", "wahr/falsch", "vrai/faux")


@dataclass(frozen=True)
class ColumnFormat(ABC):
    """How texts of a column are written, and the same texts as CSV has them without a format."""

    kind: ClassVar[str] = "double"
    """The type of a column that has no value yet."""
    text: str

    @abstractmethod
    def plain(self, text: str) -> str | None:
        """A text as it is without a format: a number with a point, a time in ISO 8601, true or false; ``None`` for another one."""

    def plain_column(self, texts: pa.Array) -> pa.Array:
        """The same of a column; null for other texts."""
        values = {text: self.plain(text) for text in texts.unique().to_pylist() if text is not None}
        return pa.array([None if text is None else values[text] for text in texts.to_pylist()], pa.string())


@dataclass(frozen=True)
class NumberFormat(ColumnFormat):
    """A mark between thousands, or none, and a decimal mark; a minus may also stand behind the number."""

    thousands: str
    decimal: str

    @property
    def _pattern(self) -> str:
        marks = "".join(map(re.escape, _SPACES.get(self.thousands, self.thousands)))
        grouped = f"[0-9]{{1,3}}(?:[{marks}][0-9]{{3}})+|" if marks else ""
        fraction = f"(?:{re.escape(self.decimal)}([0-9]+))?"
        return rf"^([+-]?)((?:{grouped}[0-9]+)){fraction}([eE][+-]?[0-9]+)?(-?)$"

    def plain(self, text: str) -> str | None:
        """A number with a point."""
        if not (match := _compiled(self._pattern).fullmatch(text)) or text.endswith("\n"):
            return None
        before, whole, fraction, exponent, behind = (each or "" for each in match.groups())
        if before and behind:
            return None
        digits = re.sub("[^0-9]", "", whole).lstrip("0") or "0"
        sign = "-" if "-" in before + behind else ""
        return f"{sign}{digits}{'.' if fraction else ''}{fraction}{exponent}"

    def plain_column(self, texts: pa.Array) -> pa.Array:
        """Numbers with points."""
        usual = pc.match_substring_regex(
            texts, rf"^-?(?:0|[1-9][0-9{re.escape(self.thousands)}]*)(?:{re.escape(self.decimal)}[0-9]+)?$"
        )
        right = pc.and_(usual, pc.match_substring_regex(texts, self._pattern))
        numbers = pc.if_else(right, texts, pa.scalar(None, pa.string()))
        if self.thousands:
            numbers = pc.replace_substring(numbers, self.thousands, "")
        numbers = pc.replace_substring(numbers, self.decimal, ".")
        others = pc.and_(pc.invert(right), pc.is_valid(texts))
        return _with_others(self, texts, numbers, others)


@dataclass(frozen=True)
class TimeFormat(ColumnFormat):
    """A form of ``strptime``; a text without a time of day is a date, and one with a zone keeps it."""

    kind: ClassVar[str] = "string"

    def plain(self, text: str) -> str | None:
        """A time in ISO 8601."""
        try:
            time = dt.datetime.strptime(text, self.text)  # without a zone it stays so
        except ValueError:
            return None
        has_time = not _TIMES.isdisjoint(_PARTS.findall(self.text))
        return time.isoformat() if has_time else time.date().isoformat()

    def plain_column(self, texts: pa.Array) -> pa.Array:
        """Times in ISO 8601: all at once where each part of the form is of digits, and others stand between them."""
        pieces = re.split("%(.)", self.text)
        parts, between = pieces[1::2], pieces[2:-1:2]
        is_fast = set(parts) <= _FAST.keys() and len({*parts}) == len(parts) and all(map(_separates, between))
        if not is_fast or len(set(parts) & {"Y", "y"}) != 1 or not {"m", "d"} <= set(parts):
            return super().plain_column(texts)
        groups = [f"(?P<{part}>{_FAST[part]})" if n % 2 else re.escape(part) for n, part in enumerate(pieces)]
        matched = pc.extract_regex(texts, f"^{''.join(groups)}$")
        fields = {part: pc.struct_field(matched, part) for part in parts}
        if "y" in fields:
            number = pc.cast(fields["y"], pa.int32())
            century = pc.if_else(pc.less(number, _FIRST_OF_1900), "20", "19")
            fields["Y"] = pc.binary_join_element_wise(century, pc.utf8_lpad(fields["y"], 2, "0"), "")
        day = pc.binary_join_element_wise(fields["Y"], *(pc.utf8_lpad(fields[part], 2, "0") for part in "md"), "-")
        if not _TIMES.isdisjoint(parts):
            of_day = [pc.utf8_lpad(fields[part], 2, "0") if part in fields else pa.scalar("00") for part in "HMS"]
            day = pc.binary_join_element_wise(day, pc.binary_join_element_wise(*of_day, ":"), "T")
        try:
            pc.cast(day, pa.timestamp("s"))
        except pa.ArrowInvalid:  # one of them is no day
            return super().plain_column(texts)
        return _with_others(self, texts, day, pc.and_(pc.is_null(day), pc.is_valid(texts)))


@dataclass(frozen=True)
class TruthFormat(ColumnFormat):
    """The words for true and false, in any case."""

    kind: ClassVar[str] = "bool"
    true: str
    false: str

    def plain(self, text: str) -> str | None:
        """True or false."""
        return {self.true: "true", self.false: "false"}.get(text.lower())


def column_format(text: str) -> ColumnFormat:
    """A format as it is written. Raises ValueError, a sentence, for another text.

    >>> column_format("1.234,5").plain("-2.672,36"), column_format("%d.%m.%Y").plain("13.07.2026")
    ('-2672.36', '2026-07-13')
    >>> column_format("ja/nein").plain("Ja")
    'true'
    """
    if sample := _SAMPLE.fullmatch(text):
        thousands, decimal = sample.groups()
        if thousands != decimal:
            return NumberFormat(text, thousands, decimal)
    true, slash, false = text.lower().partition("/")
    if "%" in text:
        return TimeFormat(_time_form(text))
    if slash and true and false and true != false and not re.search("[0-9]", text):
        return TruthFormat(text, true, false)
    raise ValueError(f"{text!r} is no format of a column: give {_EXAMPLES}")


def _time_form(form: str) -> str:
    parts = set(_PARTS.findall(form))
    if other := sorted(parts - {*_OF_TIMES}):
        raise ValueError(f"%{other[0]} is none of {', '.join(f'%{part}' for part in _OF_TIMES)}")
    if not parts & {"Y", "y"} or not any(day <= parts for day in _DAYS):
        raise ValueError(f"{form!r} does not say a day: write it as strptime does, such as %d.%m.%Y")
    try:
        dt.datetime.strptime("", form)
    except ValueError as error:
        if "does not match" not in str(error):
            raise ValueError(f"{form!r} is no form of times: {error}") from None
    except re.error as error:  # a part that comes twice
        raise ValueError(f"{form!r} is no form of times: {error}") from None
    return form


def formats_of(formats: ColumnFormats) -> Formats:
    """Formats in one form. Raises ValueError, a sentence.

    >>> formats_of({"sum": "1.234,5", "day": ["%d.%m.%Y", "%m/%d/%Y"]})
    (('sum', ('1.234,5',)), ('day', ('%d.%m.%Y', '%m/%d/%Y')))
    """
    if not isinstance(formats, Mapping) or not formats or not all(isinstance(name, str) and name for name in formats):
        raise ValueError(f"{formats!r}: give columns and their formats, as in {{'amount': '1.234,5'}}")
    made = []
    for name, written in formats.items():
        texts = (written,) if isinstance(written, str) else tuple(written) if isinstance(written, Sequence) else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"column '{name}' has {written!r} for a format: give {_EXAMPLES}")
        for text in texts:
            try:
                _format_of(text)
            except ValueError as error:
                raise ValueError(f"column '{name}': {error}") from None
        if len({type(_format_of(text)) for text in texts}) > 1:
            raise ValueError(f"column '{name}' has formats of several types: {', '.join(texts)}")
        made.append((name, texts))
    return tuple(made)


def type_of_formats(formats: Sequence[str]) -> str:
    """The type of a column of these formats that has no value yet."""
    return _format_of(formats[0]).kind


def plain_text(text: str, formats: Sequence[str]) -> str | None:
    """A text as it is without a format; ``None`` where it is in none of these, or means several things in them.

    >>> plain_text("07/13/2026", ["%d.%m.%Y", "%m/%d/%Y"]), plain_text("13,5", ["1,234.5"])
    ('2026-07-13', None)
    >>> plain_text("07/08/2026", ["%d/%m/%Y", "%m/%d/%Y"])
    """
    meanings = {plain for each in formats if (plain := _format_of(each).plain(text)) is not None}
    return meanings.pop() if len(meanings) == 1 else None


def plain_texts(texts: pa.Array, formats: Sequence[str]) -> pa.Array:
    """The same of a column of texts; null also where one is null.

    >>> plain_texts(pa.array(["1.7.2026 8:05", None, "31.06.2026"]), ["%d.%m.%Y %H:%M"]).to_pylist()
    ['2026-07-01T08:05:00', None, None]
    """
    made = _format_of(formats[0]).plain_column(texts)
    clash = pa.array(np.zeros(len(texts), np.bool_))
    for each in formats[1:]:
        other = _format_of(each).plain_column(texts)
        clash = pc.or_(clash, pc.not_equal(made, other).fill_null(False))
        made = pc.coalesce(made, other)
    return made if len(formats) == 1 else pc.if_else(clash, pa.scalar(None, pa.string()), made)


def readings(texts: Iterable[str]) -> tuple[str, ...]:
    """The formats that all texts are in, if none of them is a plain value already: several, where they mean several things.

    >>> readings(["2.672,36", "12,00"]), readings(["1,234", "2,500"]), readings(["07/08/2026"]), readings(["Anna"])
    (('1.234,5',), ('1234,5', '1,234.5'), ('%d/%m/%Y', '%m/%d/%Y'), ())
    """
    values = list(dict.fromkeys(texts))
    column, by_meaning = pa.array(values, pa.string()), dict[tuple[str, ...], str]()
    for each in _candidates(values[:1]):
        form = _format_of(each)
        if not _reads(form, values[0]) or any(_is_padded(form, text) for text in values):
            continue
        plain = form.plain_column(column)
        if not plain.null_count:
            by_meaning.setdefault(tuple(plain.to_pylist()), each)
    is_plain = all(_plain_number(text) for text in values)
    has_both = len({*map(str.lower, values)}) > 1
    return tuple(each for each in by_meaning.values() if not is_plain and (has_both or each not in _WORDS))


def has_decimal_comma(formats: Sequence[str]) -> bool:
    """Whether a column of these formats has numbers with a comma before their fractions, and no other reading."""
    made = [_format_of(each) for each in formats]
    return bool(made) and all(isinstance(each, NumberFormat) and each.decimal == "," for each in made)


def in_thousands(texts: Sequence[str]) -> tuple[str, ...]:
    """The formats of numbers whose points may all stand between thousands, as a comma before fractions elsewhere makes likely.

    >>> in_thousands(["1.250", "12"]), in_thousands(["1.25", "1.250"])
    (('1234.5', '1.234,5'), ())
    """
    formats = "1234.5", "1.234,5"
    return formats if all(_reads(_format_of(formats[1]), text) for text in texts) else ()


def formats_by(option: str, column: str, formats: Sequence[str]) -> str:
    """An option, of a command or of Python, with the formats that it may give a column.

    >>> formats_by("column_formats=", "sum", ["1.234,5"]), formats_by("--column-formats", "Net Sum", ["1,234.5", "1234,5"])
    ("column_formats={'sum': '1.234,5'}", "--column-formats 'Net Sum=1,234.5' or 'Net Sum=1234,5'")
    """
    if option.endswith("="):
        return f"{option}{' or '.join(str({column: each}) for each in formats)}"
    return f"{option} {' or '.join(shlex.quote(f'{written_name(column)}={each}') for each in formats)}"


def _candidates(first: Sequence[str]) -> Iterator[str]:
    """The formats that may be those of a first text, by its characters."""
    for text in first:
        if re.search("[0-9]", text):
            yield from _MARKS if re.fullmatch("[-+0-9.,'\u2019 \u00a0\u202f]+", text) else ()
            yield from (form for form in _TIME_FORMS if _shape(_PARTS.sub(_shown_part, form)) == _shape(text))
        else:
            yield from _WORDS


def _shown_part(part: re.Match[str]) -> str:
    return "a" if part[1] in "bp" else "0"


def _shape(text: str) -> str:
    """A text with one sign for digits, and one for letters, that stand together: ``strptime`` is slow.

    >>> _shape("13-JUL-26")
    '0-a-0'
    """
    return re.sub("[A-Za-z]+", "a", re.sub("[0-9]+", "0", text))


def _reads(form: ColumnFormat, text: str) -> bool:
    """Whether a text is in a format, and looks like one of it: no zeros stand before a number."""
    return form.plain(text) is not None and not _is_padded(form, text)


def _is_padded(form: ColumnFormat, text: str) -> bool:
    return isinstance(form, NumberFormat) and bool(re.match("[-+]?0[0-9]", text))


def _plain_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text))


def _separates(text: str) -> bool:
    """Whether what stands between two parts of a form ends the digits of the first, and is no other digit."""
    return bool(text) and not re.search("[0-9%]", text)


def _with_others(form: ColumnFormat, texts: pa.Array, made: pa.Array, others: pa.Array) -> pa.Array:
    """A column with the texts that were not made at once, one by one."""
    if not pc.any(others).as_py():
        return made
    rest = pc.if_else(others, texts, pa.scalar(None, pa.string()))
    return pc.coalesce(made, ColumnFormat.plain_column(form, rest))


@cache
def _format_of(text: str) -> ColumnFormat:
    return column_format(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
