"""Coders of Arrow tables and record batches, which Beam would pickle without one."""

from typing import Any

import pyarrow as pa
from apache_beam.coders import registry

from beam_joins.coders.checked import checked, unchecked
from beam_joins.coders.strict import StrictCoder

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class ArrowTableCoder(StrictCoder):
    """Coder of ``pyarrow.Table``, as an Arrow IPC stream; registered for it.

    >>> ArrowTableCoder().decode(ArrowTableCoder().encode(pa.table({"a": [1, 2]})))["a"].to_pylist()
    [1, 2]
    """

    def encode(self, value: pa.Table) -> bytes:
        """An IPC stream of all batches, with a checksum: a stream that is cut off between two batches looks
        whole.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema, options=_OPTIONS) as writer:
            writer.write(value)
        return checked(sink.getvalue())

    def read(self, encoded: bytes) -> pa.Table:
        """All batches."""
        with pa.ipc.open_stream(pa.py_buffer(unchecked(encoded))) as reader:
            table = reader.read_all()
        table.validate(full=True)
        return table

    def estimate_size(self, value: pa.Table | pa.RecordBatch) -> int:
        """The bytes of the arrays: to encode them only to know their size takes as long as to send them."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """The same rows may be cut into batches in many ways: never a key."""
        return False

    def to_type_hint(self) -> Any:
        """``pyarrow.Table``."""
        return pa.Table


class RecordBatchCoder(ArrowTableCoder):
    """Coder of ``pyarrow.RecordBatch``, as an Arrow IPC stream; registered for it.

    >>> RecordBatchCoder().decode(RecordBatchCoder().encode(pa.record_batch({"a": [1, 2]}))).column("a").to_pylist()
    [1, 2]
    """

    def read(self, encoded: bytes) -> pa.RecordBatch:
        """The batch."""
        with pa.ipc.open_stream(pa.py_buffer(unchecked(encoded))) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
        return batch

    def to_type_hint(self) -> Any:
        """``pyarrow.RecordBatch``."""
        return pa.RecordBatch


registry.register_coder(pa.Table, ArrowTableCoder)
registry.register_coder(pa.RecordBatch, RecordBatchCoder)
