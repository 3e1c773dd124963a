"""Avro values of Kafka that name their schema by its number in a registry: the byte 0, four bytes of the
number, a record.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import fastavro

from beam_joins.pipelines.formats.avro_blocks import avro_reason
from beam_joins.pipelines.formats.envelopes.debezium import MARKS, NULL, is_deleted, marks_in
from beam_joins.pipelines.formats.envelopes.debezium_records import EventRows, RecordEvents, RowsAt
from beam_joins.pipelines.formats.envelopes.row_change import RowChange
from beam_joins.pipelines.formats.envelopes.tombstones import OF_ROWS, PLACED, RowEvent
from beam_joins.pipelines.formats.types.record_kinds import rows_of_avro
from beam_joins.pipelines.systems.kafka.schema_registry import AvroSchema, SchemaRegistry

NUMBERED: Final = b"\0"
"""The first byte of a value that names its schema by number."""
_HEADER: Final = 5
_UNNUMBERED: Final = (
    "the value does not begin with the byte 0 and the number of a schema: let the connector write with Confluent's "
    "AvroConverter, or leave out"
    " schema_registry= if its values are JSON"
)
_T = TypeVar("_T")
Record = dict[str, Any]
RecordOfRow: TypeAlias = tuple[Record, EventRows]


class _Kind(NamedTuple, Generic[_T]):
    """A record type of a schema: its reader, and the object made for it."""

    schema: Any
    made: _T


class _Kinds(NamedTuple, Generic[_T]):
    """The record types of a schema by their places in its union, ``None`` for null; a schema that is no union
    has one.
    """

    kinds: list[_Kind[_T] | None]
    is_union: bool


class RegisteredAvro(Generic[_T]):
    """Decodes Avro values whose schemas are in a registry.

    ``known`` is asked once for each record of a schema, and its answer is given with each such record.
    """

    def __init__(self, settings: Mapping[str, Any], make: Callable[[RowsAt], _T]) -> None:
        self._registry = SchemaRegistry(settings)
        self._made_by = make
        self._schemas: dict[int, _Kinds[_T]] = {}

    def read(self, value: bytes) -> tuple[Record, _T] | None:
        """The record, and the object made for its type; ``None`` for a null.

        Raises ValueError, a sentence, for a value that cannot be read.
        """
        if len(value) < _HEADER or not value.startswith(NUMBERED):
            raise ValueError(_UNNUMBERED)
        number = int.from_bytes(value[1:_HEADER], "big")
        if number not in self._schemas:
            self._schemas[number] = self._kinds(number, self._registry.schema(number))
        kinds, is_union = self._schemas[number]
        body = io.BytesIO(value)
        body.seek(_HEADER)
        try:
            kind = kinds[_place(body) if is_union else 0]
            record: Any = None if kind is None else fastavro.schemaless_reader(body, kind.schema, None)
        except Exception as error:  # fastavro raises whatever its decoder stumbles over
            raise ValueError(f"the value is damaged, or not of its schema {number} ({avro_reason(error)})") from error
        if body.tell() < len(value):
            raise ValueError(
                f"the value is damaged, or not of its schema {number} ({len(value) - body.tell()} bytes behind the record)"
            )
        return None if kind is None else (record, kind.made)

    def _kinds(self, number: int, schema: AvroSchema) -> _Kinds[_T]:
        is_union = isinstance(schema.schema, list)
        kinds = [self._kind(number, member, schema.names) for member in (schema.schema if is_union else [schema.schema])]
        return _Kinds(kinds, is_union)

    def _kind(self, number: int, member: Any, names: Mapping[str, Any]) -> _Kind[_T] | None:
        whole = names.get(member, member) if isinstance(member, str) else member
        if whole == "null":
            return None
        if not isinstance(whole, dict) or whole["type"] != "record":
            raise ValueError(f"schema {number} is not one of records: name the topic of a table")
        return _Kind(whole, self._made_by(partial(rows_of_avro, whole, names=names)))


class DebeziumRegistered(RecordEvents):
    """Reads Debezium's events from Avro values whose schemas are in a registry."""

    def __init__(self, settings: Mapping[str, Any], table: str, placeholders: Iterable[str] = (), key: tuple[str, ...] = ()) -> None:
        super().__init__(table, placeholders, key)
        self._avro = RegisteredAvro(settings, EventRows.of)

    def changes(self, item: bytes | RecordOfRow) -> Iterator[RowChange]:
        """The changes of a value, or of a delete that was made of a tombstone; empty for an event that is about no row."""
        read = None if item == NULL else self._avro.read(item) if isinstance(item, bytes) else item
        if read is None:
            self.tombstone()
        else:
            yield from self.changes_in(*read)

    def event(self, value: bytes) -> RowEvent | None:
        """The event of a value, ``None`` for others."""
        try:
            read = self._avro.read(value)
        except ValueError:  # which is told where its changes are asked for
            return None
        if read is None:
            return None
        record, rows = read
        if rows.within is None:
            made = {name: value if name in MARKS else None for name, value in record.items()}
            made |= {"__deleted": "true", f"__source_{PLACED}": True}
            return None if MARKS.isdisjoint(record) else RowEvent((made, rows), is_deleted(marks_in(record)))
        is_delete = record.get("op") == "d"
        row, source = record.get("before" if is_delete else "after"), record.get("source")
        if record.get("op") not in OF_ROWS or not isinstance(row, dict) or source is None:
            return None
        made = {**record, "op": "d", "before": dict.fromkeys(row), "after": None, "source": {**source, PLACED: True}}
        return RowEvent((made, rows), is_delete)

    def deleted(self, last: RecordOfRow, key: bytes | None) -> RecordOfRow | None:
        """The delete as a record, and its rows."""
        try:
            read = self._avro.read(key or b"")
        except ValueError:
            return None
        record, rows = last
        row, members = record if rows.within is None else record["before"], {} if read is None else read[0]
        if not members or not members.keys() <= row.keys():
            return None
        whole = {**row, **members}
        return whole if rows.within is None else {**record, "before": whole}, rows


def _place(body: io.BytesIO) -> int:
    place: Any = fastavro.schemaless_reader(body, "long", None)
    if place < 0:
        raise ValueError(f"member {place} of a union")
    return int(place)
