"""The records of a Kafka topic whose values are envelopes, as the rows that they are about."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.changelog_files.columns import TIME
from beam_joins.pipelines.changelog_files.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.changelog_files.envelopes.enveloped import changes_of, count_skipped, marked_text
from beam_joins.pipelines.changelog_files.envelopes.maxwell import Maxwell
from beam_joins.pipelines.changelog_files.envelopes.row_change import Envelope
from beam_joins.pipelines.changelog_files.envelopes.typed_texts import typed
from beam_joins.pipelines.changelog_files.exact_json import loads
from beam_joins.pipelines.sources.follow import Piece, Timed
from beam_joins.pipelines.sources.records import said_of
from beam_joins.pipelines.sources.registered_avro import NUMBERED, DebeziumRegistered

TopicFormat = Literal["debezium", "maxwell"]
_ENVELOPES: Final[dict[TopicFormat, Callable[[tuple[str, ...], str, pa.Schema | None], Envelope]]] = {
    "debezium": DebeziumJson,
    "maxwell": Maxwell,
}
_NO_VALUE: Final = b"null"


class _Row(NamedTuple):
    text: bytes
    micros: int


class EnvelopedRecords:
    """How records become elements: Arrow batches of the columns of ``schema``, or dicts without one, with columns for what the envelopes say.

    Their event times are those of the envelopes. What is about no row is passed over. ``registry`` are the settings of the schema registry that has
    the schemas of values in Avro; by default values are JSON.
    """

    def __init__(
        self, format: TopicFormat, table: str, key: tuple[str, ...], schema: pa.Schema | None, registry: Mapping[str, Any] | None
    ) -> None:
        self._given = format, table, key, schema, registry
        self._schema, self._registry = schema, registry

    def __reduce__(self) -> Any:
        return EnvelopedRecords, self._given

    @cached_property
    def _envelope(self) -> Envelope:
        name, table, key, schema, registry = self._given
        if registry is not None:
            return DebeziumRegistered(registry, table)
        return _ENVELOPES[name](key, table, schema)

    def piece(self, after: int, messages: Sequence[Any]) -> Piece:
        """The elements of these records. Raises InputError for a value that is no envelope, or a row that does not fit the schema."""
        rows = [row for message in messages for row in self._rows(message)]
        count_skipped(self._envelope)
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
        return [_Row(marked_text(change, message.offset()), change.time) for change in changes]

    def _elements(self, rows: Sequence[_Row], messages: Sequence[Any]) -> list[Timed]:
        schema = self._schema
        with said_of(messages[0], messages[-1]):
            if schema is None:
                return [Timed(loads(row.text), row.micros) for row in rows]
            batch = typed([row.text for row in rows], schema)
        return [Timed(batch, pc.min(batch[TIME]).as_py())]
