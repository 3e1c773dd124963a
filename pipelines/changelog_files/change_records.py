"""The changes of a table as records of a file: upserts with tombstones, or pairs of the old and the new row in Debezium's form."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Literal

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_joins.batch import ChangeBatch
from beam_joins.pipelines.changelog_files.avro_columns import avro_record, avro_rows
from beam_joins.pipelines.changelog_files.avro_records import AvroWriter
from beam_joins.pipelines.changelog_files.connect_json import connect_fields, connect_rows, connect_texts, iso_texts
from beam_joins.pipelines.changelog_files.json_lines import JsonLinesWriter
from beam_joins.pipelines.changelog_files.json_text import NULL, joined, objects, row_texts
from beam_joins.pipelines.plain_rows import PlainRows
from beam_joins.sorting import integers, valid

FileFormat = Literal["jsonl", "avro", "parquet"]
As = Literal["upserts", "pairs"]
MARKS: Final = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("position", pa.int64()), ("deleted", pa.bool_())])
"""The columns of upserts about the change."""
_SOURCE: Final = pa.struct(
    [("connector", pa.string()), ("table", pa.string()), ("lsn", pa.int64()), ("ts_ms", pa.int64()), ("ts_us", pa.int64())]
)
_MILLI: Final = 1_000


class ChangeRecords:
    """How the changes of a table are written: as what, in which format; ``table`` is the name of the table in pairs."""

    def __init__(self, rows: PlainRows, form: As, format_: FileFormat, table: str) -> None:
        """Raises ``ValueError`` for a column that would be there twice, or of a type that the format does not have."""
        self._rows = rows
        self._table = table
        self._pairs = form == "pairs"
        self._format = format_
        if taken := [name for name in MARKS.names if name in rows.schema.names and not self._pairs]:
            raise ValueError(
                f"the table has a column '{taken[0]}', as the change itself: give it another name with MapTable, or write as_='pairs'"
            )
        row = pa.struct(list(rows.schema))
        columns = [("before", row), ("after", row), ("op", pa.string()), ("source", _SOURCE), ("ts_ms", pa.int64())]
        self.columns = pa.schema(columns) if self._pairs else pa.schema([*rows.schema, *MARKS])
        self._head = b""
        self._avro: Any = None
        if format_ == "avro":
            self._avro = avro_record("Change", self.columns)
        elif format_ == "jsonl" and self._pairs:
            self._head = (
                b'{"schema":' + msgspec.json.encode({"type": "struct", "fields": connect_fields(self.columns)}) + b',"payload":'
            )

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self._avro)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_parsed"}

    def writer(self, file: Any) -> Any:
        """What writes records to a file."""
        if self._format == "parquet":
            return _ParquetRows(file, self.columns)
        return JsonLinesWriter(file) if self._avro is None else AvroWriter(file, self._avro)

    def records(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The records of changes, given their old and new values."""
        made = self._of_pairs if self._pairs else self._of_upserts
        columns = made(changes, old, new)
        if self._format != "jsonl":
            rows = pa.StructArray.from_arrays(columns, fields=list(self.columns))
            return rows if self._format == "parquet" else avro_rows(rows, self._parsed)
        named = dict(zip(self.columns.names, columns, strict=True))
        if not self._pairs:
            return joined(row_texts({name: iso_texts(column) for name, column in named.items()}, len(changes)), b"\n")
        texts = {name: _connect(column) for name, column in named.items()}
        return joined(self._head, objects(texts, len(changes)), b"}\n", null=NULL)

    def _of_upserts(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        at = changes.timestamp.cast(MARKS.field("timestamp").type)
        return [*self._rows.columns(changes.key, new), at, changes.position, new.is_null()]

    def _of_pairs(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        operations = pa.array(["c", "u", "d"]).take(pc.if_else(new.is_null(), 2, pa.array(valid(old).astype("int64"))))
        times = pa.array(integers(changes.timestamp) // _MILLI)
        count = len(changes)
        constant: Callable[[str], pa.Array] = lambda text: pa.array([text] * count, pa.string())  # noqa: E731
        source = [constant("beam_joins"), constant(self._table), changes.position, times, changes.timestamp]
        return [
            self._rows.structs(changes.key, old),
            self._rows.structs(changes.key, new),
            operations,
            pa.StructArray.from_arrays(source, fields=list(_SOURCE)),
            times,
        ]


def _connect(column: pa.Array) -> pa.Array:
    return connect_rows(column) if pa.types.is_struct(column.type) else connect_texts(column)


class _ParquetRows:
    """Writes rows that are structs."""

    def __init__(self, file: Any, columns: pa.Schema) -> None:
        self._file = file
        self._writer = pq.ParquetWriter(file, columns)

    def write(self, rows: pa.StructArray) -> None:
        """Write rows."""
        self._writer.write_batch(pa.RecordBatch.from_struct_array(rows))

    def close(self) -> None:
        """Write what is left and close the file."""
        try:
            self._writer.close()
        finally:
            self._file.close()
