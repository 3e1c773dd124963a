"""Changes of many rows in columns: what a table in columns is a collection of."""

import pyarrow as pa
from apache_beam.coders import registry

from beam_joins.batch import ChangeBatch
from beam_joins.coders.block import read_block, write_block
from beam_joins.coders.strict import StrictCoder
from beam_joins.corrupt import CorruptData

_NAMES = ("key", "new", "before", "timestamp", "position")


class ChangeBatchCoder(StrictCoder):
    """Coder of :class:`ChangeBatch`; registered for it.

    >>> batch = ChangeBatch(key=pa.array([7]), new=pa.array([1.5]), before=pa.array([None], pa.int64()), timestamp=pa.array([0]), position=pa.array([3]))
    >>> ChangeBatchCoder().decode(ChangeBatchCoder().encode(batch)).new.to_pylist()
    [1.5]
    """

    def encode(self, value: ChangeBatch) -> bytes:
        """All columns."""
        return write_block(pa.record_batch([getattr(value, name) for name in _NAMES], names=list(_NAMES)), "changes")

    def read(self, encoded: bytes) -> ChangeBatch:
        """All columns."""
        _, rows = read_block(encoded)
        if tuple(rows.schema.names) != _NAMES:
            raise CorruptData(f"a batch of changes with the columns {', '.join(rows.schema.names)}")
        return ChangeBatch(**dict(zip(_NAMES, rows.columns, strict=True)))

    def is_deterministic(self) -> bool:
        """The same columns are the same bytes, but one table may be cut into batches in many ways: never a key."""
        return False

    def to_type_hint(self) -> type:
        """``ChangeBatch``."""
        return ChangeBatch


registry.register_coder(ChangeBatch, ChangeBatchCoder)
