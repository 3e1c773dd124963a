"""The columns and types of CSV files, as options and files name them."""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

Layout: TypeAlias = tuple[tuple[str, str], ...]
"""The names of columns, each with the name of its type."""

TYPES: Final = ("int64", "double", "decimal(P,S)", "bool", "string")
UNKNOWN: Final = "null"
"""The type of a column of which no value has been seen: text."""
DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def is_type(name: str) -> bool:
    """Whether this is one of TYPES.

    >>> is_type("decimal(12,2)"), is_type("float")
    (True, False)
    """
    decimal = DECIMAL.fullmatch(name)
    return name in TYPES[:2] + TYPES[3:] or bool(decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]))


def widest(layouts: Sequence[Layout]) -> dict[str, str]:
    """The types that hold what all layouts have in their columns: text, where these are no numbers together.

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
