"""Reads and writes Avro files; in rows timestamps are microseconds, times of day and UUIDs text."""

import copy
import datetime as dt
import io
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, BinaryIO, Final, NamedTuple
from uuid import UUID

import fastavro
import pyarrow as pa
from fastavro.write import Writer

from beam_joins.pipelines.formats.avro_blocks import avro_reason, lacks_codec, records_of_blocks
from beam_joins.pipelines.formats.changelog_columns import Unit, micros_of, whole_number
from beam_joins.pipelines.formats.columnar import no_instants
from beam_joins.pipelines.formats.file_format import FileFormat
from beam_joins.pipelines.formats.file_parts import PLACES, File, FormatReader, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.line_files import parts_by_bytes
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_of_values
from beam_joins.pipelines.formats.types.json_text import at_any_depth, content_of, stored
from beam_joins.pipelines.formats.types.record_kinds import RecordRows, Schema, described, has_unions, rows_of_avro
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.transforms.connect.files import open_file
from beam_joins.values.arrow_types import is_uuid, uuid_texts, without_uuids

_RECORDS: Final = 4096
_MOST_RECORDS: Final = 1 << 20
"""The places from one byte of a growing file to the next: a compressed block has more records than bytes."""
_UUID_BYTES: Final = 16
_WITH_UUIDS: Final = (UUID, list, dict)
_LOGICAL: Final[dict[str, tuple[str, ...]]] = {
    **{f"{zone}timestamp-{unit}": ("long",) for zone in ("", "local-") for unit in ("millis", "micros", "nanos")},
    "time-millis": ("int",),
    "time-micros": ("long",),
    "date": ("int",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}
"""The types that a logical type may be said of; of others it is ignored, as the specification of Avro says."""
_NANOS: Final = ("timestamp-nanos", "local-timestamp-nanos")
_AS_THEY_ARE: Final = {
    *((name, None) for name in ("null", "boolean", "int", "long", "float", "double", "string", "bytes", "fixed", "enum")),
    *(("int", "date"), ("bytes", "decimal"), ("fixed", "decimal")),
}


def read_schema(path: str) -> Schema:
    """The schema of a file of records.

    Raises:
        ValueError: it is not an Avro file, or not one of records; one sentence without the path.
        OSError: it cannot be read.
    """
    with open_file(path) as file:
        try:
            schema = fastavro.reader(file).writer_schema
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"is not an Avro file ({avro_reason(error)})") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("is an Avro file, but not one of records")
    return schema


def avro_schema(path: str) -> pa.Schema:
    """The columns of a file; raises ValueError and OSError as :func:`read_schema` does."""
    rows = rows_of_avro(read_schema(path))
    return pa.schema([]) if rows is None else rows.types


def _members(type_: Any) -> list[tuple[str, str | None]]:
    """The types of a union, or the one type, each with its logical type."""
    members = [member if isinstance(member, dict) else {"type": member} for member in (type_ if isinstance(type_, list) else [type_])]
    stored = [(str(member["type"]), member.get("logicalType")) for member in members]
    return [(name, logical if name in _LOGICAL.get(str(logical), ()) else None) for name, logical in stored]


def _logical_types(schema: Schema, column: str) -> list[str]:
    """The logical types of a column."""
    types = [field["type"] for field in schema["fields"] if field["name"] == column]
    return [logical for type_ in types for _, logical in _members(type_) if logical is not None]


