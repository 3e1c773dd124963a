"""A block: rows of one input of an operator, as one Arrow record batch in an IPC stream, with a checksum behind it.

Rows are shuffled in blocks, so that a runner handles few large elements instead of many small ones. The columns depend on the operator:
``key``, ``timestamp``, ``position``, ``value`` and others, of any types.
"""

from collections.abc import Iterable
from itertools import combinations
from struct import Struct

import pyarrow as pa

from beam_joins.coders.checked import checked, unchecked
from beam_joins.coders.narrow import narrow, widen
from beam_joins.corrupt import CorruptData
from beam_joins.keys.columns import kind_of_column
from beam_joins.sorting import combine_chunks

_INPUT = b"input"
_WORTHWHILE = 1 << 15  # bytes; of fewer there is little to save, and it would take longer than all the rest
_ZSTD = pa.Codec("zstd", 1)
_COMPRESSED = Struct(">4sQ")  # stands before a compressed stream; an Arrow stream never begins so
_MAGIC = b"zstd"


def write_block(rows: pa.Table | pa.RecordBatch, input: str) -> bytes:
    """Rows of the named input as one block.

    >>> read_block(write_block(pa.table({"key": [1, 2]}), "left"))[0]
    'left'
    """
    columns = [(combine_chunks(rows.column(i)), rows.schema.field(i)) for i in range(rows.num_columns)]
    few = rows.nbytes < _WORTHWHILE
    if not few:
        columns = [narrow(*column) for column in columns]
    schema = pa.schema([field for _, field in columns], {_INPUT: input.encode()})
    # what has no fixed width may repeat itself; narrow numbers gain nothing from being compressed
    as_they_are = few or all(_has_fixed_width(field.type) for field in schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column for column, _ in columns], schema=schema))
    stream = sink.getvalue()
    # as a whole: Arrow would compress each of the few dozen buffers by itself, which takes longer than their bytes do
    return checked(stream) if as_they_are else checked(_COMPRESSED.pack(_MAGIC, stream.size), _ZSTD.compress(stream))


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
    if content[: len(_MAGIC)] != _MAGIC:
        return written
    _, size = _COMPRESSED.unpack_from(content)
    return _ZSTD.decompress(written.slice(_COMPRESSED.size), size)


def read_blocks(blocks: Iterable[bytes]) -> dict[str, pa.Table]:
    """All rows of each input."""
    inputs: dict[str, list[pa.RecordBatch]] = {}
    for block in blocks:
        name, rows = read_block(block)
        inputs.setdefault(name, []).append(rows)
    return {name: concat_batches(name, inputs.pop(name)) for name in list(inputs)}


def concat_batches(name: str, batches: list[pa.RecordBatch]) -> pa.Table:
    """The rows of batches of the named input; raises ``ValueError`` if their columns are of types that have nothing in common."""
    require_alike(name, [batch.schema for batch in batches])
    try:
        table = pa.concat_tables(map(_table, batches), promote_options="permissive")
        schema, columns = table.schema, table.columns
        del table, batches  # where nobody else has them, a column is in memory twice at a time, and not all of them
        for i in range(len(columns)):
            columns[i] = combine_chunks(columns[i])
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the columns of '{name}' differ from one batch to another: {error}") from None


def require_alike(name: str, schemas: Iterable[pa.Schema]) -> None:
    """Raise ``ValueError`` for columns of types that Arrow would make one of, although values that differ would be the same then."""
    for one, other in combinations({pa.struct(schema) for schema in schemas}, 2):
        _require_alike(name, one, other)


def _require_alike(path: str, one: pa.DataType, other: pa.DataType) -> None:
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        for field in one:
            if (i := other.get_field_index(field.name)) >= 0:
                _require_alike(f"{path}.{field.name}", field.type, other.field(i).type)
    elif one.num_fields == other.num_fields == 1:  # lists
        _require_alike(path, one.field(0).type, other.field(0).type)
    numbers = (pa.types.is_decimal(one) and pa.types.is_floating(other)) or (pa.types.is_floating(one) and pa.types.is_decimal(other))
    if numbers or {kind_of_column(one), kind_of_column(other)} == {"text", "bytes"}:
        first_type, second_type = sorted(map(str, (one, other)))
        raise ValueError(f"the column '{path}' is of type {first_type} in some batches and {second_type} in others: cast it to one")


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _has_fixed_width(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_has_fixed_width(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_primitive(kind) or pa.types.is_null(kind))
