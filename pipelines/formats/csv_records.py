"""Writes rows of typed columns as CSV."""

import base64
import io
from typing import Any

import pyarrow as pa
import pyarrow.csv

from beam_joins.arrow_types import is_bytes
from beam_joins.errors import OutputError
from beam_joins.pipelines.formats.types.json_text import iso_texts, nested_texts, texts_of, texts_without_units


class CsvRecords:
    """Rows with a header; what is no text, number or truth value is text: times in ISO 8601, durations in
    microseconds, bytes in base64, rows within rows as JSON.
    """

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows. Raises OutputError for a time that has no text."""
        fields = [pa.field(field.name, _written(field.type)) for field in self._columns]
        texts = [_field_texts(field.name, column) for field, column in zip(self._columns, columns, strict=True)]
        return pa.StructArray.from_arrays(texts, fields=fields)

    def writer(self, file: Any) -> "CsvWriter":
        """What writes rows to a file."""
        return CsvWriter(file, pa.schema([(field.name, _written(field.type)) for field in self._columns]))


class CsvWriter:
    """Writes a header, and rows that are structs."""

    def __init__(self, file: Any, columns: pa.Schema) -> None:
        self._file = file
        self._write(columns.empty_table(), header=True)

    def write(self, rows: pa.StructArray) -> None:
        """Write rows."""
        self._write(pa.RecordBatch.from_struct_array(rows), header=False)

    def _write(self, rows: pa.Table | pa.RecordBatch, *, header: bool) -> None:
        lines = io.BytesIO()  # Arrow takes compressed files of Beam's for closed
        pa.csv.write_csv(rows, lines, pa.csv.WriteOptions(include_header=header))
        self._file.write(lines.getvalue())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _written(kind: pa.DataType) -> pa.DataType:
    """The type with which a column is written to CSV."""
    plain = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    return kind if plain or pa.types.is_decimal(kind) else pa.string()


def _field_texts(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if _written(kind) == kind:
        return column
    if is_bytes(kind):
        return pa.array([None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()], pa.string())
    try:
        plain = iso_texts(column)
        return plain if plain.type == pa.string() else nested_texts(plain, _texts).cast(pa.string())
    except OutputError as error:
        raise OutputError(f"column '{name}': {error}") from None
    except ValueError as error:
        raise OutputError(f"column '{name}' {error}") from error


def _texts(column: pa.Array) -> pa.Array:
    """The JSON texts of a column: durations in microseconds, other times in ISO 8601."""
    return texts_without_units(column) if pa.types.is_duration(column.type) else texts_of(iso_texts(column))
