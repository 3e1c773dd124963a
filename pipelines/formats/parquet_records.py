"""Writes rows as row groups of Parquet files."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS: Final = 1 << 16
_BYTES: Final = 1 << 27


class ParquetRecords:
    """Rows as structs."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows."""
        return pa.StructArray.from_arrays(columns, fields=list(self._columns))

    def writer(self, file: Any) -> "RowsWriter":
        """What writes rows to a file."""
        return RowsWriter(file, pq.ParquetWriter(file, self._columns))


class RowsWriter:
    """Writes rows that are structs, many at a time: those that are written together are a row group of Parquet."""

    def __init__(self, file: Any, writer: Any) -> None:
        self._file = file
        self._writer = writer
        self._rows: list[pa.RecordBatch] = []

    def write(self, rows: pa.StructArray) -> None:
        """Write rows, or keep them until they are many."""
        self._rows.append(pa.RecordBatch.from_struct_array(rows))
        if sum(map(len, self._rows)) >= _ROWS or sum(each.nbytes for each in self._rows) >= _BYTES:
            self._write()

    def close(self) -> None:
        """Write what is left and close the file."""
        try:
            try:
                self._write()
            finally:
                self._writer.close()
        finally:
            self._file.close()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._writer.write_table(pa.Table.from_batches(rows))
