"""Reads the rows of a changelog, from files or topics, plain or in envelopes, with the columns that are known
when the pipeline is built.
"""

import glob
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.content import Emit
from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.changelogs.changelog import Changelog, find_changelog, find_files, look_into, no_key
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.read_records import OnBadRecord, ReadRecords, RecordReader
from beam_joins.pipelines.formats.columns import KEY, Columns, Envelopes, enveloped
from beam_joins.pipelines.formats.csv_rows import layout_by
from beam_joins.pipelines.formats.envelopes.look import together
from beam_joins.pipelines.formats.files import File, Part
from beam_joins.pipelines.formats.layout import UNKNOWN
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.registry import FILE_FORMATS
from beam_joins.pipelines.io.sources.envelopes import EnvelopedRecords, TopicFormat
from beam_joins.pipelines.io.sources.event_time import EventTime
from beam_joins.pipelines.io.sources.files import GrowingFiles, growing_schema
from beam_joins.pipelines.io.sources.followed_changes import FollowedChanges
from beam_joins.pipelines.io.sources.read_table import Reads, key_in_columns, paths_of, table_of
from beam_joins.pipelines.io.sources.schema_registry import registry_settings
from beam_joins.pipelines.io.sources.topic_records import TopicRecords
from beam_joins.schema_union import common_schema
from beam_joins.spans import Span
from beam_joins.transforms.connect import (
    StateFolder,
    as_arrow,
    choice,
    folder_for,
    label_of,
    plain_schema,
    schema_text,
    text,
    text_schema,
)

FileFormat = Literal["debezium", "wal2json", "maxwell"]
_IN_COLUMNS: Final = {each.name: each for each in FILE_FORMATS if each.schema is not None}
"""The formats whose files say which columns they have."""
_SEEN: Final = "tables seen"
"""What a state remembers of the tables of envelopes; one of an earlier version does not have it."""
_TYPES: Final = "types of"
"""What it remembers of the columns of CSV files, with the label of the transform that has read them."""
_ENVELOPES: Final = "envelopes of"
"""What it remembers of envelopes, with the label of the transform that reads them: key and columns."""
_HELD: Final = "held"
"""The files of deletes and truncates alone, which are read with the first row."""
_log = logging.getLogger(__name__)


class ChangelogRows(NamedTuple):
    """What reads the rows, in the columns of a ``reading``, and the names of the columns of their key."""

    read: beam.PTransform[PBegin, Any]
    reading: Reading
    key: Sequence[str]

    def of_run(self, begin: PBegin) -> "ChangelogRows":
        """The same in each run."""
        return self

    def table(
        self,
        *,
        emit: Emit,
        without_earlier: Literal["fail", "drop"] = "fail",
        except_columns: Sequence[str] = (),
        ordered: bool = True,
    ) -> Reads:
        """What reads the table of the rows; ``ordered``: by their places where nothing else orders them."""
        is_typed = "row" in self.reading.forms
        made = table_of(
            self.reading,
            key=key_in_columns(self.key) if is_typed else KEY,
            emit=emit,
            without_earlier=without_earlier,
            except_columns=except_columns if is_typed else (),
            ordered=ordered,
        )
        return Reads(self.read, made, self.reading.about.names)


