"""Reads and writes MessagePack: a stream of maps, one a record.

An instant is MessagePack's timestamp, with its nanoseconds; in rows it is microseconds, as in those of other formats. What
MessagePack has no type for is written as text: dates, times of day, timestamps without a zone, and decimals that are no whole
numbers of 64 bits. Durations are microseconds.
"""

import datetime as dt
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.extras import needs
from beam_joins.pipelines.formats.changelog_columns import NANOSECONDS, Columns, Unit, shown
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.file_format import BytesWriter, FileFormat
from beam_joins.pipelines.formats.file_parts import PLACES, File, FormatReader, Part
from beam_joins.pipelines.formats.line_files import BLOCK_BYTES, LONGEST_LINE, open_lines
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_of_values
from beam_joins.pipelines.formats.types.column_kind import timestamp_text
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.formats.types.json_text import iso_texts, without_units
from beam_joins.pipelines.formats.types.typed_texts import type_of_values
from beam_joins.values.arrow_types import is_list, is_uuid, uuid_texts

_RECORDS: Final = 4096
_LOOKED_AT: Final = 10_000
"""The types of columns are those of so many records."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_LONGEST: Final = 2**32 - 1
_TOO_DEEP: Final = "nested too deeply"
_LEVELS: Final = 250
"""The deepest nesting of values; orjson, which writes their JSON, has a limit of 254."""
_SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
"""The types of values that are no times and contain none."""
_ISO: Final = timestamp_text("ns", "Z")


class _Fault(NamedTuple):
    """Takes the place of a value that cannot be used."""

    why: str


def _msgpack() -> Any:
    with needs("msgpack"):
        import msgpack  # noqa: PLC0415  # an extra
    return msgpack


def _map(members: list[tuple[Any, Any]]) -> dict[str, Any] | _Fault:
    wrong = [name for name, _ in members if not isinstance(name, str)]
    return _Fault(f"a name is no text: {shown(wrong[0])[:40]}") if wrong else dict(members)


def _extension(type_: int, data: bytes) -> _Fault:
    return _Fault(f"a value is of the extension type {type_}, which is not known: write it as bytes or text")


def _fault_in(values: Iterable[Any], levels: int = _LEVELS) -> str:
    """The fault of one of the values, at any depth; empty if there is none."""
    for value in values:
        if isinstance(value, str):
            fault = "" if value.isascii() else _not_utf8(value)
        elif isinstance(value, dict | list):
            inside = itertools.chain(value, value.values()) if isinstance(value, dict) else value
            fault = _fault_in(inside, levels - 1) if levels else _TOO_DEEP
        else:
            fault = value.why if isinstance(value, _Fault) else ""
        if fault:
            return fault
    return ""


def _not_utf8(text: str) -> str:
    """The fault of a text whose bytes that are not UTF-8 are surrogates; empty if it has none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a text is not UTF-8 (byte 0x{ord(text[error.start]) & 0xFF:02x}): write what is no text as bytes"
    return ""


def _record(value: Any) -> dict[str, Any] | str:
    """The map of a value, or the fault of a value that is no map."""
    if not (fault := _fault_in((value,))) and not isinstance(value, dict):
        return f"not a map but {shown(_converted(value, _in_python))[:40]}"
    return fault or value


def _records(file: File, limit: int = 0) -> Iterator[dict[str, Any] | str]:
    """The records of a file, or what is wrong with them; those that begin in the first ``limit`` bytes, if it is not 0.

    Raises ValueError, one sentence without the path, where the file ends within a record or has what is no value, and what
    :func:`~beam_joins.pipelines.formats.line_files.open_lines` raises.
    """
    library, number, begin, read = _msgpack(), 1, 0, 0
    unpacker = library.Unpacker(
        object_pairs_hook=_map,
        ext_hook=_extension,
        strict_map_key=False,
        unicode_errors="surrogateescape",
        max_buffer_size=0,  # the limits are the end of the file, and that of a whole record below
        max_array_len=_LONGEST,
        max_map_len=_LONGEST,
    )
    whys = {library.FormatError: "byte 0xc1 begins no value", library.StackError: _TOO_DEEP, RecursionError: _TOO_DEEP}
    with open_lines(file.path) as opened:
        while data := opened.read(BLOCK_BYTES):
            read += len(data)
            unpacker.feed(data)
            try:
                for value in unpacker:
                    yield _record(value)
                    number, begin = number + 1, unpacker.tell()
                    if 0 < limit <= begin:
                        return
            except (ValueError, RecursionError) as error:
                raise ValueError(f"is damaged in record {number:,} ({whys.get(type(error), error)})") from error
            if read - begin > LONGEST_LINE:
                raise ValueError(f"has a record of more than {LONGEST_LINE:,} bytes")
    if read > begin:
        raise ValueError(f"is cut off within record {number:,}")


def _is_time(value: Any) -> bool:
    return type(value) not in _SCALARS and not isinstance(value, dict | list)


def _converted(value: Any, time: Callable[[Any], Any]) -> Any:
    """The value with the results of ``time`` in place of the times in it, at any depth."""
    if isinstance(value, dict):
        return {name: each if type(each) in _SCALARS else _converted(each, time) for name, each in value.items()}
    if isinstance(value, list):
        return [_converted(each, time) for each in value]
    return value if type(value) in _SCALARS else time(value)


