"""Finds the deletes behind which another row stays at their key.

Where a database checks a key at the end (``DEFERRABLE``) or behind each statement, a row may come to a key before the
row that was there leaves it. A delete takes away the row that it names, not a row that has its key by then.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, ends, integers, record_order, starts, valid
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.tables.arrangement import ORDER
from beam_joins.tables.truncates import Place
from beam_joins.tables.unchanged import UNCHANGED
from beam_joins.tables.versions import FOREVER

ARRIVES: Final = "arrives"
"""The column that says whether a row comes to its key, by an insert or an update that has changed the key: true, or
the text of a :class:`Life`.
"""
_COMES, _AGAIN, _ALONE, _COMMAS = "i", "a", "n", 3
_RANK_BYTES: Final = 4


class Life(NamedTuple):
    """The facts in a change record about its row, from the log's old and new row images.

    ``arrives``: the row was inserted at this key, or moved to it. ``before`` and ``after``: hashes of the row
    before and after the change; empty where the log does not have the whole row. ``transaction``: the name of the
    transaction; empty where all changes of a transaction have the same position. ``again``: the log may contain
    the same change twice, at different places. ``alone``: the log may lack earlier changes, as a compacted topic does,
    so that a row of an earlier transaction is no more at the key to which this one comes.

    >>> Life(True, after="1f").text(), Life.of("i,,1f,").after, Life.of(None).arrives, Life.of(True).arrives
    ('i,,1f,', '1f', False, True)
    """

    arrives: bool = False
    before: str = ""
    after: str = ""
    transaction: str = ""
    again: bool = False
    alone: bool = False

    def text(self) -> str | None:
        """The fields encoded as one text; ``None`` where all have their defaults."""
        comes = _COMES + _ALONE * self.alone + _AGAIN * self.again if self.arrives else ""
        return f"{comes},{self.before},{self.after},{self.transaction}" if any(self[:-2]) else None

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
        return cls(comes.startswith(_COMES), before, after, transaction, _AGAIN in comes, _ALONE in comes)


def settled(
    remembered: Sequence[pa.Table],
    new: pa.Table,
    truncates: Sequence[Place] = (),
    several: pa.Table | None = None,
    frontier: int | None = None,
) -> tuple[pa.Table, pa.Table | None]:
    """Replaces a delete behind which another row stays at its key by that row.

    ``remembered`` are the last records of the steps before, up to the position ``frontier``, and ``several`` the
    rows of keys that had several there, as their transaction was not whole; such rows at the end of a step are given too. No row
    stays behind one of the ``truncates``.
    """
    if ARRIVES not in new.column_names:
        return new, None
    known = [*remembered, *([] if several is None else [_unranked(several)])]
    rows = pa.concat_tables([*known, new], promote_options="default")
    first = len(rows) - len(new)
    left, keys = rows_left(rows, truncates, first=first, begun=0 if several is None else len(several), frontier=frontier)
    if (left >= 0).any():
        index = np.where(left < 0, np.arange(len(rows)), left)[first:]
        for name in {"value", UNCHANGED, ARRIVES} & {*new.column_names}:
            new = new.set_column(new.schema.get_field_index(name), name, combine_chunks(rows[name]).take(pa.array(index)))
    return new, _several(rows, keys) if keys and ORDER in rows.column_names else None


def _several(rows: pa.Table, keys: Sequence["_Rows"]) -> pa.Table:
    """The rows of keys, in their order, as if all had arrived in the transaction that is not whole, and those that others have
    replaced, as if they had come ``alone``.
    """
    there = [(n, row, each) for each in keys for n, row in enumerate([*each.rows, *each.replaced])]
    taken = rows.select(["key", "value", "timestamp", ORDER]).take(pa.array([row.record for _, row, _ in there], pa.int64()))
    rank = pa.array([n.to_bytes(_RANK_BYTES, "big") for n, _, _ in there], pa.binary())
    lives = [Life(True, after=row.content, transaction=each.name, alone=n >= len(each.rows)).text() for n, row, each in there]
    ranked = pc.binary_join_element_wise(combine_chunks(taken[ORDER]), rank, pa.scalar(b""))
    taken = taken.set_column(3, ORDER, ranked).append_column(ARRIVES, pa.array(lives, pa.string()))
    return taken.append_column("position", pa.array([each.position for _, _, each in there], pa.int64()))


def _unranked(several: pa.Table) -> pa.Table:
    order = pc.binary_slice(combine_chunks(several[ORDER]), 0, -_RANK_BYTES)
    return several.set_column(several.schema.get_field_index(ORDER), ORDER, order)


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


def rows_left(
    rows: pa.Table, truncates: Sequence[Place] = (), *, first: int = 0, begun: int = 0, frontier: int | None = None
) -> tuple[Ints, list["_Rows"]]:
    """For each delete behind which a row stays at its key, within the transaction of that row's arrival, the index of
    that row; -1 for all others. And the rows of the keys that have several at the end, or one that has replaced another.

    A key has no row or one before a transaction, one more with each row that arrives, and one less with each
    delete; none behind a truncate. Where the records have hashes, a delete or an update applies to the row whose hash
    is its ``before``; else a delete applies to the first of the rows, and an update to the last. A row that comes
    ``alone`` replaces the row of an earlier transaction. Of rows with one
    ``within`` the last one counts. New rows begin at ``first``; as many as ``begun`` before them are of keys that had
    several at the ``frontier``.

    >>> rows = pa.table({
    ...     "key": [2, 2, 2], "value": ["Ben", "Ada", None], "position": [1, 5, 5], "within": [b"", b"a", b"b"],
    ...     "timestamp": [0, 0, 0], "arrives": [True, True, False],
    ... })
    >>> [rows_left(some)[0].tolist() for some in (rows, rows.slice(1))], rows_left(rows, [(5, b"b")])[0].tolist()
    ([[-1, -1, 1], [-1, -1]], [-1, -1, -1])
    >>> lives = [Life(True, after="Ada").text(), Life(before="Ben").text()]
    >>> rows_left(rows.slice(1).set_column(5, "arrives", [lives]))[0].tolist()
    [-1, 0]
    """
    left, last = np.full(len(rows), -1), pc.max(rows["position"]).as_py()
    code, at = _of_keys_in_question(rows, first, begun, frontier)
    if not len(at):
        return left, []
    is_begun = (at >= first - begun) & (at < first)
    of_key, at, code = _begun(rows, at[is_begun], code[is_begun]), at[~is_begun], code[~is_begun]
    some = rows.take(pa.array(at))
    by = record_order(some, code)
    at, code, some = at[by], code[by], some.take(pa.array(by))
    present, lives = valid(combine_chunks(some["value"])), [Life.of(text) for text in some[ARRIVES].to_pylist()]
    within = combine_chunks(some["within"]).fill_null(b"").to_pylist() if "within" in some.column_names else [b""] * len(some)
    places: list[Place] = list(zip(some["position"].to_pylist(), within, strict=True))
    codes, ending, values = code.tolist(), ends(code), combine_chunks(rows["value"])
    for n, record in enumerate(at.tolist()):
        rows_there = of_key.setdefault(codes[n], _Rows())
        if record < first:  # of what was there all is known up to the place of the remembered record
            rows_there.begin(record if present[n] else None, places[n], lives[n])
    for n, record in enumerate(at.tolist()):
        rows_there = of_key[codes[n]]
        # the last one of the same place counts: the same change again, or changes that nothing orders
        is_last = record >= first and (ending[n] or places[n + 1] != places[n])
        if is_last and rows_there.goes_on(places[n], lives[n].transaction, truncates):
            if present[n]:
                rows_there.write(record, lives[n])
            else:
                left[record] = rows_there.delete(lives[n], values)
    return left, [each for each in of_key.values() if each.are_several(last, truncates)]


def _begun(rows: pa.Table, at: Ints, code: Ints) -> dict[int, "_Rows"]:
    """The rows of keys that had several in a transaction that was not whole."""
    some, of_key = rows.select(["position", ARRIVES]).take(pa.array(at)).to_pylist(), dict[int, _Rows]()
    for record, key, row in zip(at.tolist(), code.tolist(), some, strict=True):
        life, there = Life.of(row[ARRIVES]), of_key.setdefault(key, _Rows())
        there.position, there.name = row["position"], life.transaction
        (there.replaced if life.alone else there.rows).append(_Row(record, life.after))
    return of_key


class _Row(NamedTuple):
    """A row at a key: the index of its record, and the hash of its content; empty where an earlier transaction has
    written it.
    """

    record: int
    content: str = ""


class _Rows:
    """The rows at a key within a transaction, in the order in which they came; all of them up to the place ``until``."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.replaced: list[_Row] = []
        """The rows of earlier transactions in whose place others have come ``alone``."""
        self.position: int | None = None
        self.name = ""
        self.until: Place | None = None

    def begin(self, record: int | None, place: Place, life: Life) -> None:
        """Begin behind a remembered record, where the rows are not known otherwise."""
        if record is not None and not self.rows:
            self.rows, self.position, self.name = [_Row(record, life.after)], place[0], life.transaction
        self.until = place

    def goes_on(self, place: Place, transaction: str, truncates: Sequence[Place]) -> bool:
        """Whether a change is behind the last one; if so, ends its transaction if it is of another, at whose end one
        row is left at most, and forgets the rows where a truncate is between them.
        """
        if self.until is not None and place <= self.until:
            return False
        if (self.name or self.position) != (transaction or place[0]):
            self.rows, self.replaced = [_Row(row.record) for row in self.rows[-1:]], []
        if bisect_right(truncates, place) > self._truncates_passed(truncates):
            self.rows, self.replaced = [], []
        self.position, self.name, self.until = place[0], transaction, place
        return True

    def are_several(self, last: int, truncates: Sequence[Place]) -> bool:
        """Whether several rows exist at the end of a step whose ``last`` position this is, behind the last change and all truncates,
        or rows that others have replaced in a transaction that may go on.
        """
        are_replaced = bool(self.replaced and (self.name or self.position == last))
        return (len(self.rows) > 1 or are_replaced) and self._truncates_passed(truncates) == len(truncates)

    def _truncates_passed(self, truncates: Sequence[Place]) -> int:
        return 0 if self.until is None else bisect_right(truncates, self.until)

    def write(self, record: int, life: Life) -> None:
        """A row comes, for the first time or again, or another one takes the place of the row that it was before."""
        row = _Row(record, life.after)
        if life.alone:
            self.replaced += [each for each in self.rows if not each.content]
            self.rows = [each for each in self.rows if each.content]
        if life.again and (again := [n for n, each in enumerate(self.rows) if each.content == life.after]):
            self.rows[again[0]] = row
        elif life.arrives or not self.rows:
            self.rows.append(row)
        elif (at := self._named(life.before, otherwise=-1)) is None:
            self.rows.insert(0, row)
        else:
            self.rows[at] = row

    def delete(self, life: Life, values: pa.Array) -> int:
        """A row leaves; gives the index of the row that stays, or -1. Of two equal rows that trade keys the one that came stays."""
        if self.rows and (at := self._named(life.before, otherwise=0)) is not None:
            value = values[self.rows[at].record]
            equal = [n for n, each in enumerate(self.replaced) if life.before and values[each.record].equals(value)]
            if equal:
                del self.replaced[equal[0]]
            else:
                del self.rows[at]
        return self.rows[-1].record if self.rows else -1

    def _named(self, content: str, *, otherwise: int) -> int | None:
        """The index of the row with this hash; ``None`` for a row that the log does not have; ``otherwise`` without hashes."""
        if not content or not any(row.content for row in self.rows):
            return otherwise
        alike = [n for n, row in enumerate(self.rows) if row.content == content]
        others = [n for n, row in enumerate(self.rows) if not row.content]
        return next(iter(alike + others), None)