class _ReadFiles(beam.PTransform[PBegin, Any]):
    """The records of a changelog, which a reader makes; of the types that the runs before had, with a state."""

    def __init__(
        self, changelog: Changelog, reader: RecordReader, on_bad_record: OnBadRecord, parts: Sequence[Part] | None = None
    ) -> None:
        super().__init__()
        self._changelog, self._reader, self._on_bad_record, self._parts = changelog, reader, on_bad_record, parts

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        state = folder_for(begin)
        _require_table(self._changelog, state)
        changelog = self._changelog if state is None else _typed_as_before(self._changelog, state, label_of(begin.pipeline))
        read = ReadRecords(
            changelog.name,
            changelog.parts() if self._parts is None else self._parts,
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


class _ReadFollowed(beam.PTransform[PBegin, PCollection[Any]]):
    """The changes of what is followed, of the columns of a reading."""

    def __init__(self, changes: beam.PTransform[PBegin, PCollection[Any]], reading: Reading) -> None:
        super().__init__()
        self._changes, self._reading = changes, reading

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        return as_arrow(begin | "Records" >> self._changes, self._reading.schema)


def rows_of_plain_files(
    pattern: str, columns: Columns, key: Sequence[str], schema: Any, omitted: Sequence[str], on_bad_record: OnBadRecord
) -> ChangelogRows:
    """The rows of files whose records are rows, with the columns that the options name."""
    tops = top_columns(key)
    changelog = find_changelog("the files", pattern, replace(columns, key=tops))
    if schema == "said":
        schema = _schema_of(changelog)
    of_order = ("timestamp", columns.timestamp), *(("sequence", name) for name in (columns.sequence, *columns.within))
    of_operation = ("delete-column", columns.delete), ("truncates", columns.truncate), ("ignored", columns.ignore)
    named = [(columns.flag(option), name) for option, name in (*(("key", top) for top in tops), *of_order, *of_operation)]
    named += [("schema=", name) for name in (() if schema is None else schema.names)]
    changelog.require_all([(option, name) for option, name in (*named, *(("except_columns=", each) for each in omitted)) if name])
    if schema is not None:
        require_columns("key", key, schema)
        files = tuple(replace(file, layout=layout_by(schema, file.layout), declared=tuple(schema.names)) for file in changelog.files)
        changelog = replace(changelog, files=files)
    reading = reading_of(changelog.columns, key, schema, omitted)
    return ChangelogRows(_ReadFiles(changelog, ColumnReader(reading), on_bad_record), reading, key)


def reading_of(columns: Columns, key: Sequence[str], schema: pa.Schema | None, omitted: Sequence[str] = ()) -> Reading:
    """What a table in Python needs of records: typed columns, or dicts without those ``omitted``."""
    return Reading.of_objects(columns, paths_of(key), omitted) if schema is None else Reading.of_rows(columns, schema)


def require_columns(option: str, names: Sequence[str], schema: pa.Schema) -> None:
    """Raise ``ValueError`` for a column that is not in the schema."""
    if missing := [name for name in top_columns(names) if name not in schema.names]:
        raise ValueError(f"{option}={names!r}: schema= has no column {missing[0]!r}; it has {', '.join(schema.names)}")


def rows_of_growing_files(
    pattern: str,
    columns: Columns,
    key: Sequence[str],
    schema: Any,
    omitted: Sequence[str],
    out_of_orderness: Span,
    idle_after: Span | None,
) -> ChangelogRows:
    """The rows of files that grow, one after the other."""
    schema = growing_schema(pattern) if schema == "said" else schema
    if schema is not None:
        require_columns("key", key, schema)
    reading = reading_of(columns, key, schema, omitted)
    changes = GrowingFiles(pattern, FollowedChanges(reading), pa.RecordBatch, EventTime.of(out_of_orderness, idle_after), follow=True)
    return ChangelogRows(_ReadFollowed(changes, reading), reading, key)


def _schema_of(changelog: Changelog) -> pa.Schema | None:
    """The columns of the first file, where all files say which they have, whose values then are typed without
    being asked for: in the types that hold what all files have in them, such as milliseconds and microseconds.
    """
    first = _IN_COLUMNS.get(changelog.files[0].format)
    if first is None or first.schema is None or not all(file.format in _IN_COLUMNS for file in changelog.files):
        return None
    schemas = [
        plain_schema(each.schema(file.path)) for file in changelog.files if (each := _IN_COLUMNS[file.format]).schema is not None
    ]
    names = schemas[0].names
    try:
        return common_schema([pa.schema([field for field in schema if field.name in names]) for schema in schemas])
    except ValueError:  # the run names the file whose values do not fit
        return schemas[0]


class EnvelopedFiles:
    """The rows that the envelopes in files are about. Their key and types are those of the options, of the runs before,
    with a state, or of the first changes.
    """

    def __init__(
        self,
        pattern: str,
        format: FileFormat,
        table: str,
        key: list[str],
        schema: Any,
        unavailable_value: str | Sequence[str],
        on_bad_record: OnBadRecord,
    ) -> None:
        self._name, self._pattern, self._key, self._on_bad_record = table or "changelog", pattern, key, on_bad_record
        self._schema, self._said = schema if isinstance(schema, pa.Schema) else None, schema == "said"
        self._envelopes = Envelopes(format, table, top_columns(key), self._schema, placeholders(unavailable_value, format))
        self._changelog = find_changelog(self._name, pattern, enveloped(self._name), (), self._envelopes, keyed_later=True)
        for column in () if self._schema is None else self._schema.names:  # Arrow would make a column of nulls of a name with a typo
            self._changelog.require("schema=", column)
        types = self._changelog.evidence.types if self._said else ()
        together(self._name, types)
        for column in self._envelopes.key if types else ():
            self._changelog.require("key=", column)

    def of_run(self, begin: PBegin) -> ChangelogRows:
        """The rows of this run; keeps key and types for the next ones."""
        state, label = folder_for(begin), f"{_ENVELOPES} {label_of(begin.pipeline)}"
        before: dict[str, Any] = {} if state is None else state.inputs.get(label, {})
        changelog = self._with_held(before.get(_HELD, []))
        evidence = changelog.evidence
        key = self._key or before.get("key") or list(changelog.files[0].key)
        if not key:
            raise InputError(changelog.absent or no_key(self._name, changelog.files[0].format, changelog.columns))
        said = together(self._name, evidence.types) if self._said and evidence.types else None
        # schemas of Debezium's have all columns, also those of deletes
        is_said = not self._said or (self._envelopes.format == "debezium" and said is not None)
        is_decided = "types" in before or not evidence.without_rows or is_said
        if "types" in before:
            said = before["types"] and text_schema(before["types"])
        whole = evidence.whole or (before.get("whole") and text_schema(before["whole"]))
        if state is not None:
            held = [] if is_decided or not evidence.is_there else sorted(file.path for file in changelog.files)
            types = {"types": said and schema_text(said)} if is_decided else {_HELD: held}
            state.inputs[label] = {"key": key, "whole": whole and schema_text(whole), **types}
        for doubt in filter(None, ["" if whole or self._schema else evidence.doubt, *(each.sentence for each in changelog.waiting)]):
            _log.warning("%s", doubt)
        files = tuple(replace(file, key=top_columns(key), columns=file.columns or whole) for file in changelog.files)
        typed = said if self._said else self._schema
        columns = enveloped(self._name)
        if typed is None:
            reading = Reading.of_objects(columns, paths_of(key), columns.about_the_change())
        else:
            reading = Reading.of_rows(columns, typed, said, changelog.bytes_text)
        # what deletes nothing waits for the types of a row
        parts = list[Part]() if state is not None and not is_decided else None
        read = _ReadFiles(replace(changelog, files=files), ColumnReader(reading), self._on_bad_record, parts)
        return ChangelogRows(read, reading, key)

    def _with_held(self, held: Sequence[str]) -> Changelog:
        """The changelog of this run's files and of those of earlier ones that had no row, which this one reads."""
        if not held:
            return self._changelog
        files = list[File]()
        for path in held:
            of_path = find_files(self._name, glob.escape(path) if is_local(path) else path, self._envelopes)
            if not of_path:
                raise InputError(
                    f"{self._name}: {path} is gone, which no run has read as none had a row: restore it, or begin with an empty state"
                )
            files += of_path
        files += [file for file in find_files(self._name, self._pattern, self._envelopes) if file.path not in held]
        return look_into(self._name, tuple(files), enveloped(self._name), keyed_later=True)


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
    if schema is not None:
        require_columns("key", key, schema)
    if schema_registry is not None and format != "debezium":
        raise ValueError(f"schema_registry= is for format='debezium': Avro is not what format={format!r} is written in")
    registry = None if schema_registry is None else registry_settings(schema_registry)
    columns = enveloped(None)
    reading = reading_of(columns, key, schema, columns.about_the_change())
    records = EnvelopedRecords(in_topics, table, tops, reading, registry, placeholders(unavailable_value, format))
    elements = TopicRecords(topics, records, pa.RecordBatch, option="source", **consumer)
    return ChangelogRows(_ReadFollowed(elements, reading), reading, key)


def placeholders(unavailable_value: str | Sequence[str], format: str) -> tuple[str, ...]:
    """The placeholders for unchanged values, from the option.

    Raises ValueError for other values, and for a format that has none.
    """
    several = not isinstance(unavailable_value, str) and isinstance(unavailable_value, Sequence)
    named: tuple[Any, ...] = tuple(unavailable_value) if several else (unavailable_value,)
    for each in named:
        text("unavailable_value", each, "a placeholder, as in the connector's unavailable.value.placeholder")
    if named and format != "debezium":
        raise ValueError(f"unavailable_value= is for format='debezium': format={format!r} has no placeholders")
    return named


def top_columns(key: Iterable[str]) -> tuple[str, ...]:
    """The columns that names lead into, each once: ``customer`` for ``customer.id``."""
    return tuple(dict.fromkeys(column.partition(".")[0] for column in key))
