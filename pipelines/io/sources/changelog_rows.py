"""Reads the rows of a changelog, from files or topics, plain or in envelopes, with the columns that are known
when the pipeline is built.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.pipelines.changelogs.changelog import Changelog, find_changelog
from beam_joins.pipelines.changelogs.column_reader import IGNORED
from beam_joins.pipelines.changelogs.read_records import SKIPPED, OnBadRecord, ReadRecords, RecordReader
from beam_joins.pipelines.formats.columns import Columns, Envelopes, enveloped
from beam_joins.pipelines.formats.csv_rows import layout_by
from beam_joins.pipelines.formats.envelopes.look import together
from beam_joins.pipelines.formats.layout import UNKNOWN
from beam_joins.pipelines.io.read_growing_files import ReadGrowingFiles
from beam_joins.pipelines.io.sources.enveloped_parts import MARKS, EnvelopedReader, placeholders
from beam_joins.pipelines.io.sources.envelopes import EnvelopedRecords, TopicFormat
from beam_joins.pipelines.io.sources.plain_parts import IN_COLUMNS, Ignored, PlainReader
from beam_joins.pipelines.io.sources.rows import require_instants
from beam_joins.pipelines.io.sources.schema_registry import registry_settings
from beam_joins.pipelines.io.sources.topic_records import TopicRecords
from beam_joins.schema_union import common_schema
from beam_joins.transforms.connect import NAMESPACE, StateFolder, as_arrow, choice, folder_for, label_of, plain_schema

FileFormat = Literal["debezium", "wal2json", "maxwell"]
_SEEN: Final = "tables seen"
"""What a state remembers of the tables of envelopes; one of an earlier version does not have it."""
_TYPES: Final = "types of"
"""What it remembers of the columns of CSV files, with the label of the transform that has read them."""
_log = logging.getLogger(__name__)


class ChangelogRows(NamedTuple):
    """What reads the rows, as batches where they are ``in_columns`` and dicts elsewhere; and the ``key`` of
    envelopes.
    """

    read: beam.PTransform[PBegin, Any]
    in_columns: bool
    key: list[str]


class _ReadFiles(beam.PTransform[PBegin, Any]):
    """The records of a changelog, which a reader makes; of the types that the runs before had, with a state."""

    def __init__(self, changelog: Changelog, reader: RecordReader, on_bad_record: OnBadRecord) -> None:
        super().__init__()
        self._changelog, self._reader, self._on_bad_record = changelog, reader, on_bad_record

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        state = folder_for(begin)
        _require_table(self._changelog, state)
        changelog = self._changelog if state is None else _typed_as_before(self._changelog, state, label_of(begin.pipeline))
        read = ReadRecords(
            changelog.name,
            changelog.parts(),
            self._reader,
            bytes=changelog.bytes,
            on_bad_record=self._on_bad_record,
            remedy="on_bad_record='drop' goes on without such records",
        )
        return begin | "Records" >> read


def _require_table(changelog: Changelog, state: StateFolder | None) -> None:
    """Raise InputError for a table that no event is of, unless a run before, with this state, has seen it."""
    seen = None if state is None else state.inputs.get(_SEEN)
    if changelog.absent and (state is None or state.is_new or (seen is not None and changelog.files[0].table not in seen)):
        changelog.require_table()
    if state is not None and changelog.evidence.is_there and (state.is_new or seen is not None):
        state.inputs[_SEEN] = sorted({*(seen or ()), *(file.table for file in changelog.files)})


def _typed_as_before(changelog: Changelog, state: StateFolder, label: str) -> Changelog:
    """The changelog, whose columns of CSV files are of the types that they had in the runs before, with this state."""
    before = state.inputs.get(f"{_TYPES} {label}", {})
    files = tuple(
        replace(file, layout=tuple((name, before.get(name, kind)) for name, kind in file.layout)) for file in changelog.files
    )
    seen = {name: kind for file in files for name, kind in file.layout if kind != UNKNOWN}
    if seen:
        state.inputs[f"{_TYPES} {label}"] = {**before, **seen}
    return replace(changelog, files=files)


class _ReadTopics(beam.PTransform[PBegin, PCollection[Any]]):
    """The rows of topics: batches with the columns of ``schema``, or dicts."""

    def __init__(self, records: TopicRecords, schema: pa.Schema | None) -> None:
        super().__init__()
        self._records, self._schema = records, schema

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        rows: PCollection[Any] = begin | "Records" >> self._records
        return rows if self._schema is None else as_arrow(rows, self._schema)


def rows_of_plain_files(
    pattern: str,
    timestamp_by: str,
    columns: Sequence[str],
    schema: Any,
    ignored: Ignored | None,
    on_bad_record: OnBadRecord,
    csv: tuple[str, str] = ("", ""),
) -> ChangelogRows:
    """The rows of files whose records are rows, in which the options name these columns; ``csv`` as of :class:`Columns`."""
    changelog = find_changelog("the files", pattern, Columns(key=(columns[0],), timestamp=timestamp_by, csv=csv, side=None))
    if schema == "said":
        schema = _schema_of(changelog)
    of_schema = [] if schema is None else schema.names
    for option, names in (("schema=", of_schema), ("key=, timestamp_by= or sequence_by=", columns)):
        for column in names:
            changelog.require(option, column)
    if schema is not None and timestamp_by in schema.names:
        require_instants(timestamp_by, schema)
    if schema is not None:
        files = tuple(replace(file, layout=layout_by(schema, file.layout), declared=tuple(schema.names)) for file in changelog.files)
        changelog = replace(changelog, files=files)
    return ChangelogRows(_ReadFiles(changelog, PlainReader(schema, ignored), on_bad_record), schema is not None, [])


class WithoutIgnored(beam.PTransform[PBegin, PCollection[Any]]):
    """What is read of files that grow, without the records that are no changes."""

    def __init__(self, read: ReadGrowingFiles, ignored: Ignored) -> None:
        super().__init__()
        self._read, self._ignored = read, ignored

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        rows, schema, ignored = begin | "All" >> self._read, self._read.schema, self._ignored

        def kept(element: Any) -> list[Any]:
            elements, count = ignored.kept(element)
            if count:
                Metrics.counter(NAMESPACE, f"{SKIPPED}{IGNORED}").inc(count)
            return elements

        kind: Any = dict[str, Any] if schema is None else pa.RecordBatch
        changes: PCollection[Any] = rows | "Changes" >> beam.FlatMap(kept).with_output_types(kind)
        return changes if schema is None else as_arrow(changes, schema)


def _schema_of(changelog: Changelog) -> pa.Schema | None:
    """The columns of the first file, where all files say which they have, whose values then are typed without
    being asked for: in the types that hold what all files have in them, such as milliseconds and microseconds.
    """
    first = IN_COLUMNS.get(changelog.files[0].format)
    if first is None or first.schema is None or not all(file.format in IN_COLUMNS for file in changelog.files):
        return None
    schemas = [
        plain_schema(each.schema(file.path)) for file in changelog.files if (each := IN_COLUMNS[file.format]).schema is not None
    ]
    names = schemas[0].names
    try:
        return common_schema([pa.schema([field for field in schema if field.name in names]) for schema in schemas])
    except ValueError:  # the run names the file whose values do not fit
        return schemas[0]


def rows_of_enveloped_files(
    pattern: str,
    format: FileFormat,
    table: str,
    key: list[str],
    schema: Any,
    unavailable_value: str | Sequence[str],
    on_bad_record: OnBadRecord,
) -> ChangelogRows:
    """The rows that the envelopes in files are about."""
    name, columns = table or "changelog", schema if isinstance(schema, pa.Schema) else None
    tops = top_columns(key)
    envelopes = Envelopes(format, table, tops, columns, placeholders(unavailable_value, format))
    changelog = find_changelog(name, pattern, enveloped(name), (), envelopes)
    evidence = changelog.evidence
    expected = together(name, evidence.types) if schema == "said" and evidence.types else None
    typed = expected if columns is None else columns
    for column in () if columns is None else columns.names:  # Arrow would make a column of nulls of a name with a typo
        changelog.require("schema=", column)
    for column in () if expected is None else tops:
        changelog.require("key=", column)
    for doubt in (evidence.doubt if columns is None else "", *(each.sentence for each in changelog.waiting)):
        if doubt:
            _log.warning("%s", doubt)
    key = key or list(changelog.files[0].key)
    reader = EnvelopedReader(typed, None if typed is None else expected)
    return ChangelogRows(_ReadFiles(changelog, reader, on_bad_record), typed is not None, key)


def rows_of_topics(
    topics: str | Sequence[str],
    format: str,
    table: str,
    key: list[str],
    schema: pa.Schema | None,
    schema_registry: str | Mapping[str, Any] | None,
    unavailable_value: str | Sequence[str],
    consumer: Mapping[str, Any],
) -> ChangelogRows:
    """The rows that the envelopes in topics are about; ``consumer``: the options of :class:`TopicRecords`."""
    in_topics = choice("format", format, TopicFormat)
    tops = top_columns(key)
    missing = [] if schema is None else [column for column in tops if column not in schema.names]
    if missing:
        raise ValueError(f"key={key!r}: schema= has no column {missing[0]!r}")
    if schema_registry is not None and format != "debezium":
        raise ValueError(f"schema_registry= is for format='debezium': Avro is not what format={format!r} is written in")
    registry = None if schema_registry is None else registry_settings(schema_registry)
    marked = None if schema is None else pa.schema([*schema, *MARKS])
    records = EnvelopedRecords(in_topics, table, tops, marked, registry, placeholders(unavailable_value, format))
    elements = TopicRecords(topics, records, dict[str, Any] if schema is None else pa.RecordBatch, option="source", **consumer)
    return ChangelogRows(_ReadTopics(elements, marked), marked is not None, key)


def top_columns(key: Iterable[str]) -> tuple[str, ...]:
    """The columns that names lead into, each once: ``customer`` for ``customer.id``."""
    return tuple(dict.fromkeys(column.partition(".")[0] for column in key))
