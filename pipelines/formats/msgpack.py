"""Reads and writes MessagePack: a stream of maps, one a record.

An instant is MessagePack's timestamp, with its nanoseconds; in rows it is microseconds, as in those of other formats. What
MessagePack has no type for is written as text: dates, times of day, timestamps without a zone, and decimals that are no whole
numbers of 64 bits. Durations are microseconds.
"""

import datetime as dt
import itertools
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.arrow_types import is_list, is_uuid, uuid_texts
from beam_joins.iso_times import EPOCH
from beam_joins.pipelines.formats.changelog_columns import NANOSECONDS, Columns, Unit, micros_of, shown, whole_number
from beam_joins.pipelines.formats.file_format import BytesWriter, FileFormat, FormatReader
from beam_joins.pipelines.formats.file_parts import PLACES, File, Part
from beam_joins.pipelines.formats.layout import Layout
from beam_joins.pipelines.formats.lines import BLOCK_BYTES, LONGEST_LINE, open_lines
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_one_by_one
from beam_joins.pipelines.formats.types.column_kind import timestamp_text
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.formats.types.json_text import iso_texts, without_units
from beam_joins.pipelines.formats.types.typed_texts import type_of_values

_RECORDS: Final = 4096
_LOOKED_AT: Final = 10_000
"""The types of columns are those of so many records."""
_SECOND: Final = 1_000_000_000
_TIMESTAMP: Final = -1
_LEAST, _MOST = -(2**63), 2**64 - 1
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS: Final = {0xCA + n: struct.Struct(f">{code}") for n, code in enumerate("fdBHIQbhiq")}
_SIZED: Final = {
    code: (kind, struct.Struct(f">{size}"))
    for kind, codes, sizes in (
        ("bin", 0xC4, "BHI"),
        ("ext", 0xC7, "BHI"),
        ("str", 0xD9, "BHI"),
        ("array", 0xDC, "HI"),
        ("map", 0xDE, "HI"),
    )
    for code, size in enumerate(sizes, codes)
}
_TIMES: Final = {4: struct.Struct(">I"), 8: struct.Struct(">Q"), 12: struct.Struct(">Iq")}
"""Timestamps by their length: seconds; nanoseconds and seconds in 30 and 34 bits; nanoseconds and seconds."""
_ISO: Final = timestamp_text("ns", "Z")


class _FineTime(str):
    """The ISO text of a time that Python's datetime does not hold: with nanoseconds, or far from now."""

    nanos: int


class _Record(NamedTuple):
    """The map of a record, or what is wrong with it; whether it has times, and those that are fine."""

    value: dict[str, Any]
    fault: str
    has_times: bool
    has_fine_times: bool


