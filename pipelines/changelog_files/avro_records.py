"""Avro files, read by Beam's Avro source: times as whole numbers, as they are stored, and errors that name the file."""

import copy
import datetime as dt
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import fastavro
import pyarrow as pa
from apache_beam.io.avroio import _FastAvroSource
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.range_trackers import OffsetRangeTracker
from fastavro.write import Writer

from beam_joins.pipelines.changelog_files.columns import Unit
from beam_joins.pipelines.changelog_files.files import PLACES, File, Part
from beam_joins.pipelines.changelog_files.lines import content_of, parts_by_bytes
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

Schema: TypeAlias = dict[str, Any]
_RECORDS: Final = 4096
_SAID: Final = 100
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STORED: Final[dict[str, Callable[[Any], Any]]] = {
    "timestamp-millis": lambda time: (time - _EPOCH) // dt.timedelta(milliseconds=1),
    "timestamp-micros": lambda time: (time - _EPOCH) // dt.timedelta(microseconds=1),
    "date": lambda day: day.toordinal() - 719_163,
}
UNIT_OF: Final[dict[str | None, Unit]] = {"timestamp-millis": "ms", "timestamp-micros": "us"}


def read_schema(path: str) -> Schema:
    """The schema of a file of records.

    Raises:
        ValueError: it is not an Avro file, or not one of records; one sentence without the path.
        OSError: it cannot be read.
    """
    with FileSystems.open(path) as file:
        try:
            schema = fastavro.reader(file).writer_schema
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"is not an Avro file ({avro_reason(error)})") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("is an Avro file, but not one of records")
    return schema


def logical_type(schema: Schema, column: str) -> str | None:
    """The logical type of a column, also where the column is nullable."""
    for field in schema["fields"]:
        if field["name"] == column:
            types = field["type"] if isinstance(field["type"], list) else [field["type"]]
            return next((t["logicalType"] for t in types if isinstance(t, dict) and "logicalType" in t), None)
    return None


def read_avro(path: str, start: int, stop: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """What :func:`read_records` gives, with times and dates as the whole numbers that they are stored as."""
    schema = read_schema(path)
    stored = [(field["name"], _STORED[kind]) for field in schema["fields"] if (kind := logical_type(schema, field["name"])) in _STORED]
    for number, record in read_records(path, start, stop):
        for column, to_stored in stored:
            if record[column] is not None:
                record[column] = to_stored(record[column])
        yield number, record


def read_records(path: str, start: int, stop: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number (from 1) and record of every record in the blocks that begin in ``[start, stop)``.

    Raises:
        ValueError: the file is damaged or cut off; one sentence without the path.
        OSError: it cannot be read.
    """
    read_schema(path)
    records = _FastAvroSource(path, validate=False).read_records(path, OffsetRangeTracker(start, stop))
    number = 0
    while True:
        try:
            record = next(records, None)
        except OSError:
            raise
        except Exception as error:  # fastavro raises whatever its decoder stumbles over
            after = f"record {number}" if not start else f"record {number} of the blocks from byte {start}"
            raise ValueError(f"is damaged or cut off after {after} ({avro_reason(error)})") from error
        if record is None:
            return
        number += 1
        yield number, record


def avro_reason(error: Exception) -> str:
    """What fastavro says, which may be all of a schema, or nothing."""
    said = (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__
    return said if len(said) <= _SAID else f"{said[:_SAID]}..."


class Avro:
    """How Avro files are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`."""

    suffixes = (".avro",)

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes, to the next block."""
        return parts_by_bytes(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """That of its logical type."""
        return UNIT_OF.get(logical_type(read_schema(file.path), column))

    def types(self, file: File) -> list[tuple[str, str]]:
        """Those of its schema."""
        return [(field["name"], _shown(field["type"])) for field in read_schema(file.path)["fields"]]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        return (record for _, record in read_avro(file.path, 0, min(file.look_bytes or file.bytes, file.bytes)))

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The records, some at a time, all to be read one by one."""
        records = read_avro(part.file.path, part.start, part.stop)
        while some := list(itertools.islice(records, _RECORDS)):
            yield RawRows(pa.array([part.first_place + number for number, _ in some]), [record for _, record in some].__getitem__)

    def where(self, part: Part, place: int) -> str:
        """The number of the record in its part."""
        return f"record {place % PLACES}" + (f" after byte {part.start:,}" if part.start else "")


def _shown(type_: Any) -> str:
    if isinstance(type_, list):
        return " or ".join(map(_shown, type_))
    return str(type_.get("logicalType") or type_.get("name") or type_["type"]) if isinstance(type_, dict) else str(type_)


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