def _of_keys_in_question(rows: pa.Table, first: int, begun: int, frontier: int | None) -> tuple[Ints, Ints]:
    """The rows of keys with an arrival and a delete in one transaction, or that may have several rows at the end:
    codes of their keys, and their indices.
    """
    lives = combine_chunks(rows[ARRIVES])
    if pa.types.is_string(lives.type):
        lives = pc.starts_with(lives, _COMES)
    arrives = lives.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    present, (transaction, is_named) = valid(combine_chunks(rows["value"])), _transactions(rows)
    shared = np.isin(transaction, np.intersect1d(transaction[arrives], transaction[~present]))
    is_open = np.zeros(len(rows), np.bool_)
    if ORDER in rows.column_names and pa.types.is_string(rows[ARRIVES].type):  # a step, behind which others come
        position = integers(rows["position"])[first:]
        is_late = position <= (-FOREVER if frontier is None else frontier)
        is_open[first:] = arrives[first:] & (is_late | (position == position.max(initial=-FOREVER)) | is_named[first:])
    if not (shared.any() or is_open.any() or begun):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    (code,) = factorize(combine_chunks(rows["key"]))
    arrived, gone = ({*zip(code[which], transaction[which], strict=True)} for which in (arrives & shared, ~present & shared))
    keys = [*{key for key, _ in arrived & gone}, *code[first - begun : first].tolist(), *_occupied(rows, code, is_open, present)]
    at = np.flatnonzero(np.isin(code, keys))
    return code[at], at


def _occupied(rows: pa.Table, code: Ints, arrives: Bools, present: Bools) -> list[int]:
    """The keys to which a row comes behind a record of a row, which may still be there."""
    at = np.flatnonzero(np.isin(code, code[arrives & (np.bincount(code) > 1)[code]]))
    if not len(at):
        return []
    by = at[record_order(rows.take(pa.array(at)), code[at])]
    is_occupied = ~starts(code[by])
    is_occupied[1:] &= present[by[:-1]]
    return list(map(int, code[by[is_occupied & arrives[by]]]))


def _transactions(rows: pa.Table) -> tuple[Ints, Bools]:
    """A number for each row that those of one transaction share, and which have the name of one."""
    position, lives, no_name = integers(rows["position"]), combine_chunks(rows[ARRIVES]), np.zeros(len(rows), np.bool_)
    if not pa.types.is_string(lives.type):
        return position, no_name
    named = pc.struct_field(pc.extract_regex(lives, "^[^,]*,[^,]*,[^,]*,(?P<name>.+)$"), "name")
    if named.null_count == len(named):
        return position, no_name
    (code,) = factorize(pc.coalesce(pc.binary_join_element_wise("t", named, ""), pa.array(position).cast(pa.string())))
    return code, valid(named)
