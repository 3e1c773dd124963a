"""A block: rows of one input of an operator, as one compressed Arrow record batch in an IPC stream.

What travels between workers are blocks, so that a runner sees few large elements and not many small ones. Every block has the columns
``key``, ``timestamp`` and ``position``; encoded records have ``value: binary`` and ``input: int8`` beside them, tables in columns whatever
types their keys and values are of.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from beam_joins.record import Record
from coders.corrupt import CorruptData

RECORDS = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("input", pa.int8(), nullable=False),
    ]
)
_INPUT = b"input"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")  # measured: cheaper than the bytes it saves between a worker and the JVM
_LIMIT = 1 << 63


def write_block(rows: pa.Table | pa.RecordBatch, input: str) -> bytes:
    """Rows of the named input as one block.

    >>> read_block(write_block(pa.table({"key": [1, 2]}), "left"))[0]
    'left'
    """
    schema = rows.schema.with_metadata({_INPUT: input.encode()})
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_table(table.replace_schema_metadata(schema.metadata))
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def read_block(encoded: bytes) -> tuple[str, pa.Table]:
    """The name of the input, and the rows; raises :class:`CorruptData`."""
    try:
        with pa.ipc.open_stream(encoded) as reader:
            metadata = reader.schema.metadata or {}
            if _INPUT not in metadata:
                raise CorruptData(f"a block with the columns {', '.join(reader.schema.names)} that does not say its input")
            rows = reader.read_all().replace_schema_metadata(None)
            rows.validate(full=True)
            return metadata[_INPUT].decode(), rows
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"{len(encoded)} bytes are not a block: {error}") from error


def read_blocks(blocks: Iterable[bytes]) -> dict[str, pa.Table]:
    """All rows of each input."""
    inputs: dict[str, list[pa.Table]] = {}
    for block in blocks:
        name, rows = read_block(block)
        inputs.setdefault(name, []).append(rows)
    return {name: _together(name, tables) for name, tables in inputs.items()}


def records_in_columns(records: Sequence[Record]) -> pa.RecordBatch:
    """Encoded records as rows; raises ``ValueError`` if a timestamp or position does not fit in 64 bits.

    >>> records_in_columns([Record(b"k", None, timestamp=5, position=7)]).num_rows
    1
    """
    columns = list(zip(*records, strict=True)) if records else [()] * len(RECORDS)
    try:
        return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)
    except (OverflowError, pa.ArrowInvalid) as error:
        for record in records:
            if not (-_LIMIT <= record.position < _LIMIT and -_LIMIT <= record.timestamp < _LIMIT):
                raise ValueError(
                    f"timestamp {record.timestamp} or position {record.position} does not fit in 64 bits: scale the sequence down"
                ) from None
        raise ValueError(f"records that cannot be written: {error}") from error


def _together(name: str, tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the columns of '{name}' differ from one batch to another: {error}") from None
