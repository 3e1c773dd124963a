"""Finds the deletes behind which another row stays at their key.

Where a database checks a key at the end (``DEFERRABLE``) or behind each statement, a row may come to a key before the
row that was there leaves it. A delete takes away the row that it names, not whatever is at its key by then.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.columns import Ints, factorize
from beam_joins.sorting import combine_chunks, integers, record_order, starts, valid
from beam_joins.unchanged import UNCHANGED

ARRIVES: Final = "arrives"
"""The column that says whether a row comes to its key, by an insert or an update that has changed the key: true, or
the text of a :class:`Life`.
"""
_COMES, _AGAIN, _COMMAS = "i", "a", 3


class Life(NamedTuple):
    """What a change record tells of its row, from the log's old and new row images.

    ``arrives``: the row was inserted at this key, or moved to it. ``before`` and ``after``: hashes of the row
    before and after the change; empty where the log does not have the whole row. ``transaction``: the name of the
    transaction; empty where all changes of a transaction have the same position. ``again``: the log may contain
    the same change twice, at different places.

    >>> Life(True, after="1f").text(), Life.of("i,,1f,").after, Life.of(None).arrives, Life.of(True).arrives
    ('i,,1f,', '1f', False, True)
    """

    arrives: bool = False
    before: str = ""
    after: str = ""
    transaction: str = ""
    again: bool = False

    def text(self) -> str | None:
        """The fields encoded as one text; ``None`` where all have their defaults."""
        comes = (_COMES if self.arrives else "") + (_AGAIN if self.arrives and self.again else "")
        return f"{comes},{self.before},{self.after},{self.transaction}" if any(self[:-1]) else None

    @staticmethod
    def is_text(text: str) -> bool:
        """Whether a text is such an encoding; an empty text stands for the defaults."""
        return not text or text.count(",") == _COMMAS

    @classmethod
    def of(cls, text: Any) -> "Life":
        """Decodes a text, or makes one of a bool, which is ``arrives``."""
        if not isinstance(text, str) or not text:
            return cls(bool(text))
        comes, before, after, transaction = text.split(",", _COMMAS)
        return cls(comes.startswith(_COMES), before, after, transaction, comes.endswith(_AGAIN))


def settled(remembered: list[pa.Table], new: pa.Table) -> pa.Table:
    """The new rows, in which a delete behind which another row stays at its key is replaced by that row."""
    if ARRIVES not in new.column_names:
        return new
    rows = pa.concat_tables([*remembered, new], promote_options="default")
    left = rows_left(rows)
    if (left < 0).all():
        return new
    index = np.where(left < 0, np.arange(len(rows)), left)[len(rows) - len(new) :]
    for name in {"value", UNCHANGED, ARRIVES} & {*new.column_names}:
        new = new.set_column(new.schema.get_field_index(name), name, combine_chunks(rows[name]).take(pa.array(index)))
    return new


def of_open_transaction(rows: pa.Table, frontier: int | None) -> pa.Table:
    """The rows to remember; keeps ``arrives`` only where later rows may belong to the same transaction: at the last
    position, and where the transaction has a name.
    """
    if ARRIVES not in rows.column_names:
        return rows
    at, lives = rows.schema.get_field_index(ARRIVES), combine_chunks(rows[ARRIVES])
    if not pa.types.is_string(lives.type):
        return rows.drop_columns([ARRIVES])
    is_open = pc.or_(pc.equal(combine_chunks(rows["position"]), frontier), pc.match_substring_regex(lives, "[^,]$").fill_null(False))
    return rows.set_column(at, ARRIVES, pc.if_else(is_open, lives, pa.scalar(None, pa.string())))


def rows_left(rows: pa.Table) -> Ints:
    """For each delete behind which a row stays at its key, within the transaction of that row's arrival, the index of
    that row; -1 for all others.

    A key has no row or one before a transaction, one more with each row that arrives, and one less with each
    delete. Where the records have hashes, a delete or an update applies to the row whose hash is its ``before``; else
    a delete applies to the first of the rows, and an update to the last. Of rows with one ``within`` the last one counts.

    >>> rows = pa.table({
    ...     "key": [2, 2, 2], "value": ["Ben", "Ada", None], "position": [1, 5, 5], "within": [b"", b"a", b"b"],
    ...     "timestamp": [0, 0, 0], "arrives": [True, True, False],
    ... })
    >>> rows_left(rows).tolist(), rows_left(rows.slice(1)).tolist()
    ([-1, -1, 1], [-1, -1])
    >>> lives = [Life(True, after="Ada").text(), Life(before="Ben").text()]
    >>> rows_left(rows.slice(1).set_column(5, "arrives", [lives])).tolist()
    [-1, 0]
    """
    left = np.full(len(rows), -1)
    code, at = _of_keys_in_question(rows)
    if not len(at):
        return left
    some = rows.take(pa.array(at))
    by = record_order(some, code)
    place, present = integers(some["position"])[by], valid(combine_chunks(some["value"]))[by]
    lives = [Life.of(text) for text in some[ARRIVES].take(pa.array(by)).to_pylist()]
    within = some["within"].to_pylist() if "within" in some.column_names else [None] * len(some)
    first, transaction, rows_there = starts(code[by]), None, _Rows()
    for n, row in enumerate(by.tolist()):
        if first[n]:
            rows_there = _Rows()
        elif (lives[n].transaction or place[n]) != transaction:
            rows_there.commit()
        transaction = lives[n].transaction or place[n]
        goes_on = n + 1 < len(by) and not first[n + 1] and place[n + 1] == place[n]
        if goes_on and within[by[n + 1]] == within[row]:
            continue  # the same change again, or one that nothing orders
        if present[n]:
            rows_there.write(int(at[row]), lives[n])
        else:
            left[at[row]] = rows_there.delete(lives[n])
    return left


class _Row(NamedTuple):
    """A row at a key: the index of its record, and the hash of its content; empty where an earlier transaction has
    written it.
    """

    record: int
    content: str = ""


class _Rows:
    """The rows at a key within a transaction, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def commit(self) -> None:
        """End the transaction: one row is left at most."""
        self._rows = [_Row(row.record) for row in self._rows[-1:]]

    def write(self, record: int, life: Life) -> None:
        """A row comes, for the first time or again, or another one takes the place of the row that it was before."""
        row = _Row(record, life.after)
        if life.again and (again := [n for n, each in enumerate(self._rows) if each.content == life.after]):
            self._rows[again[0]] = row
        elif life.arrives or not self._rows:
            self._rows.append(row)
        elif (at := self._named(life.before, otherwise=-1)) is None:
            self._rows.insert(0, row)
        else:
            self._rows[at] = row

    def delete(self, life: Life) -> int:
        """A row leaves; gives the index of the one that stays, or -1."""
        if self._rows and (at := self._named(life.before, otherwise=0)) is not None:
            del self._rows[at]
        return self._rows[-1].record if self._rows else -1

    def _named(self, content: str, *, otherwise: int) -> int | None:
        """The index of the row with this hash; ``None`` for a row that the log does not have; ``otherwise`` without hashes."""
        if not content or not any(row.content for row in self._rows):
            return otherwise
        alike = [n for n, row in enumerate(self._rows) if row.content == content]
        others = [n for n, row in enumerate(self._rows) if not row.content]
        return next(iter(alike + others), None)


