"""Reads the rows that change events in Kafka topics are about."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin

from beam_joins.pipelines.changelogs.changelog_files import find_files
from beam_joins.pipelines.changelogs.changelog_rows import ChangelogRows, ReadFollowed, plan_of, require_columns, top_columns
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.followed_changes import followed
from beam_joins.pipelines.changelogs.inspected_changelog import bytes_of, parts_of
from beam_joins.pipelines.changelogs.read_records import SKIPPED, ReadRecords
from beam_joins.pipelines.changelogs.read_table import table_label
from beam_joins.pipelines.changelogs.source_reads import ReadPiece
from beam_joins.pipelines.formats.changelog_columns import Envelopes, enveloped
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.debezium_placeholders import placeholders
from beam_joins.pipelines.formats.envelopes.enveloped import changes_of, marked_text
from beam_joins.pipelines.formats.envelopes.maxwell import Maxwell
from beam_joins.pipelines.formats.envelopes.row_change import Envelope
from beam_joins.pipelines.formats.envelopes.tombstones import JsonEvents, Tombstones
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.json_lines import json_rows
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.systems.kafka.kafka_records import said_of
from beam_joins.pipelines.systems.kafka.registered_avro import NUMBERED, DebeziumRegistered
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from beam_joins.pipelines.systems.kafka.topic_records import TopicRecords
from beam_joins.pipelines.systems.kafka.topic_rounds import read_topic_in_run
from beam_joins.transforms.connect.checks import choice
from beam_joins.transforms.connect.metrics import NAMESPACE
from beam_joins.transforms.connect.runs import StateFolder, folder_for, label_of

TopicFormat = Literal["debezium", "maxwell"]
_NO_VALUE: Final = b"null"
_PARTS: Final = "parts of topics of"
"""The name under which a state has the number of parts of files that a reader has made, with its label: they order records."""


class EnvelopedRecords:
    """Converts records with envelopes to elements: batches of the columns that a plan asks for.

    Their event times are those of the envelopes. What is about no row is passed over. ``schema`` are the columns of the
    rows, where they are known, and ``registry`` the
    settings of the schema registry that has the schemas of values in Avro; by default values are JSON.
    """

    def __init__(
        self,
        format: TopicFormat,
        table: str,
        key: tuple[str, ...],
        plan: ReadPlan,
        registry: Mapping[str, Any] | None,
        placeholders: tuple[str, ...] = (),
    ) -> None:
        self._arguments = format, table, key, plan, registry, placeholders
        self._plan, self._registry = plan, registry

    def __reduce__(self) -> Any:
        return EnvelopedRecords, self._arguments

    @cached_property
    def _envelope(self) -> Envelope:
        name, table, key, plan, registry, placeholders = self._arguments
        schema = plan.typed
        if registry is not None:
            return DebeziumRegistered(registry, table, placeholders, key)
        if name == "debezium":
            return DebeziumJson(key, table, schema, placeholders)
        return Maxwell(key, table, schema)

    @cached_property
    def _tombstones(self) -> Tombstones | None:
        """The deletes of Debezium's tombstones; Maxwell's events have none."""
        envelope = self._envelope
        if isinstance(envelope, Maxwell):
            return None
        return Tombstones({}, envelope if isinstance(envelope, DebeziumRegistered) else JsonEvents())

    def piece(self, after: int, messages: Sequence[Any]) -> ReadPiece:
        """The elements of these records.

        Raises InputError for a value that is no envelope, or a row that does not fit the schema.
        """
        tombstones = self._tombstones
        values = (message.value() for message in messages) if tombstones is None else tombstones.values(messages)
        by_message = [(message, self._texts(message, value or _NO_VALUE)) for message, value in zip(messages, values, strict=True)]
        texts = [text for _, of_message in by_message for text in of_message]
        offsets = [message.offset() for message, of_message in by_message for _ in of_message]
        for what, count in self._envelope.skipped.items():
            Metrics.counter(NAMESPACE, f"{SKIPPED}{what}").inc(count)
        self._envelope.skipped.clear()
        raw = json_rows(b"\n".join(texts), 0, self._plan)
        if raw is None:
            return ReadPiece(after, [], None, 0)
        made = followed(self._plan, after, [raw._replace(places=pa.array(offsets, pa.int64()))])
        if made.fault is not None:
            offset, fault = made.fault
            with said_of(*(message for message in messages if message.offset() == offset)):
                raise ValueError(fault)
        return made.piece

    def _texts(self, message: Any, value: Any) -> list[bytes]:
        """The JSON texts of the rows of a record's changes, with the columns that its envelope adds."""
        with said_of(message):
            if self._registry is None and value[:1] == NUMBERED:
                raise ValueError("not JSON, but Avro with the number of a schema, as it seems: give schema_registry=")
            changes = changes_of(self._envelope, value)
            if isinstance(changes, str):
                raise ValueError(changes)
            texts = []
            for change in changes:
                if isinstance(change, str):
                    raise ValueError(change)
                texts.append(marked_text(change, message.offset()).replace(b"\n", b" "))
        return texts


class EventTopics:
    """The rows that the envelopes in topics are about; ``consumer``: the options of :class:`TopicRecords`."""

    def __init__(
        self,
        topics: str | Sequence[str],
        format: str,
        table: str,
        key: list[str],
        schema: pa.Schema | None,
        schema_registry: str | Mapping[str, Any] | None,
        unavailable_value: str | Sequence[str],
        consumer: Mapping[str, Any],
    ) -> None:
        in_topics = choice("format", format, TopicFormat)
        tops = top_columns(key)
        if schema is not None:
            require_columns("key", key, schema)
        if schema_registry is not None and format != "debezium":
            raise ValueError(f"schema_registry= is for format='debezium': Avro is not what format={format!r} is written in")
        registry = None if schema_registry is None else registry_settings(schema_registry)
        columns = enveloped(None)
        plan = replace(plan_of(columns, key, schema, columns.about_the_change()), in_python=format == "debezium")
        stand_in = placeholders(unavailable_value, format)
        records = EnvelopedRecords(in_topics, table, tops, plan, registry, stand_in)
        self._elements = TopicRecords(topics, records, pa.RecordBatch, option="topics", **consumer)
        self._rows = ChangelogRows(ReadFollowed(self._elements, plan), plan, key)
        self._envelopes = Envelopes(format, table, tops, schema, stand_in)
        self._in_rounds = registry is None and not consumer["follow"] and consumer["start"] == "earliest"

    def of_run(self, begin: PBegin) -> ChangelogRows:
        """The rows of all records, or with a state of those that no run has read, up to the present ends of topics."""
        state = folder_for(begin)
        return self._rows if state is None or not self._in_rounds else self._since_last_run(begin, state)

    def _since_last_run(self, begin: PBegin, state: StateFolder) -> ChangelogRows:
        label, plan = label_of(begin.pipeline), self._rows.plan
        anew, place = state.plan.is_read_again(table_label(label)), f"{_PARTS} {label}"
        files = list[File]()
        for topic in self._elements.topics:
            read = read_topic_in_run(topic, self._elements.config, state, f"{topic} of {label}", from_beginning=anew)
            spooled = find_files(topic, read.pattern, self._envelopes) if read.records else ()
            files += [replace(file, shown=f"topic {topic}") for file in spooled]
        parts = parts_of(files, state.inputs.get(place, 0))
        state.inputs[place] = state.inputs.get(place, 0) + len(parts)
        return self._rows._replace(read=ReadRecords("rows", parts, ColumnReader(plan), bytes=bytes_of(files)))
