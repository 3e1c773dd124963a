"""Blocks: rows of one input of an operator as an Arrow record batch in an IPC stream, followed by a checksum.

Rows are shuffled in blocks, so that a runner handles few large elements instead of many small ones. The
columns depend on the operator: ``key``, ``timestamp``, ``position``, ``value`` and others, of any types.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, Literal

import pyarrow as pa

from beam_joins.coders.checked import checked, unchecked
from beam_joins.coders.narrow import narrow, widen
from beam_joins.columns.sorting import combine_chunks
from beam_joins.errors import CorruptData
from beam_joins.values.schema_union import common_schema, conformed

_INPUT = b"input"
_WORTHWHILE = 1 << 15  # bytes; of fewer there is little to save, and it would take longer than all the rest
_CODECS: Final[dict[bytes, pa.Codec]] = {b"zstd": pa.Codec("zstd", 1), b"lz4 ": pa.Codec("lz4_raw")}
"""The codecs by the bytes that stand before a stream, as an Arrow stream never begins."""
_COMPRESSED = Struct(">4sQ")
_MOST = 1 << 30  # bytes; of twice as many LZ4 makes no block

Compression = Literal["zstd", "lz4"]
"""For a block that leaves the machine: small; for one that stays there: in a tenth of the time."""


def write_block(rows: pa.Table | pa.RecordBatch, input: str, *, compression: Compression | None = "zstd") -> bytes:
    """Rows of the named input as one block; ``compression=None`` for a block that is read soon, and not sent.

    >>> read_block(write_block(pa.table({"key": [1, 2]}), "left"))[0]
    'left'
    """
    columns = [(combine_chunks(rows.column(i)), rows.schema.field(i)) for i in range(rows.num_columns)]
    few = compression is None or rows.nbytes < _WORTHWHILE
    if not few:
        columns = [narrow(*column) for column in columns]
    schema = pa.schema([field for _, field in columns], {_INPUT: input.encode()})
    # what has no fixed width may repeat itself; narrow numbers gain nothing from being compressed
    as_they_are = few or all(_has_fixed_width(field.type) for field in schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column for column, _ in columns], schema=schema))
    stream = sink.getvalue()
    if compression is None or as_they_are or stream.size > _MOST:
        return checked(stream)
    # as a whole: Arrow would compress each of the few dozen buffers by itself, which takes longer than their
    # bytes do
    codec = compression.ljust(4).encode()
    return checked(_COMPRESSED.pack(codec, stream.size), _CODECS[codec].compress(stream))


def read_block(encoded: bytes) -> tuple[str, pa.RecordBatch]:
    """The name of the input, and the rows; raises :class:`CorruptData`."""
    try:
        with pa.ipc.open_stream(_stream(unchecked(encoded))) as reader:
            metadata = reader.schema.metadata or {}
            if _INPUT not in metadata:
                raise CorruptData(f"a block with the columns {', '.join(reader.schema.names)} that does not say its input")
            written = reader.read_next_batch()
            written.validate(full=True)
            columns = [widen(column, field) for column, field in zip(written.columns, written.schema, strict=True)]
            schema = pa.schema([field for _, field in columns])
            return metadata[_INPUT].decode(), pa.RecordBatch.from_arrays([column for column, _ in columns], schema=schema)
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"{len(encoded)} bytes are not a block: {error}") from error


def _stream(content: memoryview) -> pa.Buffer:
    written = pa.py_buffer(content)
    codec = _CODECS.get(bytes(content[:4]))
    if codec is None:
        return written
    _, size = _COMPRESSED.unpack_from(content)
    return codec.decompress(written.slice(_COMPRESSED.size), size)


def read_blocks(blocks: Iterable[bytes]) -> dict[str, pa.Table]:
    """All rows of each input."""
    inputs: dict[str, list[pa.RecordBatch]] = {}
    for block in blocks:
        name, rows = read_block(block)
        inputs.setdefault(name, []).append(rows)
    return {name: concat_batches(name, inputs.pop(name)) for name in list(inputs)}


def concat_batches(name: str, batches: list[pa.RecordBatch]) -> pa.Table:
    """The rows of batches of the named input; raises ``ValueError`` if their columns are of types that have
    nothing in common.
    """
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        table = pa.Table.from_batches(batches).replace_schema_metadata(None)
    else:
        schema = common_schema((batch.schema for batch in batches), of=name)
        table = pa.concat_tables([conformed(pa.Table.from_batches([batch]), schema, name) for batch in batches])
    schema, columns = table.schema, table.columns
    del table, batches  # where nobody else has them, a column is in memory twice at a time, and not all of them
    for i in range(len(columns)):
        columns[i] = combine_chunks(columns[i])
    return pa.Table.from_arrays(columns, schema=schema)


def _has_fixed_width(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_has_fixed_width(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_primitive(kind) or pa.types.is_null(kind))
