"""The records of a Kafka topic as elements: pairs of key and value, or Arrow batches of declared columns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
        """The elements of these records. Raises InputError for a value or a time that is not what it should be."""
        if self.rows is not None:
            rows = [self._row(message, self.rows.schema) for message in messages]
            with said_of(*messages[:1], *messages[-1:]):
                return self.rows.of_dicts(after, rows)
        timed = []
        for message in messages:
            with said_of(message):
                key, value = message.key(), self._value(message)
                time = _COLUMNS["kafka_timestamp"](message) if self.timestamp_by is None else micros(self.timestamp_by(key, value))
            timed.append(Timed((key, value), time))
        return Piece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    def _value(self, message: Any) -> Any:
        value = message.value()
        return value if value is None or self.value == "bytes" else orjson.loads(value)

    def _row(self, message: Any, schema: pa.Schema) -> dict[str, Any]:
        with said_of(message):
            row = self._value(message) or {}
            if not isinstance(row, dict):
                raise ValueError("the value is not a JSON object")
        return {**row, **{name: read(message) for name, read in _COLUMNS.items() if name in schema.names}}


@contextmanager
def said_of(*messages: Any) -> Iterator[None]:
    """What is wrong with records, with their topic and offset; of several, the first and the last are given."""
    try:
        yield
    except ValueError as error:
        first, *more = messages
        offsets = " to ".join(dict.fromkeys(f"{message.offset()}" for message in (first, *more)))
        raise InputError(f"{first.topic()}, partition {first.partition()}, offset {offsets}: {error}") from error
