"""The records of a Kafka topic as elements: pairs of key and value, or Arrow batches of declared columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.source_reads import ReadPiece, Timed
from beam_joins.pipelines.changelogs.source_rows import SourceRows, time_given
from beam_joins.pipelines.formats.envelopes.debezium_records import RowsAt
from beam_joins.pipelines.formats.json_lines import json_rows
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads, object_of, object_text
from beam_joins.pipelines.formats.types.record_kinds import RecordRows
from beam_joins.pipelines.systems.kafka.registered_avro import RegisteredAvro
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from beam_joins.transforms.connect.checks import choice

Value = Literal["bytes", "json", "avro"]
_NO_ROW: Final = b"{}"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COLUMNS: Final[dict[str, Callable[[Any], Any]]] = {
    "kafka_key": lambda message: message.key(),
    "kafka_partition": lambda message: message.partition(),
    "kafka_offset": lambda message: message.offset(),
    "kafka_timestamp": lambda message: int(message.timestamp()[1]) * 1_000,
    "kafka_tombstone": lambda message: message.value() is None,
}
"""Columns of a schema that are filled with the metadata of a record in Kafka."""
_HEADER: Final = "kafka_header_"
"""The begin of the names of columns that are filled with the last header of the rest of the name."""


@dataclass(frozen=True)
class Records:
    """Converts records of Kafka to elements.

    ``timestamp_by`` is a column of the schema, or a function of key and value; ``None``: the record's own
    time.

    ``registry`` are the settings of the schema registry of values in Avro.
    """

    value: Value
    timestamp_by: Any
    rows: SourceRows | None
    registry: Mapping[str, Any] | None

    @classmethod
    def of(cls, value: Value, timestamp_by: Any, schema: Any, schema_registry: str | Mapping[str, Any] | None) -> "Records":
        """From the options. Raises ``ValueError`` that lists the choices."""
        choice("value", value, Value)
        if (value == "avro") != (schema_registry is not None):
            raise ValueError("value='avro' and schema_registry= belong together: give both or none")
        registry = None if schema_registry is None else registry_settings(schema_registry)
        if schema is not None:
            if value == "bytes":
                raise ValueError("schema= gives the columns of JSON and Avro: say value='json' or value='avro'")
            return cls(
                value, timestamp_by, SourceRows.of("kafka_timestamp" if timestamp_by is None else timestamp_by, schema), registry
            )
        if timestamp_by is not None and not callable(timestamp_by):
            raise ValueError(
                f"timestamp_by={timestamp_by!r}: without a schema give a function of key and value, or none for Kafka's own time"
            )
        return cls(value, timestamp_by, None, registry)

    def piece(self, after: int, messages: Sequence[Any]) -> ReadPiece:
        """The elements of these records.

        Raises InputError for a value or a time that is not what it should be.
        """
        if self.rows is not None and (plan := self.rows.plan) is not None:
            return self._in_columns(after, messages, self.rows, plan)
        timed = []
        for message in messages:
            with said_of(message):
                key, value = message.key(), self._value(message)
                time = (
                    _COLUMNS["kafka_timestamp"](message)
                    if self.timestamp_by is None
                    else time_given("ReadKafka", self.timestamp_by, key, value)
                )
            timed.append(Timed((key, value), time))
        return ReadPiece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    @cached_property
    def _avro(self) -> RegisteredAvro[RecordRows]:
        assert self.registry is not None
        return RegisteredAvro(self.registry, _columns_of)

    def _in_columns(self, after: int, messages: Sequence[Any], rows: SourceRows, plan: ReadPlan) -> ReadPiece:
        """The elements of values in the columns of the schema."""
        if not messages:  # between two places are marks of transactions alone
            return ReadPiece(after, [], None, 0)
        texts = []
        for message in messages:
            with said_of(message):
                texts.append(self._text(message, plan.value).replace(b"\n", b" "))
        raw = json_rows(b"\n".join(texts), 0, plan)
        assert raw is not None
        made = rows.in_columns(after, [raw._replace(places=pa.array([each.offset() for each in messages], pa.int64()))], plan)
        if made.fault is not None:
            offset, fault = made.fault
            with said_of(*(message for message in messages if message.offset() == offset)):
                raise ValueError(fault)
        return made.piece

    def _text(self, message: Any, columns: pa.Schema) -> bytes:
        """The JSON object of a value, with the columns of a schema that Kafka fills."""
        text = (self._avro_text(message) if self.value == "avro" else message.value()) or _NO_ROW
        of_kafka = (field for field in columns if field.name in _COLUMNS or field.name.startswith(_HEADER))
        filled = {field.name: _value_of(message, field) for field in of_kafka}
        if not filled:
            return text
        try:
            row = _MEMBERS.decode(text) | {name: msgspec.Raw(dumps_line(value)[:-1]) for name, value in filled.items()}
        except msgspec.MsgspecError as error:
            fault = object_of(text)
            raise ValueError(fault if isinstance(fault, str) else str(error)) from None
        return object_text(row, row.values())

    def _avro_text(self, message: Any) -> bytes | None:
        """The row of a value in Avro as a JSON object, as its schema means it."""
        value = message.value()
        read = None if value is None else self._avro.read(value)
        if read is None:
            return None
        record, columns = read
        return columns.text(record)

    def _value(self, message: Any) -> Any:
        if self.value == "avro":
            text = self._avro_text(message)
            return None if text is None else loads(text)
        value = message.value()
        return value if value is None or self.value == "bytes" else loads(value)


def _value_of(message: Any, field: pa.Field) -> Any:
    """The metadata of a record in Kafka for a field, in the JSON value of the field's type."""
    value: Any
    if field.name.startswith(_HEADER):
        name = field.name.removeprefix(_HEADER)
        value = next((text for header, text in reversed(message.headers() or ()) if header == name), None)
    else:
        value = _COLUMNS[field.name](message)
    if isinstance(value, bytes) and pa.types.is_string(field.type):
        return value.decode()
    if isinstance(value, bytes) and pa.types.is_integer(field.type):
        return int(value)
    if value is None or not pa.types.is_timestamp(field.type):
        return value
    return (datetime(1970, 1, 1) + timedelta(microseconds=value)).isoformat() + ("Z" if field.type.tz else "")


@contextmanager
def said_of(*messages: Any) -> Iterator[None]:
    """The message for bad records, with topic and offset of the first and the last one."""
    try:
        yield
    except ValueError as error:
        first, *more = messages
        offsets = " to ".join(dict.fromkeys(f"{message.offset()}" for message in (first, *more)))
        raise InputError(f"{first.topic()}, partition {first.partition()}, offset {offsets}: {error}") from error


def _columns_of(rows_at: RowsAt) -> RecordRows:
    columns = rows_at()
    assert columns is not None
    return columns
