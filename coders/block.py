"""Blocks: some thousand records as one Arrow record batch in IPC bytes, so that a runner sees few large elements.

Columns: ``key: binary, value: binary (null: a tombstone), timestamp: int64, position: int64, input: int8``.
"""

from collections.abc import Sequence

import pyarrow as pa

from beam_joins.record import Record
from coders.corrupt import CorruptData

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("input", pa.int8(), nullable=False),
    ]
)
_LIMIT = 1 << 63


def write_block(records: Sequence[Record]) -> bytes:
    """The records as one block.

    Raises ``ValueError`` if a timestamp or position does not fit in 64 bits.

    >>> read_block(write_block([Record(b"k", None, timestamp=5, position=7)])).num_rows
    1
    """
    columns = list(zip(*records, strict=True)) if records else [()] * len(SCHEMA)
    try:
        batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    except (OverflowError, pa.ArrowInvalid) as error:
        for record in records:
            if not (-_LIMIT <= record.position < _LIMIT and -_LIMIT <= record.timestamp < _LIMIT):
                raise ValueError(
                    f"timestamp {record.timestamp} or position {record.position} does not fit in 64 bits: scale the sequence down"
                ) from None
        raise ValueError(f"records that cannot be written: {error}") from error
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def read_block(encoded: bytes) -> pa.RecordBatch:
    """The columns of a block; raises :class:`CorruptData`."""
    try:
        with pa.ipc.open_stream(encoded) as reader:
            if not reader.schema.equals(SCHEMA):
                raise CorruptData(f"a block with the columns {', '.join(reader.schema.names)}")
            batch = reader.read_next_batch()
            batch.validate(full=True)
            return batch
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"{len(encoded)} bytes are not a block: {error}") from error
