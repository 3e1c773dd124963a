"""Changes of many rows in columns: what a table is a collection of."""

import pyarrow as pa

from beam_joins.keys.opaque import is_opaque

_NAMES = ("key", "new", "before", "timestamp", "position")


class ChangeBatch:
    """All changes of some rows of a table, ordered by key and position, as Arrow arrays of one length.

    ``key``; ``new``, null for a delete; ``timestamp``, int64 microseconds; ``position``, int64. ``before`` says which change of the
    batch gave the row its old value (int64, an index; null for an insert): so :attr:`old` is computed only when it is read.

    No other batch of the table has changes of the same rows.

    >>> batch = ChangeBatch(
    ...     key=pa.array(["k", "k"]), new=pa.array([{"a": 1}, None]), before=pa.array([None, 0]),
    ...     timestamp=pa.array([5, 6]), position=pa.array([1, 2]),
    ... )
    >>> batch.old.to_pylist()
    [None, {'a': 1}]
    """

    __slots__ = _NAMES

    def __init__(self, *, key: pa.Array, new: pa.Array, before: pa.Array, timestamp: pa.Array, position: pa.Array) -> None:
        self.key = key
        self.new = new
        self.before = before
        self.timestamp = timestamp
        self.position = position

    @property
    def old(self) -> pa.Array:
        """The values before the changes; null for an insert."""
        return self.new.take(self.before)

    def __len__(self) -> int:
        return len(self.key)

    def to_arrow(self) -> pa.RecordBatch:
        """The columns key, old, new, timestamp, position; ``pa.Table.from_batches([...]).flatten()`` makes ``new.amount`` of the values'.

        Raises ``ValueError`` for keys or values that are Python objects, made by a function of one record.
        """
        require_columns(self)
        columns = {"key": self.key, "old": self.old, "new": self.new, "timestamp": self.timestamp, "position": self.position}
        return pa.record_batch(list(columns.values()), names=list(columns))

    def __repr__(self) -> str:
        return f"ChangeBatch({len(self)} changes, key: {self.key.type}, value: {self.new.type})"


def require_columns(batch: ChangeBatch) -> None:
    """Raise ``ValueError`` for keys or values that are Python objects, made by a function of one record."""
    for what, column, remedy in (
        ("keys", batch.key, "key= columns by name"),
        ("values", batch.new, "schema=, the columns of its result"),
    ):
        if is_opaque(column.type):
            raise ValueError(
                f"the {what} of this table are Python objects, as a function of one record has made them: give the transform that"
                f" made them {remedy}, or take its changes with TableToRecords()"
            )