class _Decoder:
    """Decodes values one after the other; raises IndexError or ``struct.error`` where the bytes end, ValueError for a byte that
    begins no value.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def record(self) -> _Record:
        """The next value, which is to be a map."""
        self._fault, self._times, self._fine_times = "", False, False
        value = self._value()
        if not isinstance(value, dict):
            return _Record({}, f"not a map but {shown(value)[:40]}", False, False)
        return _Record(value, self._fault, self._times, self._fine_times)

    def _value(self) -> Any:
        code = self._data[self.at]
        self.at += 1
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 0x100
        if code < 0xC0:
            kind, count = ("map", code & 0xF) if code < 0x90 else ("array", code & 0xF) if code < 0xA0 else ("str", code & 0x1F)
        elif code in _CONSTANTS:
            return _CONSTANTS[code]
        elif code in _NUMBERS:
            return self._number(_NUMBERS[code])
        elif 0xD4 <= code <= 0xD8:
            kind, count = "ext", 1 << (code - 0xD4)
        elif code in _SIZED:
            kind, size = _SIZED[code]
            count = self._number(size)
        else:
            raise ValueError(f"byte 0x{code:02x} begins no value")
        return self._sized(kind, count)

    def _sized(self, kind: str, count: int) -> Any:
        if kind == "map":
            return dict(self._member() for _ in range(count))
        if kind == "array":
            return [self._value() for _ in range(count)]
        type_ = self._number(_NUMBERS[0xD0]) if kind == "ext" else 0
        taken = self._data[self.at : self.at + count]
        if len(taken) < count:
            raise IndexError
        self.at += count
        return taken if kind == "bin" else self._text(taken) if kind == "str" else self._time(type_, taken)

    def _member(self) -> tuple[str, Any]:
        name = self._value()
        if not isinstance(name, str):
            self._fault = self._fault or f"a name is no text: {shown(name)}"
        return str(name), self._value()

    def _number(self, form: struct.Struct) -> Any:
        (number,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return number

    def _text(self, taken: bytes) -> str:
        try:
            return taken.decode()
        except UnicodeDecodeError as error:
            self._fault = self._fault or f"a text is not UTF-8 (byte 0x{taken[error.start]:02x}): write what is no text as bytes"
            return ""

    def _time(self, type_: int, taken: bytes) -> Any:
        if type_ != _TIMESTAMP or len(taken) not in _TIMES:
            self._fault = self._fault or f"a value is of the extension type {type_}, which is not known: write it as bytes or text"
            return None
        self._times = True
        *first, last = _TIMES[len(taken)].unpack(taken)
        part, seconds = (last >> 34, last & ((1 << 34) - 1)) if len(taken) == 8 else (first[0] if first else 0, last)
        if part % 1_000 == 0:
            try:
                return EPOCH + dt.timedelta(seconds=seconds, microseconds=part // 1_000)
            except OverflowError:
                pass
        self._fine_times = True
        nanos = seconds * _SECOND + part
        time = _FineTime(json.loads(_ISO(nanos)))
        time.nanos = nanos
        return time


def _records(file: File, limit: int = 0) -> Iterator[_Record]:
    """The records of a file; those that begin in the first ``limit`` bytes, if it is not 0.

    Raises ValueError, one sentence without the path, where the file ends within a record or has what is no value, and what
    :func:`~beam_joins.pipelines.formats.lines.open_lines` raises.
    """
    number, read, rest = 1, 0, b""
    with open_lines(file.path) as opened:
        while data := opened.read(max(BLOCK_BYTES, len(rest))):
            read += len(data)
            rest += data
            decoder, begin = _Decoder(rest), 0
            while begin < len(rest) and not 0 < limit <= read - len(rest) + begin:
                try:
                    record = decoder.record()
                except (IndexError, struct.error):
                    break
                except (ValueError, RecursionError) as error:
                    why = "nested too deeply" if isinstance(error, RecursionError) else error
                    raise ValueError(f"is damaged in record {number:,} ({why})") from error
                yield record
                number, begin = number + 1, decoder.at
            if 0 < limit <= read - len(rest) + begin:
                return
            rest = rest[begin:]
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"has a record of more than {LONGEST_LINE:,} bytes")
    if rest:
        raise ValueError(f"is cut off within record {number:,}")


def _converted(value: Any, time: Callable[[Any], Any]) -> Any:
    """The value with what ``time`` makes of the times in it, at any depth."""
    if isinstance(value, dict):
        return {name: _converted(each, time) for name, each in value.items()}
    if isinstance(value, list):
        return [_converted(each, time) for each in value]
    return time(value) if isinstance(value, dt.datetime | _FineTime) else value


def _micros(time: Any) -> Any:
    """Microseconds since the epoch, a decimal if they are not whole."""
    return whole_number(Decimal(time.nanos).scaleb(-3)) if isinstance(time, _FineTime) else micros_of(time)


def _in_python(time: Any) -> Any:
    return str(time) if isinstance(time, _FineTime) else time


def _row(record: _Record) -> dict[str, Any]:
    """The map with times as microseconds."""
    row: dict[str, Any] = _converted(record.value, _micros) if record.has_times else record.value
    return row


class MsgpackReader(FormatReader):
    """Reads MessagePack files, which are not cut: nothing in them says where a record begins."""

    may_be_empty = True
    expansion = 1

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """The whole file."""
        return [(0, 0)]

    def unit(self, file: File, column: str) -> Unit | None:
        """Microseconds where the first records have times; raises ValueError where others have numbers."""
        held = {type(value) for value in _first_values(file).get(column, ())}
        if held.isdisjoint((dt.datetime, _FineTime)):
            return None
        if not held.isdisjoint((int, float)):
            raise ValueError(
                f"has times and numbers in column '{column}': write them as one, since nothing says what the numbers count"
            )
        return "us"

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        return (_row(record) for record in _records(file, file.look_bytes) if not record.fault)

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The records, some at a time, all to be read one by one."""
        records, place = _records(part.file), part.first_place
        while some := list(itertools.islice(records, _RECORDS)):
            yield _raw_rows(some, pa.array(range(place, place + len(some)), pa.int64()), reading)
            place += len(some)

    def where(self, part: Part, place: int) -> str:
        """The number of the record."""
        return f"record {place % PLACES + 1:,}"


