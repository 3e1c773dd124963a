"""The records of a Kafka topic as elements: pairs of key and value, or Arrow batches of declared columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
import pyarrow as pa

from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.sources.follow import Piece, Timed
from beam_joins.pipelines.sources.rows import Rows
from beam_joins.places import micros

Value = Literal["bytes", "json"]
_COLUMNS: Final[dict[str, Callable[[Any], Any]]] = {
    "kafka_key": lambda message: message.key(),
    "kafka_partition": lambda message: message.partition(),
    "kafka_offset": lambda message: message.offset(),
    "kafka_timestamp": lambda message: int(message.timestamp()[1]) * 1_000,
}
"""Columns of a schema that are filled with what Kafka knows of a record."""


@dataclass(frozen=True)
class Records:
    """How records become elements. ``timestamp_by`` is a column of the schema, or a function of key and value; ``None``: the record's own time."""

    value: Value
    timestamp_by: Any
    rows: Rows | None

    @classmethod
    def of(cls, value: Value, timestamp_by: Any, schema: Any) -> "Records":
        """Of what a user gives. Raises ``ValueError`` that lists the choices."""
        if value not in ("bytes", "json"):
            raise ValueError(f"value={value!r} is not one of 'bytes' and 'json'")
        if schema is not None:
            if value != "json":
                raise ValueError("schema= gives the columns of JSON: say value='json'")
            return cls(value, timestamp_by, Rows.of("kafka_timestamp" if timestamp_by is None else timestamp_by, schema))
        if timestamp_by is not None and not callable(timestamp_by):
            raise ValueError(
                f"timestamp_by={timestamp_by!r}: without a schema give a function of key and value, or none for Kafka's own time"
            )
        return cls(value, timestamp_by, None)

    def piece(self, after: int, messages: Sequence[Any]) -> Piece:
        """The elements of these records. Raises InputError for a value that is no JSON."""
        if self.rows is not None:
            return self.rows.of_dicts(after, [self._row(message, self.rows.schema) for message in messages])
        timed = []
        for message in messages:
            key, value = message.key(), self._value(message)
            time = _COLUMNS["kafka_timestamp"](message) if self.timestamp_by is None else micros(self.timestamp_by(key, value))
            timed.append(Timed((key, value), time))
        return Piece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    def _value(self, message: Any) -> Any:
        value = message.value()
        if value is None or self.value == "bytes":
            return value
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            where = f"{message.topic()}, partition {message.partition()}, offset {message.offset()}"
            raise InputError(f"{where}: the value is not JSON ({error})") from error

    def _row(self, message: Any, schema: pa.Schema) -> dict[str, Any]:
        row = self._value(message) or {}
        if not isinstance(row, dict):
            raise InputError(
                f"{message.topic()}, partition {message.partition()}, offset {message.offset()}: the value is no JSON object"
            )
        return {**row, **{name: read(message) for name, read in _COLUMNS.items() if name in schema.names}}