def read_avro(path: str, start: int, stop: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of :func:`read_records`, with timestamps as microseconds, and times of day and UUIDs as text."""
    convert = _converter(read_schema(path))
    for number, record in read_records(path, start, stop):
        yield number, convert(record)


def _converter(schema: Schema) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The conversion of records to records without units of time."""
    convert = _Conversions(schema).of(schema)
    return (lambda record: record) if convert is None else convert


class _Conversions:
    """The conversions of values of types, at any depth, to values without units."""

    def __init__(self, schema: Schema) -> None:
        self._named: dict[str, Any] = {}
        described(schema, self._named, "")
        self._of_records: dict[int, dict[str, Callable[[Any], Any]]] = {}

    def of(self, type_: Any) -> Callable[[Any], Any] | None:
        """The conversion of values of a type; None where none is needed."""
        types = [
            self._named.get(each, each) if isinstance(each, str) else each for each in (type_ if isinstance(type_, list) else [type_])
        ]
        members = _members(types)
        if all(member in _AS_THEY_ARE for member in members):
            return None
        # fastavro gives nanoseconds and UUIDs of 16 bytes as they are stored, without the member of a union that they are of
        made: dict[type, Callable[[Any], Any]] = {}
        if any(logical in _NANOS for _, logical in members) and not {("int", None), ("long", None)}.intersection(members):
            made[int] = lambda nanos: whole_number(Decimal(nanos).scaleb(-3))
        if ("fixed", "uuid") in members and not {("bytes", None), ("fixed", None)}.intersection(members):
            made[bytes] = lambda stored: str(UUID(bytes=stored)) if len(stored) == _UUID_BYTES else stored
        arrays = [each for each in types if isinstance(each, dict) and "items" in each]
        objects = [each for each in types if isinstance(each, dict) and ("values" in each or "fields" in each)]
        if len(arrays) == 1:
            convert = self.of(arrays[0]["items"]) or _plain
            made[list] = lambda items: list(map(convert, items))
        if len(objects) == 1:  # of several, a value does not say which it is of
            made[dict] = partial(self._object, objects[0])
        return lambda value: made.get(type(value), _plain)(value)

    def _object(self, type_: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        """A record or map; the conversions of its members are made with the first one, as a type may have itself within."""
        if id(type_) not in self._of_records:
            fields = {field["name"]: field["type"] for field in type_.get("fields", ())}
            by_name = {name: self.of(each) or _plain for name, each in fields.items()}
            self._of_records[id(type_)] = by_name or {"": self.of(type_["values"]) or _plain}
        made = self._of_records[id(type_)]
        of_map = made[""] if "values" in type_ else _plain
        return {name: made.get(name, of_map)(each) for name, each in value.items()}


def _plain(value: Any) -> Any:
    """A value without units of time, at any depth, by its Python type: a union may have others beside times."""
    return _MADE[type(value)](value) if type(value) in _MADE else value


_MADE: Final[dict[type, Callable[[Any], Any]]] = {
    dt.datetime: micros_of,
    dt.time: dt.time.isoformat,
    UUID: str,
    list: lambda values: list(map(_plain, values)),
    dict: lambda record: {name: _plain(value) for name, value in record.items()},
}


def read_records(path: str, start: int, stop: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number (from 1) and record of every record in the blocks that begin in ``[start, stop)``.

    Raises:
        ValueError: the file is damaged or cut off; one sentence without the path.
        OSError: it cannot be read.
    """
    read_schema(path)
    records = records_of_blocks(path, start, stop)
    number = 0
    while True:
        try:
            record = next(records, None)
        except OSError:
            raise
        except Exception as error:  # fastavro raises whatever its decoder stumbles over
            after = f"record {number}" if not start else f"record {number} of the blocks from byte {start}"
            if lacks_codec(error):
                raise ValueError(f"cannot be read: {avro_reason(error)}") from error
            if isinstance(error, OverflowError) and (columns := _of_time(read_schema(path))):
                raise ValueError(
                    f"has a time beyond the years 1 to 9999 after {after}, in one of the columns {', '.join(columns)}: write it as a"
                    " long without a logical type"
                ) from error
            raise ValueError(f"is damaged or cut off after {after} ({avro_reason(error)})") from error
        if record is None:
            return
        number += 1
        yield number, record


def with_uuids_as_text(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the text of UUIDs."""
    if not any(isinstance(value, _WITH_UUIDS) for value in record.values()):
        return record
    return {name: _uuids_as_text(value) for name, value in record.items()}


def _uuids_as_text(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return list(map(_uuids_as_text, value))
    return {name: _uuids_as_text(each) for name, each in value.items()} if isinstance(value, dict) else value


def _of_time(schema: Schema) -> list[str]:
    """The columns of dates and timestamps."""
    return [field["name"] for field in schema["fields"] if any(map(_is_instant, _logical_types(schema, field["name"])))]


def _is_instant(logical: str) -> bool:
    return logical == "date" or "timestamp-" in logical


class AvroReader(FormatReader):
    """Reads Avro files."""

    name = "avro"

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes, to the next block."""
        return parts_by_bytes(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """Microseconds where its logical type is of times; raises ValueError for times of day."""
        kinds = _logical_types(read_schema(file.path), column)
        if of_day := [kind for kind in kinds if kind.startswith("time-")]:
            raise no_instants(column, of_day[0])
        return "us" if any(map(_is_instant, kinds)) else None

    def schema(self, file: File) -> pa.Schema:
        """The columns of the file's schema."""
        return avro_schema(file.path)

    def keeps_texts(self, file: File) -> bool:
        """Where a column is a union of several types."""
        return has_unions(read_schema(file.path))

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns of the file's schema, and their types."""
        return [(field["name"], _shown(field["type"])) for field in read_schema(file.path)["fields"]]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        return (record for _, record in read_avro(file.path, 0, min(file.look_bytes or file.bytes, file.bytes)))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The records, some at a time, all to be read one by one."""
        schema = read_schema(part.file.path)
        records = read_records(part.file.path, part.start, part.stop)
        while some := list(itertools.islice(records, _RECORDS)):
            places = pa.array([part.first_place + number for number, _ in some])
            yield _raw_rows([record for _, record in some], schema, places, plan)

    def where(self, part: Part, place: int) -> str:
        """The number of the record in its part."""
        return f"record {place % PLACES}" + (f" after byte {part.start:,}" if part.start else "")


def _raw_rows(records: list[dict[str, Any]], schema: Schema, places: pa.Array, plan: ReadPlan | None) -> RawRows:
    """Records of a schema, all to be read one by one."""
    convert, rows, structs, faults = _converter(schema), rows_of_avro(schema), None, dict[int, str]()
    if rows is not None and plan is not None and plan.typed is not None:
        structs, faults = fitting_rows(partial(_structs, records, rows, plan), plan.typed, len(records))
    plain: list[dict[str, Any] | str] = [faults.get(n) or convert(record) for n, record in enumerate(records)]
    return RawRows(places, plain.__getitem__, structs=structs, value=lambda n: with_uuids_as_text(records[n]))


def _structs(records: list[dict[str, Any]], rows: RecordRows, plan: ReadPlan, start: int, stop: int) -> pa.StructArray:
    """Some rows of records in typed columns; raises ValueError, a sentence, for a record that does not fit."""
    return structs_of_values(records[start:stop], plan, lambda column, value: rows.text({column: value}), _prepared)


def _prepared(values: list[Any], kind: pa.DataType) -> tuple[list[Any], pa.DataType]:
    """The values for a column of a type, and the type of what fastavro gives for it."""
    values = values if without_uuids(kind) != kind else list(map(_uuids_as_text, values))
    return values, at_any_depth(pa.nulls(0, kind), _with_numbers).type


def _with_numbers(column: pa.Array) -> pa.Array:
    """Timestamps of nanoseconds as fastavro gives them; other columns as they are."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and column.type.unit == "ns" else column


def _shown(type_: Any) -> str:
    if isinstance(type_, list):
        return " or ".join(map(_shown, type_))
    (name, logical), *_ = _members(type_)
    return str(logical or type_.get("name") or name) if isinstance(type_, dict) else name


def whole_avro(file: Growing) -> Iterator[Whole]:
    """Whole blocks; the place is the byte behind a block."""
    with open_file(file.path) as opened:
        size = opened.seek(0, io.SEEK_END)
        opened.seek(0)
        with _may_be_cut_off():
            blocks = fastavro.block_reader(opened)
            schema: Any = blocks.writer_schema
        opened.seek(file.place or opened.tell())
        while opened.tell() < size:
            with _may_be_cut_off():
                block: Any = next(blocks)
                records = list(block)
            first = block.offset * _MOST_RECORDS
            places = pa.array(range(first, first + len(records)), pa.int64())
            yield block.offset + block.size, partial(_block, records, schema, places)


def _block(records: list[dict[str, Any]], schema: Schema, places: pa.Array, plan: ReadPlan | None) -> Iterator[RawRows]:
    """The records of a block."""
    yield _raw_rows(records, schema, places, plan)


@contextmanager
def _may_be_cut_off() -> Iterator[None]:
    try:
        yield
    except (ValueError, EOFError, StopIteration) as error:
        raise NotWhole from error


class AvroEncoder:
    """Rows as records of a ``schema``, of this ``name``; columns that are not ``nullable`` have no union with null."""

    def __init__(self, columns: pa.Schema, pairs: bool, *, name: str = "", nullable: bool = True) -> None:
        """Raises ``ValueError`` for a column of a type or a name that Avro does not have."""
        self._columns = columns
        self._schema = target_type("avro", "", pa.struct(list(columns)))
        self.schema = {**self._schema, **({"name": name} if name else {})}
        if not nullable:
            fields = [{"name": field["name"], "type": field["type"][1]} for field in self._schema["fields"]]
            self.schema = {**self.schema, "fields": fields}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_parsed"}

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self.schema)

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows, each encoded without a header."""
        return pa.array(map(self._encoded, _records_of(columns, self._schema)), pa.binary())

    def _encoded(self, row: dict[str, Any]) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, self._parsed, row)
        return written.getvalue()

    def writer(self, file: BinaryIO) -> "AvroWriter":
        """A writer of encoded rows to a file."""
        return AvroWriter(file, self.schema)


def _records_of(columns: list[pa.Array], record: Schema) -> Iterator[dict[str, Any]]:
    """The rows of columns as fastavro takes records of a schema."""
    names = [field["name"] for field in record["fields"]]
    values = [_column_values(column, field["type"][1]) for column, field in zip(columns, record["fields"], strict=True)]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _column_values(column: pa.Array, type_: Any) -> list[Any]:
    """The values of a column: times and dates as the numbers that are stored, UUIDs as text, rows with the name of
    their type, so that fastavro need not look for it among those of a union.
    """
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        values: list[Any] = at_any_depth(column, _stored_column).to_pylist()
        return values
    rows = _records_of(column.flatten(), type_)
    return [(type_["name"], row) if is_valid else None for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _stored_column(column: pa.Array) -> pa.Array:
    return uuid_texts(column) if is_uuid(column.type) else stored(column)


class Block(NamedTuple):
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
            self._writer.write_block(Block(len(some), io.BytesIO(content_of(some))))

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        try:
            self._writer.flush()
        finally:
            self._file.close()


FORMAT: Final = FileFormat(reader=AvroReader(), encoder=AvroEncoder, growing=whole_avro)
