"""The records of a Kafka topic whose values are envelopes, as the rows that they are about."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics

from beam_joins.pipelines.changelogs.read_records import SKIPPED
from beam_joins.pipelines.formats.columns import TIME
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.enveloped import changes_of, marked_text
from beam_joins.pipelines.formats.envelopes.maxwell import Maxwell
from beam_joins.pipelines.formats.envelopes.row_change import Envelope
from beam_joins.pipelines.formats.envelopes.typed_texts import typed
from beam_joins.pipelines.formats.exact_json import loads
from beam_joins.pipelines.io.sources.follow import Piece, Timed
from beam_joins.pipelines.io.sources.records import said_of
from beam_joins.pipelines.io.sources.registered_avro import NUMBERED, DebeziumRegistered
from beam_joins.transforms.connect import NAMESPACE

TopicFormat = Literal["debezium", "maxwell"]
_NO_VALUE: Final = b"null"


class _Row(NamedTuple):
    text: bytes
    micros: int


class EnvelopedRecords:
    """Converts records with envelopes to elements: Arrow batches with the columns of ``schema``, or dicts;
    with the columns that envelopes add.

    Their event times are those of the envelopes. What is about no row is passed over. ``registry`` are the
    settings of the schema registry that has the schemas of values in Avro; by default values are JSON.
    """

    def __init__(
        self,
        format: TopicFormat,
        table: str,
        key: tuple[str, ...],
        schema: pa.Schema | None,
        registry: Mapping[str, Any] | None,
        placeholders: tuple[str, ...] = (),
    ) -> None:
        self._arguments = format, table, key, schema, registry, placeholders
        self._schema, self._registry = schema, registry

    def __reduce__(self) -> Any:
        return EnvelopedRecords, self._arguments

    @cached_property
    def _envelope(self) -> Envelope:
        name, table, key, schema, registry, placeholders = self._arguments
        if registry is not None:
            return DebeziumRegistered(registry, table, placeholders, key)
        if name == "debezium":
            return DebeziumJson(key, table, schema, placeholders)
        return Maxwell(key, table, schema)

    def piece(self, after: int, messages: Sequence[Any]) -> Piece:
        """The elements of these records.

        Raises InputError for a value that is no envelope, or a row that does not fit the schema.
        """
        rows = [row for message in messages for row in self._rows(message)]
        for what, count in self._envelope.skipped.items():
            Metrics.counter(NAMESPACE, f"{SKIPPED}{what}").inc(count)
        self._envelope.skipped.clear()
        elements = self._elements(rows, messages) if rows else []
        return Piece(after, elements, max((row.micros for row in rows), default=None), len(rows))

    def _rows(self, message: Any) -> list[_Row]:
        with said_of(message):
            value = message.value() or _NO_VALUE
            if self._registry is None and value.startswith(NUMBERED):
                raise ValueError("not JSON, but Avro with the number of a schema, as it seems: give schema_registry=")
            changes = changes_of(self._envelope, value)
            if isinstance(changes, str):
                raise ValueError(changes)
            rows = []
            for change in changes:
                if isinstance(change, str):
                    raise ValueError(change)
                rows.append(_Row(marked_text(change, message.offset(), placed=True), change.time))
        return rows

    def _elements(self, rows: Sequence[_Row], messages: Sequence[Any]) -> list[Timed]:
        schema = self._schema
        with said_of(messages[0], messages[-1]):
            if schema is None:
                return [Timed(loads(row.text), row.micros) for row in rows]
            batch = typed([row.text for row in rows], schema)
        return [Timed(batch, pc.min(batch[TIME]).as_py())]
