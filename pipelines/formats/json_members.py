"""Cuts the JSON texts of rows out of those of their records, member by member: values are copied as they are written."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.keys.key_columns import Bools
from beam_joins.pipelines.formats.reading import Reading

Members = dict[str, msgspec.Raw]
"""The members of an object as texts, by name."""
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]+')
NULL: Final = msgspec.Raw(b"null")
members_of: Final[Callable[[bytes], Members]] = msgspec.json.Decoder(Members).decode
"""Gives the members of the text of an object. Raises ``msgspec.MsgspecError`` for what is none, and ``RecursionError``."""
object_of_members: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
"""Gives the text of an object of members, which are a dict or a ``msgspec.Struct``."""


def row_text(record: bytes, reading: Reading) -> bytes:
    """The text of the row in that of a record.

    >>> from beam_joins.pipelines.formats.changelog_columns import Columns
    >>> columns = Columns(key=("id",), timestamp="at", delete="op")
    >>> row_text(b'{"id": 1, "op": "u", "n": 1.50}', Reading(columns=columns))
    b'{"id":1,"n":1.50}'
    >>> row_text(b'{"id": 1, "op": "u", "n": 1.50}', Reading(columns=columns, taken=(("n", "amount"), ("x", "x"))))
    b'{"amount":1.50,"x":null}'
    """
    return object_of_members(reading.value_of(members_of(record), NULL))


def row_texts(records: pa.Array, sure: Bools, reading: Reading) -> pa.Array:
    """The texts of rows in those of records, null where they are not ``sure``; a record that turns out to need a closer look is
    no longer sure.
    """
    if reading.taken is not None and reading.allowed is None:
        return _texts(records, sure, _taken(reading.taken))
    dropped, added, allowed = sorted(reading.columns.about_the_change()), reading.added, reading.allowed
    if reading.taken is None and not dropped and added is None:
        return records

    def text(record: bytes) -> bytes | None:
        members = members_of(record)
        if added in members or not (allowed is None or allowed.issuperset(members)):
            return None
        if reading.taken is not None:
            return object_of_members(reading.value_of(members, NULL))
        for name in dropped:
            members.pop(name, None)
        return object_of_members(members)

    return _texts(records, sure, text)


def _texts(records: pa.Array, sure: Bools, text: Callable[[bytes], bytes | None]) -> pa.Array:
    texts = list[bytes | None]()
    for n, record in enumerate(records.to_pylist()):
        made = None
        if sure[n]:
            try:
                made = text(record)
            except (msgspec.MsgspecError, RecursionError):
                made = None
            sure[n] = made is not None
        texts.append(made)
    return pa.array(texts, pa.binary())


def _taken(columns: Sequence[tuple[str, str]]) -> Callable[[bytes], bytes]:
    """Gives the text of an object of these columns of a record."""
    sources = tuple(dict.fromkeys(column for column, _ in columns))
    if all(column == name for column, name in columns) and len(columns) == len(sources) and _is_plain(sources):
        decode = _decoder(sources)
        return lambda record: object_of_members(decode(record))
    members = texts_of_members(sources)
    heads = [(msgspec.json.encode(name) + b":", sources.index(column)) for column, name in columns]

    def text(record: bytes) -> bytes:
        texts = members(record)
        return b"{" + b",".join([head + bytes(texts[n]) for head, n in heads]) + b"}"

    return text


def texts_of_members(names: Sequence[str], *, no_others: bool = False) -> Callable[[bytes], Sequence[msgspec.Raw]]:
    """Gives the members of these names of an object, null for one that it does not have. ``no_others``: raises ``LookupError``
    with the name of another member.

    >>> list(map(bytes, texts_of_members(["a", "b"])(b'{"c":1,"a":1.50}')))
    [b'1.50', b'null']
    """
    if not _is_plain(names):
        return lambda text: _of_dict(text, names, no_others=no_others)
    decode, count = _decoder(tuple(names), no_others), len(names)

    def members(text: bytes) -> Sequence[msgspec.Raw]:
        try:
            return msgspec.structs.astuple(decode(text))[:count]
        except msgspec.ValidationError:
            return _of_dict(text, names, no_others=no_others)

    return members


def _of_dict(text: bytes, names: Sequence[str], *, no_others: bool) -> Sequence[msgspec.Raw]:
    members = members_of(text)
    if no_others and (others := members.keys() - {*names}):
        raise LookupError(min(others))
    return [members.get(name, NULL) for name in names]


def _is_plain(names: Sequence[str]) -> bool:
    """Whether attributes of a ``msgspec.Struct`` can be called so in JSON."""
    return all(map(_PLAIN.fullmatch, names))


@cache
def _decoder(names: tuple[str, ...], no_others: bool = False) -> Callable[[bytes], Any]:
    """A decoder of objects with these members, several times as fast as that of a dict."""
    attributes = {f"m{n}": name for n, name in enumerate(names)}
    fields = [(attribute, msgspec.Raw, NULL) for attribute in attributes]
    of = msgspec.defstruct("_Members", fields, rename=attributes, forbid_unknown_fields=no_others)
    return msgspec.json.Decoder(of).decode
