"""Writes rows as records of Avro files."""

import copy
import io
from collections.abc import Iterator
from functools import cached_property
from typing import Any, BinaryIO, Final, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.write import Writer

from beam_joins.arrow_types import is_uuid, uuid_texts
from beam_joins.pipelines.formats.types.json_text import at_any_depth, content_of, stored
from beam_joins.pipelines.formats.types.record_kinds import Schema
from beam_joins.pipelines.formats.types.target_types import target_type

_RECORDS: Final = 4096


class AvroRecords:
    """Rows as records of a schema."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        """Raises ``ValueError`` for a column of a type or a name that Avro does not have."""
        self._columns = columns
        self._schema = target_type("avro", "", pa.struct(list(columns)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_parsed"}

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self._schema)

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows, each encoded without a header."""
        return pa.array(map(self._encoded, _rows(columns, self._schema)), pa.binary())

    def _encoded(self, row: dict[str, Any]) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, self._parsed, row)
        return written.getvalue()

    def writer(self, file: BinaryIO) -> "AvroWriter":
        """What writes encoded rows to a file."""
        return AvroWriter(file, self._schema)


def _rows(columns: list[pa.Array], record: Schema) -> Iterator[dict[str, Any]]:
    """The rows of columns as fastavro takes records of a schema."""
    names = [field["name"] for field in record["fields"]]
    values = [_values(column, field["type"][1]) for column, field in zip(columns, record["fields"], strict=True)]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _values(column: pa.Array, type_: Any) -> list[Any]:
    """The values of a column: times and dates as the numbers that are stored, UUIDs as text, rows with the name of
    their type, so that fastavro need not look for it among those of a union.
    """
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        values: list[Any] = at_any_depth(column, _stored).to_pylist()
        return values
    rows = _rows(column.flatten(), type_)
    return [(type_["name"], row) if is_valid else None for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _stored(column: pa.Array) -> pa.Array:
    return uuid_texts(column) if is_uuid(column.type) else stored(column)


class Records(NamedTuple):
    """Encoded records, as fastavro writes those of a block."""

    num_records: int
    bytes_: io.BytesIO


class AvroWriter:
    """Writes encoded records of a schema, compressed with deflate as Beam does."""

    def __init__(self, file: BinaryIO, schema: Schema) -> None:
        self._file = file
        self._writer = Writer(file, fastavro.parse_schema(copy.deepcopy(schema)), codec="deflate")

    def write(self, records: pa.Array) -> None:
        """Write records, each encoded without a header."""
        for start in range(0, len(records), _RECORDS):
            some = records.slice(start, _RECORDS)
            self._writer.write_block(Records(len(some), io.BytesIO(content_of(some))))

    def close(self) -> None:
        """Write what is left and close the file."""
        try:
            self._writer.flush()
        finally:
            self._file.close()
