"""Readers of Debezium's events by what they are written in: lines of JSON, records of Avro, rows of Parquet and Arrow."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa

from beam_joins.pipelines.formats.arrow import ArrowReader, arrow_schema, record_batches
from beam_joins.pipelines.formats.avro import AvroReader, read_records, read_schema
from beam_joins.pipelines.formats.columnar import readable
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.debezium_records import DebeziumRecords
from beam_joins.pipelines.formats.envelopes.enveloped import Enveloped, EnvelopeLines
from beam_joins.pipelines.formats.envelopes.row_change import Envelope
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.parquet import ParquetReader, opened
from beam_joins.pipelines.formats.types.record_kinds import RecordRows, rows_of_avro, rows_of_columns

_RECORDS: Final = 4096


class DebeziumLines(EnvelopeLines):
    """Debezium's events as lines of JSON."""

    name = "debezium"
    lone_tombstones = True

    def _envelope(self, file: File) -> Envelope:
        return DebeziumJson(file.key, file.table, file.columns, file.placeholders, in_files=True)


class DebeziumAvro(Enveloped, AvroReader):
    """Debezium's events as records of Avro."""

    name = "debezium avro"

    def _envelope(self, file: File) -> Envelope:
        return DebeziumRecords(partial(rows_of_avro, read_schema(file.path)), file.table, file.placeholders, file.key)

    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        records = read_records(part.file.path, part.start, part.stop or part.file.bytes)
        while some := list(itertools.islice(records, _RECORDS)):
            yield [(part.first_place + number, record) for number, record in some]


class DebeziumParquet(Enveloped, ParquetReader):
    """Debezium's events as rows of Parquet."""

    name = "debezium parquet"

    def _envelope(self, file: File) -> Envelope:
        with opened(file.path) as parquet:
            return DebeziumRecords(partial(_columns_at, parquet.schema_arrow), file.table, file.placeholders, file.key)

    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        place = part.first_place
        with opened(part.file.path) as parquet:
            groups = [part.start] if part.stop and parquet.num_row_groups else None  # without an end: all of them
            for batch in parquet.iter_batches(_RECORDS, row_groups=groups):
                yield list(zip(range(place, place + len(batch)), batch.to_pylist(), strict=True))
                place += len(batch)


class DebeziumArrow(Enveloped, ArrowReader):
    """Debezium's events as rows of Arrow IPC."""

    name = "debezium arrow"

    def _envelope(self, file: File) -> Envelope:
        return DebeziumRecords(partial(_columns_at, arrow_schema(file.path)), file.table, file.placeholders, file.key)

    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        place = part.first_place
        for batch in record_batches(part.file.path, [part.start] if part.stop else None):  # without an end: all of them
            for start in range(0, len(batch), _RECORDS):
                rows = readable(batch.slice(start, _RECORDS)).to_pylist()
                yield list(zip(range(place, place + len(rows)), rows, strict=True))
                place += len(rows)


def _columns_at(schema: pa.Schema, *path: str) -> RecordRows | None:
    fields: Any = schema
    for name in path:
        if name not in [field.name for field in fields] or not pa.types.is_struct(fields.field(name).type):
            return None
        fields = fields.field(name).type
    return rows_of_columns(fields)
