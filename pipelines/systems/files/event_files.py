"""Reads the rows that change events in files are about, with the types and the key of the first run."""

import glob
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.changelogs.changelog_files import find_changelog, find_files, look_into, no_key
from beam_joins.pipelines.changelogs.changelog_rows import ChangelogRows, ReadFiles, top_columns
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.changelogs.read_table import paths_of
from beam_joins.pipelines.changelogs.tombstones_in_files import Beginning
from beam_joins.pipelines.formats.changelog_columns import Envelopes, enveloped
from beam_joins.pipelines.formats.envelopes.debezium_placeholders import placeholders
from beam_joins.pipelines.formats.envelopes.inferred_key import together
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.transforms.connect.runs import folder_for, label_of, schema_text, text_schema
from beam_joins.values.schema_evolution import union_schema

EventFormat = Literal["debezium", "wal2json", "maxwell"]
_ENVELOPES: Final = "envelopes of"
"""The name under which a state remembers envelopes, with the label of the transform that reads them: key and columns.
"""
_HELD: Final = "held"
"""The files of deletes and truncates alone, which are read with the first row."""
_IN_PYTHON: Final = "numbers"
_BEGINNING: Final = "beginning"
"""The path of the first file of the first run."""
_log = logging.getLogger(__name__)


class EventFiles:
    """The rows that the envelopes in files are about. Their key and types are those of the options, of the runs before,
    with a state, or of the first changes.
    """

    def __init__(
        self,
        pattern: str,
        format: EventFormat,
        table: str,
        key: list[str],
        schema: Any,
        unavailable_value: str | Sequence[str],
        on_bad_record: OnBadRecord,
    ) -> None:
        self._name, self._pattern, self._key, self._on_bad_record = table or "changelog", pattern, key, on_bad_record
        self._table = table
        self._schema, self._by_declaration = schema if isinstance(schema, pa.Schema) else None, schema == "declared"
        self._placeholders = placeholders(unavailable_value, format)
        self._envelopes = Envelopes(format, table, top_columns(key), self._schema, self._placeholders)
        self._changelog = find_changelog(self._name, pattern, enveloped(self._name, self._envelopes), keyed_later=True)
        for column in () if self._schema is None else self._schema.names:  # Arrow would make a column of nulls of a name with a typo
            self._changelog.require("schema=", column)
        types = self._changelog.evidence.types if self._by_declaration else ()
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
            raise InputError(changelog.absent or no_key(self._name, changelog.files[0].reader, changelog.columns))
        declared = together(self._name, evidence.types) if self._by_declaration and evidence.types else None
        # schemas of Debezium's have all columns, also those of deletes
        is_declared = not self._by_declaration or (self._envelopes.format == "debezium" and declared is not None)
        is_decided = "types" in before or not evidence.without_rows or is_declared
        is_read_again = state is not None and state.plan.is_read_again(f"{label_of(begin.pipeline)}/Table")
        if "types" in before and not (is_read_again and declared is not None):
            stored: pa.Schema | None = before["types"] and text_schema(before["types"])
            declared = union_schema(stored, declared) if stored and declared is not None else stored
        # rows of a state have the numbers of MongoDB as the run that began it has read them
        is_in_python = self._envelopes.format == "debezium" and (not before or _IN_PYTHON in before)
        whole = evidence.whole or (before.get("whole") and text_schema(before["whole"]))
        table = _alike(before.get("table", ""), self._table)
        if state is not None:
            held = [] if is_decided or not evidence.is_there else sorted(file.path for file in changelog.files)
            types = {"types": declared and schema_text(declared)} if is_decided else {_HELD: held}
            numbers = {_IN_PYTHON: True} if is_in_python else {}
            beginning = before.get(_BEGINNING, changelog.files[0].path)
            state.inputs[label] = {
                "key": key,
                "table": table,
                "whole": whole and schema_text(whole),
                _BEGINNING: beginning,
                **numbers,
                **types,
            }
            if changelog.beginning is not None:
                changelog = replace(changelog, beginning=Beginning(beginning))
        for doubt in filter(None, ["" if whole or self._schema else evidence.doubt, *(each.sentence for each in changelog.waiting)]):
            _log.warning("%s", doubt)
        files = tuple(replace(file, key=top_columns(key), columns=file.columns or whole) for file in changelog.files)
        typed = declared if self._by_declaration else self._schema
        columns = enveloped(self._name)
        if typed is None:
            reading = Reading.of_objects(columns, paths_of(key), columns.about_the_change())
            reading = replace(reading, in_python=is_in_python)
        else:
            reading = Reading.of_rows(columns, typed, declared, changelog.bytes_text)
        # what deletes nothing waits for the types of a row
        parts = list[Part]() if state is not None and not is_decided else None
        read = ReadFiles(replace(changelog, files=files), ColumnReader(reading), self._on_bad_record, parts)
        options = {"format": self._envelopes.format, "table": table, "key": list(key), "unavailable_value": sorted(self._placeholders)}
        return ChangelogRows(read, reading, key, options)

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


def _alike(before: str, table: str) -> str:
    """The name that a table had before, where that is the same name, whole or its last part."""
    return before if before and table and (f".{before}".endswith(f".{table}") or f".{table}".endswith(f".{before}")) else table
