"""``ChangeBatch``: many changes of a table in Arrow columns; a table is a collection of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.positions import times_or_null
from beam_joins.columns.sorting import integers
from beam_joins.elements.change import Change
from beam_joins.functions.marked_functions import require_columns
from beam_joins.keys.key_columns import factorize
from beam_joins.keys.opaque import each_in_python, python_keys
from beam_joins.tables.batch_text import SHOWN_ROWS, batch_text

_NO_ROW = ": a table has batches of changes; TableToRows() gives its rows, TableToChanges() its changes one by one"


class ChangeBatch:
    """Many changes of a table as Arrow arrays of one length.

    * ``key``, and ``new``, the value after the change: null for a delete. Both are typed columns, or opaque
      ones: encoded Python objects (:mod:`beam_joins.keys.opaque`).
    * ``timestamp``, int64, the event time in microseconds; ``position``, int64.
    * ``before``: where the row's old value is, an int64 index; null for an insert. An index below
      ``len(batch)`` is one of ``new``, a larger one of ``earlier``, the old values that no change of this
      batch gave. So :attr:`old` is computed only when it is read.

    A row has one change at a position. Its changes may be in several batches.

    Iterating over a batch gives its changes one by one, as :class:`~beam_joins.Change`, each with values of
    its own.

    >>> batch = ChangeBatch(
    ...     key=pa.array(["k", "k"]), new=pa.array([{"a": 1}, None]), before=pa.array([None, 0]),
    ...     timestamp=pa.array([5, 6]), position=pa.array([1, 2]),
    ... )
    >>> list(batch)[1]
    Change(key='k', old={'a': 1}, new=None, timestamp=6, position=2)
    """

    __slots__ = ("before", "earlier", "key", "new", "position", "timestamp")

    def __init__(
        self,
        *,
        key: pa.Array,
        new: pa.Array,
        before: pa.Array,
        timestamp: pa.Array,
        position: pa.Array,
        earlier: pa.Array | None = None,
    ) -> None:
        self.key = key
        self.new = new
        self.before = before
        self.timestamp = timestamp
        self.position = position
        self.earlier = new.slice(0, 0) if earlier is None else earlier

    if not TYPE_CHECKING:  # else type checkers would take any name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"'ChangeBatch' object has no attribute {name!r}{_NO_ROW}", name=name, obj=self)

        def __getitem__(self, at: Any) -> Any:
            raise TypeError(f"'ChangeBatch' object has no item {at!r}{_NO_ROW}")

    @property
    def values(self) -> pa.Array:
        """The new values, followed by the earlier ones; ``before`` is an index into them."""
        return pa.concat_arrays([self.new, self.earlier]) if len(self.earlier) else self.new

    @property
    def old(self) -> pa.Array:
        """The values before the changes; null for an insert."""
        return self.values.take(self.before)

    def __len__(self) -> int:
        return len(self.key)

    def __iter__(self) -> Iterator[Change[Any, Any]]:
        return self.changes(python_keys(self.key))

    def changes(self, keys: list[Any]) -> Iterator[Change[Any, Any]]:
        """Yields the changes one by one, with their keys as given; they share no mutable value, so that each
        may be modified.
        """
        old, new = each_in_python(self.values, integers(self.before.fill_null(-1))), each_in_python(self.new)
        # as tuples: a call of Change's own constructor for each costs as much as the rest
        columns = keys, old, new, self.timestamp.to_pylist(), self.position.to_pylist()
        return map(Change._make, zip(*columns, strict=True))

    def filter(self, kept: pa.Array) -> "ChangeBatch":
        """The batch with the chosen changes only, with their old values."""
        chosen: Any = kept.to_numpy(zero_copy_only=False)
        before = self.before.fill_null(-1).to_numpy(zero_copy_only=False)[chosen]
        place = np.append(np.where(chosen, np.cumsum(chosen) - 1, -1), np.full(len(self.earlier) + 1, -1))
        inside = np.where(before >= 0, place[before], -1)
        outside = (before >= 0) & (inside < 0)
        index = np.where(outside, int(chosen.sum()) + np.cumsum(outside) - 1, inside)
        columns = {name: getattr(self, name).filter(kept) for name in ("key", "new", "timestamp", "position")}
        return ChangeBatch(**columns, before=pa.array(index, mask=index < 0), earlier=self.values.take(pa.array(before[outside])))

    def pieces(self, rows: int) -> Iterator["ChangeBatch"]:
        """Cuts the batch into pieces of at least about so many changes, each with the old values of its
        changes; a batch with earlier values stays whole.

        >>> batch = ChangeBatch(
        ...     key=pa.array(["k", "k", "l"]), new=pa.array([1, 2, 3]), before=pa.array([None, 0, None]),
        ...     timestamp=pa.array([5, 6, 7]), position=pa.array([1, 2, 3]),
        ... )
        >>> [piece.new.to_pylist() for piece in batch.pieces(1)]
        [[1, 2], [3]]
        """
        count = len(self)
        if count <= rows or len(self.earlier):
            yield self
            return
        before = self.before.fill_null(count).to_numpy(zero_copy_only=False)
        index = np.arange(count)
        # a piece may begin where no change from there on has an old value before that, nor is of the row that
        # ends there
        (code,) = factorize(self.key)
        apart = (np.minimum.accumulate(before[::-1])[::-1] >= index) & np.append(True, code[1:] != code[:-1])
        begins = np.flatnonzero(apart)
        cuts = np.unique(begins[np.searchsorted(begins, np.arange(0, begins[-1] + 1, rows))])
        for start, stop in zip(cuts.tolist(), [*cuts[1:].tolist(), count], strict=True):
            columns = {
                name: getattr(self, name).slice(start, stop - start) for name in ("key", "new", "timestamp", "position", "before")
            }
            columns["before"] = pc.subtract(columns["before"], start)
            yield ChangeBatch(**columns)

    def to_arrow(self) -> pa.RecordBatch:
        """The columns key, old, new, timestamp, position; ``pa.Table.from_batches([...]).flatten()`` makes
        ``new.amount`` of the values'.

        The timestamp and the position of records without a time are null. Raises ``ValueError`` for opaque keys or values.
        """
        for what, column, remedy in (
            ("keys", self.key, "key= of columns by name"),
            ("values", self.new, "schema=, a NamedTuple class or a pyarrow.Schema"),
        ):
            require_columns(column, what, remedy, "take its changes with TableToChanges()")
        about = {"timestamp": times_or_null(self.timestamp), "position": times_or_null(self.position)}
        columns = {"key": self.key, "old": self.old, "new": self.new, **about}
        return pa.record_batch(list(columns.values()), names=list(columns))

    def __repr__(self) -> str:
        """The first changes as a table."""
        before = integers(self.before.slice(0, SHOWN_ROWS).fill_null(-1))
        of_batch, earlier = np.where(before < len(self), before, -1), np.where(before < len(self), -1, before - len(self))
        both = zip(each_in_python(self.new, of_batch), each_in_python(self.earlier, earlier), strict=True)
        columns = {
            "key": python_keys(self.key.slice(0, SHOWN_ROWS)),
            "old": [after if here is None else here for here, after in both],
            "new": list(each_in_python(self.new.slice(0, SHOWN_ROWS))),
            "timestamp": self.timestamp.slice(0, SHOWN_ROWS).to_pylist(),
            "position": self.position.slice(0, SHOWN_ROWS).to_pylist(),
        }
        return batch_text(len(self), columns)