def _micros(time: Any) -> Any:
    """Microseconds since the epoch, a decimal if they are not whole."""
    micros, part = divmod(time.to_unix_nano(), 1_000)
    return Decimal(time.to_unix_nano()).scaleb(-3) if part else micros


def _in_python(time: Any) -> dt.datetime | str:
    """The datetime, or the ISO text of a time that Python's datetime does not hold: with nanoseconds, or far from now."""
    if time.nanoseconds % 1_000 == 0:
        with suppress(OverflowError):
            at: dt.datetime = time.to_datetime()
            return at
    text: str = json.loads(_ISO(time.to_unix_nano()))
    return text


class MsgpackReader(FormatReader):
    """Reads MessagePack files, which are not cut: nothing in them says where a record begins."""

    name = "msgpack"
    may_be_empty = True
    expansion = 1

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """The whole file."""
        return [(0, 0)]

    def unit(self, file: File, column: str) -> Unit | None:
        """Microseconds where the first records have times; raises ValueError where others have numbers."""
        values = _first_values(file).get(column, ())
        if not any(map(_is_time, values)):
            return None
        if any(type(value) in (int, float) for value in values):
            raise ValueError(
                f"has times and numbers in column '{column}': write them as one, since nothing says what the numbers count"
            )
        return "us"

    def schema(self, file: File) -> pa.Schema:
        """The columns of the first records, in types that hold their values."""
        return pa.schema([(name, _type_of(values)) for name, values in _first_values(file).items()])

    def keeps_texts(self, file: File) -> bool:
        """Where no column has times, which JSON has no type for."""
        return not any(map(_is_time, itertools.chain.from_iterable(_first_values(file).values())))

    def described(self, file: File, columns: Columns, remembered: Layout) -> File:
        """The file; raises ValueError for times that order its records beside the event time: as numbers they could not be
        told from those of other files.
        """
        values = _first_values(file)
        for column in filter(None, (columns.sequence, *columns.within)):
            if any(map(_is_time, values.get(column, ()))):
                raise ValueError(
                    f"has times in column '{column}', which orders its records: write whole numbers, or order by the event time"
                )
        return file

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        return (_converted(each, _micros) for each in _records(file, file.look_bytes) if not isinstance(each, str))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The records, some at a time, all to be read one by one."""
        records, place = _records(part.file), part.first_place
        while some := list(itertools.islice(records, _RECORDS)):
            yield _raw_rows(some, pa.array(range(place, place + len(some)), pa.int64()), plan)
            place += len(some)

    def where(self, part: Part, place: int) -> str:
        """The number of the record."""
        return f"record {place % PLACES + 1:,}"


def _raw_rows(records: list[dict[str, Any] | str], places: pa.Array, plan: ReadPlan | None) -> RawRows:
    values: list[dict[str, Any] | str] = [_converted(record, _in_python) for record in records]
    structs, faults = None, dict[int, str]()
    if plan is not None and plan.typed is not None:
        structs, faults = fitting_rows(partial(_structs, values, plan), plan.typed, len(values))

    def row(n: int) -> dict[str, Any] | str:
        return faults.get(n) or _converted(records[n], _micros)

    return RawRows(places, row, structs=structs, value=values.__getitem__)


def _structs(values: list[dict[str, Any] | str], plan: ReadPlan, start: int, stop: int) -> pa.StructArray:
    """Some rows of records in typed columns; raises ValueError, a sentence, for a record that does not fit."""
    rows = [{} if isinstance(each, str) else each for each in values[start:stop]]
    return structs_of_values(rows, plan, lambda column, value: dumps_line({column: value}))


def _first_values(file: File) -> dict[str, list[Any]]:
    """The values of the columns in the first records, without nulls."""
    values = defaultdict[str, list[Any]](list)
    for record in itertools.islice(_records(file, file.look_bytes), _LOOKED_AT):
        for name, value in () if isinstance(record, str) else record.items():
            values[name] += [] if value is None else [value]
    return values


def _type_of(values: list[Any]) -> pa.DataType:
    in_python, are_times = [_converted(value, _in_python) for value in values], all(map(_is_time, values))
    return pa.timestamp("ns", "UTC") if are_times and str in map(type, in_python) else type_of_values(in_python)


class MsgpackEncoder:
    """Encodes rows as maps."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        _msgpack()  # a missing package is told where the pipeline is built
        self._names = columns.names

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The maps of rows. Raises OutputError for a time that has no text."""
        pack, rows = _msgpack().Packer().pack, zip(*map(_values, columns), strict=True)
        return pa.array([pack(dict(zip(self._names, row, strict=True))) for row in rows], pa.binary())

    def writer(self, file: Any) -> BytesWriter:
        """A writer of maps to a file."""
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
        of_unit, timestamp = NANOSECONDS[kind.unit], _msgpack().Timestamp.from_unix_nano
        return [None if time is None else timestamp(time * of_unit) for time in column.cast(pa.int64()).to_pylist()]
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


FORMAT: Final = FileFormat(reader=MsgpackReader(), encoder=MsgpackEncoder)
