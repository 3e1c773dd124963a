"""The columns and types of CSV files, as options and files name them."""

import re
from typing import Final, TypeAlias

Layout: TypeAlias = tuple[tuple[str, str], ...]
"""The names of columns, each with the name of its type."""

TYPES: Final = ("int64", "double", "decimal(P,S)", "bool", "string")
DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def is_type(name: str) -> bool:
    """Whether this is one of TYPES.

    >>> is_type("decimal(12,2)"), is_type("float")
    (True, False)
    """
    decimal = DECIMAL.fullmatch(name)
    return name in TYPES[:2] + TYPES[3:] or bool(decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]))
