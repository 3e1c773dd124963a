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


def columns_of_members(texts: Sequence[bytes], names: Sequence[str]) -> dict[str, pa.Array]:
    """The members of these names of objects, null where one is null or not there.

    >>> columns_of_members([b'{"a":1.50}', b'{"a":null,"b":2}'], ["a"])["a"].to_pylist()
    [b'1.50', None]
    """
    rows = [*map(members_by(names), texts)]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: pa.array(map(_not_null, column), pa.binary()) for name, column in zip(names, columns, strict=True)}


def _not_null(member: msgspec.Raw) -> bytes | None:
    text = bytes(member)
    return None if text == _NULL else text


def members_by(names: Sequence[str]) -> Callable[[bytes], Sequence[msgspec.Raw]]:
    """Gives the members of these names of an object, null for one that it does not have.

    >>> list(map(bytes, members_by(["a", "b"])(b'{"c":1,"a":1.50}')))
    [b'1.50', b'null']
    """
    if not are_plain(names):
        return lambda text: [members_of(text).get(name, NULL) for name in names]
    decode, as_tuple = decoder(tuple(names)), msgspec.structs.astuple
    return lambda text: as_tuple(decode(text))


def other_member(texts: Sequence[bytes], names: Sequence[str]) -> str | None:
    """The name of a member of objects that is none of these, if there is one.

    >>> other_member([b'{"a":1}', b'{"b":2}'], ["a"])
    'b'
    """
    if are_plain(names):
        decode = decoder(tuple(names), no_others=True)
        try:
            for text in texts:
                decode(text)
        except msgspec.ValidationError:
            pass
        else:
            return None
    return next((name for text in texts for name in members_of(text) if name not in names), None)


def are_plain(names: Sequence[str]) -> bool:
    """Whether a :func:`decoder` takes names."""
    return all(map(_PLAIN.fullmatch, names))


@cache
def cut_members(names: tuple[str, ...], dropped: tuple[str, ...]) -> Callable[[bytes], bytes]:
    """Gives the text of an object without the members ``dropped``, the others in the order of ``names``. Raises
    ``msgspec.ValidationError`` for an object with other members.

    >>> cut_members(("id", "n"), ("op",))(b'{"n": 1.50, "op": "u", "id": 7}')
    b'{"id":7,"n":1.50}'
    """
    attributes = {f"m{n}": name for n, name in enumerate([*names, *dropped])}
    fields = [(attribute, msgspec.Raw, NULL) for attribute in attributes]
    # a member that is not there is the default, which is left out, and not a null
    made = msgspec.defstruct("_Cut", fields, rename=attributes, forbid_unknown_fields=True, omit_defaults=True, gc=False)
    decode, left_out = msgspec.json.Decoder(made).decode, [*attributes][len(names) :]

    def cut(text: bytes) -> bytes:
        members = decode(text)
        for attribute in left_out:
            setattr(members, attribute, NULL)
        return object_of_members(members)

    return cut


@cache
def decoder(names: tuple[str, ...], no_others: bool = False) -> Callable[[bytes], Any]:
    """A decoder of objects into a ``msgspec.Struct`` of these members, several times as fast as into a dict."""
    attributes = {f"m{n}": name for n, name in enumerate(names)}
    fields = [(attribute, msgspec.Raw, NULL) for attribute in attributes]
    return msgspec.json.Decoder(msgspec.defstruct("_Members", fields, rename=attributes, forbid_unknown_fields=no_others)).decode