def _raw_rows(records: list[_Record], places: pa.Array, reading: Reading | None) -> RawRows:
    structs, faults = None, dict[int, str]()
    if reading is not None and reading.typed is not None:
        texts = [dumps_line({} if record.fault else record.value) for record in records]
        made: Callable[[int, int], pa.StructArray] = lambda start, stop: structs_one_by_one(texts[start:stop], reading, of_lines=True)  # noqa: E731
        structs, faults = fitting_rows(made, reading.typed, len(records))
    rows: list[dict[str, Any] | str] = [record.fault or faults.get(n) or _row(record) for n, record in enumerate(records)]

    def value(n: int) -> dict[str, Any] | str:
        fault, value = records[n].fault, records[n].value
        return fault or (_converted(value, _in_python) if records[n].has_fine_times else value)

    return RawRows(places, rows.__getitem__, structs=structs, value=value)


def _first_values(file: File) -> dict[str, list[Any]]:
    """The values of the columns in the first records, without nulls."""
    values = defaultdict[str, list[Any]](list)
    for record in itertools.islice(_records(file, file.look_bytes), _LOOKED_AT):
        for name, value in record.value.items():
            values[name] += [] if value is None else [value]
    return values


def msgpack_schema(path: str) -> pa.Schema:
    """The columns of the first records, in types that hold their values."""
    values = _first_values(File(path=path, bytes=0, shown=path, format="msgpack"))
    return pa.schema([(name, _type_of(each)) for name, each in values.items()])


def _type_of(values: list[Any]) -> pa.DataType:
    kinds = {type(value) for value in values}
    if _FineTime in kinds:
        return pa.timestamp("ns", "UTC") if kinds <= {_FineTime, dt.datetime} else pa.string()
    return type_of_values(values)


def _described(file: File, columns: Columns, remembered: Layout) -> File:
    """The file; raises ValueError for times that order its records beside the event time: as numbers they could not be told
    from those of other files.
    """
    values = _first_values(file)
    for column in filter(None, (columns.sequence, *columns.within)):
        if any(isinstance(value, dt.datetime | _FineTime) for value in values.get(column, ())):
            raise ValueError(
                f"has times in column '{column}', which orders its records: write whole numbers, or order by the event time"
            )
    return file


class MsgpackEncoder:
    """Encodes rows as maps."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._names = columns.names

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The maps of rows. Raises OutputError for a time that has no text."""
        encode, rows = msgspec.msgpack.Encoder().encode, zip(*map(_values, columns), strict=True)
        return pa.array([encode(dict(zip(self._names, row, strict=True))) for row in rows], pa.binary())

    def writer(self, file: Any) -> BytesWriter:
        """What writes maps to a file."""
        return BytesWriter(file)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column as MessagePack has them, maps as lists of pairs."""
    column = without_units(column) if pa.types.is_duration(column.type) else column
    kind = column.type
    if pa.types.is_struct(kind):
        names, parts = [field.name for field in kind], [_values(part) for part in column.flatten()]
        rows = zip(*parts, strict=True) if parts else itertools.repeat(())
        return [
            dict(zip(names, row, strict=True)) if held else None
            for held, row in zip(column.is_valid().to_pylist(), rows, strict=False)
        ]
    if pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])))
        return [None if each is None else [list(pair.values()) for pair in each] for each in _values(pairs)]
    if is_list(kind):
        items = iter(_values(column.flatten()))
        return [None if n is None else list(itertools.islice(items, n)) for n in pc.list_value_length(column).to_pylist()]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        of_unit = NANOSECONDS[kind.unit]
        return [None if time is None else _timestamp(time * of_unit) for time in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if each is None else _number(each) for each in column.to_pylist()]
    return list((uuid_texts(column) if is_uuid(kind) else iso_texts(column)).to_pylist())


def _number(number: Decimal) -> int | str:
    """A whole number of 64 bits, or the digits of another one.

    >>> _number(Decimal("7")), _number(Decimal("7.00")), _number(Decimal(2**64))
    (7, '7.00', '18446744073709551616')
    """
    is_whole = not number.as_tuple().exponent and _LEAST <= number <= _MOST
    return int(number) if is_whole else f"{number:f}"


def _timestamp(nanos: int) -> msgspec.msgpack.Ext:
    """The shortest timestamp of nanoseconds since the epoch."""
    seconds, part = divmod(nanos, _SECOND)
    if not 0 <= seconds < 1 << 34:
        return msgspec.msgpack.Ext(_TIMESTAMP, _TIMES[12].pack(part, seconds))
    is_short = not part and seconds < 1 << 32
    return msgspec.msgpack.Ext(_TIMESTAMP, _TIMES[4].pack(seconds) if is_short else _TIMES[8].pack(part << 34 | seconds))


FORMAT: Final = FileFormat(reader=MsgpackReader(), encoder=MsgpackEncoder, schema=msgpack_schema, described=_described)
