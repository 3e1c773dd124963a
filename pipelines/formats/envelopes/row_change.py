"""One change of one row, read from an envelope."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from beam_joins.pipelines.formats.types.exact_json import object_text

INSERT, UPSERT, DELETE, TRUNCATE = "i", "u", "d", "t"
"""An insert comes to its key, as does an update that has changed it; others are upserts."""
_LSN: Final = re.compile("([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_TABLES_SHOWN: Final = 10
_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
NO_ROW = b"{}"
"""The row of a truncate."""
WHOLE_ROWS: Final = "set the table's REPLICA IDENTITY to FULL"
"""The remedy for old rows that the log of PostgreSQL does not have whole."""


class RowChange(NamedTuple):
    """``row`` is the JSON text of the row, of a deleted one at least its key, and of a truncate none;
    ``time`` are microseconds since the epoch.

    ``position`` is the same for all changes of a transaction where the envelope tells transactions apart, and
    ``order`` says which comes later within it. Without an order (``None``) the later one in the file is the
    later one. ``key`` are the columns of the primary key, none where the envelope does not say. ``table`` is
    the full name. ``types`` are the columns of a whole row, where the envelope says them; changes that say
    the same share one schema. A ``partial`` row is that of an update that nothing shows to be whole. ``log``
    names what ``position`` is of, where that can change: numbers of two logs cannot be compared.
    ``unchanged`` are the columns that the row does not have, as they did not change. ``before`` and ``after``
    are the :func:`content` of the row as it was and is, empty where the log does not have it whole, and
    ``transaction`` names the transaction where those of one may have several positions. ``alone``: an insert
    shows that the row that was at its key is gone, though the log may not have its delete any more.
    """

    table: str
    operation: str
    row: bytes
    time: int
    position: int
    order: int | None = 0
    key: tuple[str, ...] = ()
    types: pa.Schema | None = None
    partial: bool = False
    log: str | None = None
    unchanged: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    transaction: str = ""
    alone: bool = False


class Envelope(Protocol):
    """Reads the changes of the lines or records of a file, in order, for one table or all; counts skipped
    events by kind in ``skipped``.
    """

    skipped: Counter[str]

    def changes(self, item: Any) -> Iterable[RowChange | str]:
        """The changes of a line, a sentence for a line that cannot be used, nothing for an event that is about
        no row; raises ValueError for a line of another format.
        """


def content(row: bytes) -> str:
    """A hash of a row's JSON text. It has letters only: digits could look like a number near the limits of a double,
    and such lines are parsed and printed anew.

    >>> content(b'{"id":1}').isalpha(), content(b'{"id":1}') == content(b'{"id":2}')
    (True, False)
    """
    return xxh3_64_hexdigest(row)[-8:].translate(_LETTERS)


def lists_of_names(texts: pa.Array, wanted: Callable[[str], bool] = bool) -> pa.Array:
    """Parses JSON lists of names and drops names that are not ``wanted``; null where none is left.

    >>> lists_of_names(pa.array(['["bio","name"]', None]), {"bio"}.__contains__).to_pylist()
    [['bio'], None]
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.list_(pa.string()))
    encoded = texts.dictionary_encode()
    names = [[name for name in msgspec.json.decode(text) if wanted(name)] or None for text in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.list_(pa.string())).take(encoded.indices)


def full_name(schema: str | None, table: str | None) -> str:
    """The name of a table with that of its schema or database, where it has one."""
    return ".".join(filter(None, (schema, table)))


def is_meant(wanted: str, schema: str | None, table: str | None) -> bool:
    """Whether a table is the requested one, by its full name or its last parts, or by a pattern of one of
    these; every table is if none is named.

    >>> is_meant("orders", "public", "orders"), is_meant("shop.orders", "public", "orders"), is_meant("", None, "orders")
    (True, False, True)
    >>> is_meant("public.orders_*", "public", "orders_2026_02"), is_meant("orders_*", "public", "customers")
    (True, False)
    """
    names = (table or "", full_name((schema or "").rpartition(".")[2], table), full_name(schema, table))
    return not wanted or wanted in names or (is_pattern(wanted) and any(fnmatchcase(name, wanted) for name in names if name))


def is_pattern(table: str) -> bool:
    """Whether the name of a table is a pattern, which may mean several: the partitions of one."""
    return any(character in table for character in "*?[")


def require_one_table(wanted: str, tables: Collection[str]) -> None:
    """Raise ValueError for rows of several tables, unless a pattern asks for them.

    >>> require_one_table("", {"public.orders", "public.customers"})
    Traceback (most recent call last):
    ValueError: has rows of public.customers and public.orders: name one as the table, or several by a pattern such as '*'
    """
    if len(tables) > 1 and not is_pattern(wanted):
        names = " and ".join(sorted(tables)[:_TABLES_SHOWN])
        raise ValueError(f"has rows of {names}: name one as the table, or several by a pattern such as '*'")


def lsn(text: str) -> int:
    """The number of a PostgreSQL log sequence number. Raises ValueError for other text.

    >>> lsn("16/B374D848")
    97500059720
    """
    match = _LSN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no log sequence number of PostgreSQL, such as 16/B374D848")
    return (int(match[1], 16) << 32) + int(match[2], 16)


def lsn_text(place: int) -> str:
    """As PostgreSQL writes it.

    >>> lsn_text(97500059720)
    '16/B374D848'
    """
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def in_binary_log(position: str | None, offset: int) -> int:
    """The number of a place in MySQL's binary log, of the file's name and the offset in it.

    >>> in_binary_log("mysql-bin.000003", 154) == (3 << 40) + 154
    True
    """
    _, _, number = (position or "").rpartition(".")
    return ((int(number) if number.isdigit() else 0) << 40) + offset


def require_whole(unchanged: Iterable[str], remedy: str) -> None:
    """Raise ValueError for a row that leaves out columns and has come from another key.

    >>> require_whole(["bio"], "log whole rows")
    Traceback (most recent call last):
    ValueError: an update that gives the row another key and leaves out bio, which only the old key's row has: log whole rows
    """
    if names := ", ".join(unchanged):
        sentence = f"an update that gives the row another key and leaves out {names}, which only the old key's row has"
        raise ValueError(f"{sentence}: {remedy}")


def key_left(old: bytes | None, new: bytes, key: tuple[str, ...]) -> bytes | None:
    """The key that a row has left for another one, as a JSON object; ``old`` has some columns as they were
    before, or is None.

    >>> key_left(b'{"id":1}', b'{"shop":7,"id":2}', ("shop", "id"))
    b'{"shop":7,"id":1}'
    """
    if old is None or not key:
        return None
    before, after = (msgspec.json.decode(text, type=dict[str, msgspec.Raw]) for text in (old, new))
    if all(bytes(before.get(name, after[name])) == bytes(after[name]) for name in key if name in after):
        return None
    return object_text(key, (before.get(name, after.get(name, msgspec.Raw(b"null"))) for name in key))
