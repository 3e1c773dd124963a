"""Cuts the JSON texts of rows out of those of their records, member by member: values are copied as they are written, in the
order of the columns.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from beam_joins.keys.key_columns import Bools
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.types.json_members import (
    NULL,
    are_plain,
    cut_members,
    decoder,
    members_by,
    members_of,
    object_of_members,
)

_MISSES: Final = 100
"""The number of records with other members in a batch from which on each record is read as one that may have some."""


def row_text(record: bytes, plan: ReadPlan) -> bytes:
    """The text of the row in that of a record.

    >>> from beam_joins.pipelines.formats.changelog_columns import Columns
    >>> columns = Columns(key=("id",), timestamp="at", delete="op")
    >>> row_text(b'{"id": 1, "op": "u", "n": 1.50}', ReadPlan(columns=columns))
    b'{"id":1,"n":1.50}'
    >>> row_text(b'{"id": 1, "op": "u", "n": 1.50}', ReadPlan(columns=columns, taken=(("n", "amount"), ("x", "x"))))
    b'{"amount":1.50,"x":null}'
    """
    return object_of_members(plan.value_of(members_of(record), NULL))


def row_texts(records: pa.Array, sure: Bools, plan: ReadPlan) -> pa.Array:
    """The texts of rows in those of records, null where they are not ``sure``; a record that turns out to need a closer look is
    no longer sure.
    """
    dropped, added, allowed = sorted({*plan.columns.about_the_change()}), plan.added, plan.allowed
    if plan.taken is not None and added is None:
        taken, known = _taken(plan.taken), _known(allowed)  # two decoders of structs take half as long as one and a join
        return _texts(records, sure, lambda record: taken(record) if known(record) else None)
    if plan.taken is None and not dropped and added is None:
        return records

    def text(record: bytes) -> bytes | None:
        members = members_of(record)
        if added in members or not (allowed is None or allowed.issuperset(members)):
            return None
        return object_of_members(plan.value_of(members, NULL))

    columns = tuple(name for name in plan.members if name not in dropped and (allowed is None or name in allowed))
    if plan.taken is None and columns and are_plain([*columns, *dropped]):
        return _texts(records, sure, text, cut_members(columns, tuple(dropped)))
    return _texts(records, sure, text)


def _texts(
    records: pa.Array, sure: Bools, text: Callable[[bytes], bytes | None], cut: Callable[[bytes], bytes] | None = None
) -> pa.Array:
    """The texts of rows, null where ``text`` gives none. ``cut`` gives them in half of the time for records whose members are those
    of most, and raises ``msgspec.ValidationError`` for others.
    """
    texts, misses = list[bytes | None](), 0
    for n, (record, is_sure) in enumerate(zip(records.to_pylist(), sure.tolist(), strict=True)):
        made = None
        if is_sure:
            try:
                made = text(record) if cut is None else cut(record)
            except (msgspec.MsgspecError, RecursionError):
                made, misses = None if cut is None else _closer(text, record), misses + 1
                if misses > _MISSES:
                    cut = None
            if made is None:
                sure[n] = False
        texts.append(made)
    return pa.array(texts, pa.binary())


def _closer(text: Callable[[bytes], bytes | None], record: bytes) -> bytes | None:
    try:
        return text(record)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _taken(columns: Sequence[tuple[str, str]]) -> Callable[[bytes], bytes]:
    """Gives the text of an object of these columns of a record."""
    sources = tuple(dict.fromkeys(column for column, _ in columns))
    if all(column == name for column, name in columns) and len(columns) == len(sources) and are_plain(sources):
        decode = decoder(sources)
        return lambda record: object_of_members(decode(record))
    members = members_by(sources)
    heads = [(msgspec.json.encode(name) + b":", sources.index(column)) for column, name in columns]

    def text(record: bytes) -> bytes:
        texts = members(record)
        return b"{" + b",".join([head + bytes(texts[n]) for head, n in heads]) + b"}"

    return text


def _known(allowed: frozenset[str] | None) -> Callable[[bytes], bool]:
    """Tells whether a record has no column beside those allowed (``None``: any)."""
    if allowed is None:
        return lambda record: True
    if not are_plain(sorted(allowed)):
        return lambda record: allowed.issuperset(members_of(record))
    decode = decoder(tuple(sorted(allowed)), no_others=True)

    def known(record: bytes) -> bool:
        decode(record)  # which raises for another one
        return True

    return known
