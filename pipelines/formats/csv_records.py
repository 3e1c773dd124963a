"""Writes rows of typed columns as CSV."""

import base64
import io
from typing import Any

import pyarrow as pa
import pyarrow.csv

from beam_joins.arrow_types import python_list
from beam_joins.pipelines.formats.connect_json import iso_texts
from beam_joins.pipelines.formats.exact_json import dumps_line


class CsvRecords:
    """Rows with a header; what is no text, number or truth value is text: times in ISO 8601, bytes in base64,
    rows within rows as JSON.
    """

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows."""
        fields = [pa.field(field.name, _written(field.type)) for field in self._columns]
        return pa.StructArray.from_arrays([_field_texts(column) for column in columns], fields=fields)

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


def _field_texts(column: pa.Array) -> pa.Array:
    if _written(column.type) == column.type:
        return column
    if pa.types.is_temporal(column.type):
        return iso_texts(column)
    made = (
        None if value is None else base64.b64encode(value) if isinstance(value, bytes) else dumps_line(value)[:-1]
        for value in python_list(column)
    )
    return pa.array(made, pa.binary()).cast(pa.string())
