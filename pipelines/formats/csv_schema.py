"""The columns and types of CSV files, as options and files name them."""

import codecs
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

Layout: TypeAlias = tuple[tuple[str, str], ...]
"""The names of columns, each with the name of its type."""

Formats: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Columns of text, and how each is written."""

TYPES: Final = ("int64", "double", "decimal(P,S)", "bool", "string")
UNKNOWN: Final = "null"
"""The type of a column without any value yet: text."""
DELIMITERS: Final = (",", ";", "\t", "|")
"""The characters that may stand between the fields of a CSV file."""
DELIMITER_NAMES: Final = (",", ";", "tab", "|")
"""The same as options name them."""
QUOTED: Final = re.compile(r'"(?:[^"]|"")+"')
_ITEM: Final = re.compile(rf"(?:\s*{QUOTED.pattern})?(?:\([^()]*\)|[^,])*")
DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


class Misfit(NamedTuple):
    """The only value that makes text of a column whose other values have a type: where it is first, and in how many records."""

    column: str
    kind: str
    text: str
    line: int
    records: int


class Reading(NamedTuple):
    """The formats that all texts of a column are in, one of them for an example; several, where these mean several things."""

    column: str
    text: str
    formats: tuple[str, ...]


class CsvText(NamedTuple):
    """How CSV files are written: delimiter and encoding, empty where they show it themselves, and the formats of columns."""

    delimiter: str = ""
    encoding: str = ""
    formats: Formats = ()


NOT_SAID: Final = CsvText()
"""CSV files show themselves how they are written."""


def written_name(name: str) -> str:
    """The name of a column as options take it, in double quotes where it would be read as others.

    >>> written_name("Order No"), written_name('net "EUR", all')
    ('Order No', '"net ""EUR"", all"')
    """
    is_plain = name == name.strip() and not name.startswith('"') and "," not in name and "=" not in name
    return name if is_plain else quoted(name)


def quoted(name: str) -> str:
    """A name in double quotes, as options take it whatever is in it.

    >>> quoted("Ship To")
    '"Ship To"'
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def unquoted(name: str) -> str:
    """The name of a column that an option may have in double quotes: the inverse of :func:`quoted`."""
    return name[1:-1].replace('""', '"') if QUOTED.fullmatch(name) else name


def items_of(listed: str) -> list[str]:
    """The items of a list with commas, of which those within brackets, and within double quotes at the begin of an item, count as
    text.

    >>> items_of('region, "net, EUR":decimal(12,2),,id')
    ['region', '"net, EUR":decimal(12,2)', 'id']
    """
    return list(filter(None, map(str.strip, _ITEM.findall(listed))))


def delimiter_of(name: str) -> str:
    r"""The delimiter that an option names. Raises ValueError, listing them.

    >>> delimiter_of("tab"), delimiter_of(";")
    ('\t', ';')
    """
    delimiter = "\t" if name in ("tab", "\\t") else name
    if delimiter not in DELIMITERS:
        raise ValueError(f"{name!r} is no delimiter of CSV: give one of {' '.join(DELIMITER_NAMES)}")
    return delimiter


def encoding_of(name: str) -> str:
    """The encoding that an option names, by its name in Python. Raises ValueError.

    >>> encoding_of("Latin-1"), encoding_of("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)  # which refuses codecs of bytes
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{name!r} is no encoding of text: give one such as utf-8, cp1252, latin-1 or utf-16") from None
    return "utf-8" if codec.name == "utf-8-sig" else codec.name


def is_type(name: str) -> bool:
    """Whether this is one of TYPES.

    >>> is_type("decimal(12,2)"), is_type("float")
    (True, False)
    """
    decimal = DECIMAL.fullmatch(name)
    return name in TYPES[:2] + TYPES[3:] or bool(decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]))


def widest(layouts: Sequence[Layout]) -> dict[str, str]:
    """The types that hold the values of all layouts' columns: text, where these are no numbers together.

    >>> widest([(("zip", "int64"), ("n", "int64"), ("x", "null")), (("zip", "string"), ("n", "double"), ("x", "bool"))])
    {'zip': 'string', 'n': 'double', 'x': 'bool'}
    """
    kinds: dict[str, set[str]] = {}
    for name, kind in (column for layout in layouts for column in layout):
        kinds.setdefault(name, set()).add(kind)
    return {name: _together(of_column - {UNKNOWN}) for name, of_column in kinds.items()}


def _together(kinds: set[str]) -> str:
    if not kinds:
        return UNKNOWN
    return next(iter(kinds)) if len(kinds) == 1 else "double" if kinds == {"int64", "double"} else "string"
