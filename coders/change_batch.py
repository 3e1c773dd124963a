"""Coder of ``ChangeBatch``."""

import struct

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import registry

from beam_joins.coders.block import read_block, write_block
from beam_joins.coders.own_types import OwnTypes
from beam_joins.coders.strict import StrictCoder
from beam_joins.elements.parameters import when_made
from beam_joins.errors import CorruptData
from beam_joins.tables.batch import ChangeBatch

_LENGTH = struct.Struct(">Q")
_NAMES = ("key", "new", "before", "timestamp", "position")


class ChangeBatchCoder(StrictCoder):
    """Coder of :class:`ChangeBatch`; registered for it.

    >>> before, timestamp, position = pa.array([None], pa.int64()), pa.array([0]), pa.array([3])
    >>> batch = ChangeBatch(key=pa.array([7]), new=pa.array([1.5]), before=before, timestamp=timestamp, position=position)
    >>> ChangeBatchCoder().decode(ChangeBatchCoder().encode(batch)).new.to_pylist()
    [1.5]
    """

    def __init__(self) -> None:
        self._own_types = OwnTypes()

    def encode(self, value: ChangeBatch) -> bytes:
        """All columns, and the earlier values as a block of their own."""
        changes = write_block(pa.record_batch([getattr(value, name) for name in _NAMES], names=list(_NAMES)), "changes")
        earlier = write_block(pa.record_batch([value.earlier], names=["value"]), "earlier") if len(value.earlier) else b""
        return _LENGTH.pack(len(changes)) + changes + earlier

    def read(self, encoded: bytes) -> ChangeBatch:
        """All columns."""
        (length,) = _LENGTH.unpack_from(encoded)
        end = _LENGTH.size + length
        if end > len(encoded):
            raise CorruptData(f"a batch of changes of {len(encoded)} bytes, of which {end} should be its changes")
        _, rows = read_block(encoded[_LENGTH.size : end])
        earlier = read_block(encoded[end:])[1].column(0) if end < len(encoded) else None
        if tuple(rows.schema.names) != _NAMES:
            raise CorruptData(f"a batch of changes with the columns {', '.join(rows.schema.names)}")
        batch = ChangeBatch(**dict(zip(_NAMES, rows.columns, strict=True)), earlier=earlier)
        first, last = pc.min_max(batch.before).as_py().values()
        if last is not None and not 0 <= first <= last < len(batch) + len(batch.earlier):
            raise CorruptData(
                f"a batch of {len(batch)} changes and {len(batch.earlier)} earlier values has old values at {first} to {last}"
            )
        return batch

    def estimate_size(self, value: ChangeBatch) -> int:
        """The bytes of the arrays: to encode a batch only to know its size takes as long as to send it."""
        columns = (*(getattr(value, name) for name in _NAMES), value.earlier)
        return sum(column.nbytes for column in columns)

    def is_deterministic(self) -> bool:
        """The same columns are the same bytes, but one table may be cut into batches in many ways: never a
        key.
        """
        return False

    def to_type_hint(self) -> type:
        """``ChangeBatch``."""
        return ChangeBatch


registry.register_coder(ChangeBatch, ChangeBatchCoder)
when_made(ChangeBatch, lambda made: registry.register_coder(made, ChangeBatchCoder))