def _of_keys_in_question(rows: pa.Table) -> tuple[Ints, Ints]:
    """The rows of keys with an arrival and a delete in one transaction: codes of their keys, and their indices."""
    nothing = np.zeros(0, np.int64)
    lives = combine_chunks(rows[ARRIVES])
    if pa.types.is_string(lives.type):
        lives = pc.starts_with(lives, _COMES)
    arrives = lives.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    deleted, transaction = ~valid(combine_chunks(rows["value"])), _transactions(rows)
    shared = np.isin(transaction, np.intersect1d(transaction[arrives], transaction[deleted]))
    if not shared.any():
        return nothing, nothing
    (code,) = factorize(combine_chunks(rows["key"]))
    arrived, gone = ({*zip(code[which], transaction[which], strict=True)} for which in (arrives & shared, deleted & shared))
    at = np.flatnonzero(np.isin(code, [key for key, _ in arrived & gone]))
    return code[at], at


def _transactions(rows: pa.Table) -> Ints:
    """A number for each row that those of one transaction share."""
    position, lives = integers(rows["position"]), combine_chunks(rows[ARRIVES])
    if not pa.types.is_string(lives.type):
        return position
    named = pc.struct_field(pc.extract_regex(lives, "^[^,]*,[^,]*,[^,]*,(?P<name>.+)$"), "name")
    if named.null_count == len(named):
        return position
    (code,) = factorize(pc.coalesce(pc.binary_join_element_wise("t", named, ""), pa.array(position).cast(pa.string())))
    return code
