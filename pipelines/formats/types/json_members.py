"""The members of JSON objects as texts: values are copied as they are written."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
import pyarrow as pa

Members = dict[str, msgspec.Raw]
"""The members of an object as texts, by name."""
NULL: Final = msgspec.Raw(b"null")
_NULL: Final = b"null"
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]+')
members_of: Final[Callable[[bytes], Members]] = msgspec.json.Decoder(Members).decode
"""Gives the members of the text of an object. Raises ``msgspec.MsgspecError`` for what is none, and ``RecursionError``."""
object_of_members: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
"""Gives the text of an object of members, which are a dict or a ``msgspec.Struct``."""


def columns_of_members(texts: Sequence[bytes], names: Sequence[str], *, no_others: bool = False) -> dict[str, pa.Array]:
    """The members of these names of objects, null where one is null or not there. ``no_others``: raises ``LookupError`` with the
    name of another member.

    >>> columns_of_members([b'{"a":1.50}', b'{"a":null,"b":2}'], ["a"])["a"].to_pylist()
    [b'1.50', None]
    """
    rows = [*map(members_by(names, no_others=no_others), texts)]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: pa.array(map(_not_null, column), pa.binary()) for name, column in zip(names, columns, strict=True)}


def _not_null(member: msgspec.Raw) -> bytes | None:
    text = bytes(member)
    return None if text == _NULL else text


def members_by(names: Sequence[str], *, no_others: bool = False) -> Callable[[bytes], Sequence[msgspec.Raw]]:
    """Gives the members of these names of an object, null for one that it does not have. ``no_others``: raises ``LookupError``
    with the name of another member.

    >>> list(map(bytes, members_by(["a", "b"])(b'{"c":1,"a":1.50}')))
    [b'1.50', b'null']
    """
    if not are_plain(names):
        return lambda text: _of_dict(text, names, no_others=no_others)
    decode = decoder(tuple(names), no_others)

    def members(text: bytes) -> Sequence[msgspec.Raw]:
        try:
            return msgspec.structs.astuple(decode(text))
        except msgspec.ValidationError:
            return _of_dict(text, names, no_others=no_others)

    return members


def _of_dict(text: bytes, names: Sequence[str], *, no_others: bool) -> Sequence[msgspec.Raw]:
    members = members_of(text)
    if no_others and (others := members.keys() - {*names}):
        raise LookupError(min(others))
    return [members.get(name, NULL) for name in names]


def are_plain(names: Sequence[str]) -> bool:
    """Whether a :func:`decoder` takes names."""
    return all(map(_PLAIN.fullmatch, names))


@cache
def decoder(names: tuple[str, ...], no_others: bool = False) -> Callable[[bytes], Any]:
    """A decoder of objects into a ``msgspec.Struct`` of these members, several times as fast as into a dict."""
    attributes = {f"m{n}": name for n, name in enumerate(names)}
    fields = [(attribute, msgspec.Raw, NULL) for attribute in attributes]
    return msgspec.json.Decoder(msgspec.defstruct("_Members", fields, rename=attributes, forbid_unknown_fields=no_others)).decode
