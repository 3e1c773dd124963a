"""Reads the rows that change events in files are about, with the types and the key of the first run."""

import glob
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.changelogs.changelog_files import files_of, find_files, no_key
from beam_joins.pipelines.changelogs.changelog_rows import ChangelogRows, read_files, top_columns
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.changelogs.read_table import paths_of
from beam_joins.pipelines.changelogs.reader_memory import ReaderMemory
from beam_joins.pipelines.formats.changelog_columns import Envelopes, enveloped
from beam_joins.pipelines.formats.envelopes.debezium_placeholders import placeholders
from beam_joins.pipelines.formats.envelopes.inferred_key import together
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.values.schema_evolution import union_schema

EventFormat = Literal["debezium", "wal2json", "maxwell"]
_HELD: Final = "held"
"""The files of deletes and truncates alone, which are read with the first row."""
_IN_PYTHON: Final = "numbers"
_IS_DECIDED: Final = "is decided"
_TABLE: Final = "table"
_log = logging.getLogger(__name__)


class _Types(NamedTuple):
    """The types that events declare, and whether later runs keep them: a run without a row does not say them."""

    declared: pa.Schema | None
    is_decided: bool


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
        self._columns = enveloped(self._name, self._envelopes)

    def of_run(self, begin: PBegin) -> ChangelogRows:
        """The rows of this run; keeps key and types for the next ones."""
        memory = ReaderMemory(begin, self._name, self._earlier_memory)
        if self._key:
            memory.key = [*self._envelopes.key]
        find = partial(self._files, memory.more.pop(_HELD, []), folders=memory.is_of_runs)
        files = memory.new(find, self._pattern, self._columns)
        changelog = memory.changelog(files, self._columns, keyed_later=True)
        self._check(changelog)
        if not (key := self._key or memory.key):
            raise InputError(changelog.absent or no_key(self._name, changelog.files[0].reader, changelog.columns))
        changelog.require_table()
        # rows of a state have the numbers of MongoDB as the run that began it has read them
        is_in_python = self._envelopes.format == "debezium" and (memory.is_new or _IN_PYTHON in memory.more)
        table = _alike(memory.more.get(_TABLE, ""), self._table)
        types = self._types(changelog, memory)
        more = {_TABLE: table, **({_IN_PYTHON: True} if is_in_python else {})}
        if types.is_decided:
            memory.typed, memory.more = types.declared, {**more, _IS_DECIDED: True}
            memory.keep()
        else:
            held = sorted(file.path for file in changelog.files) if changelog.evidence.is_there else []
            memory.keep_nothing({**more, "key": top_columns(key), "open deletes": None, _HELD: held})
        for doubt in self._doubts(changelog):
            _log.warning("%s", doubt)
        whole = changelog.evidence.whole
        of_run = tuple(replace(file, key=top_columns(key), columns=file.columns or whole) for file in changelog.files)
        plan = self._plan(key, types.declared, changelog, in_python=is_in_python)
        # what deletes nothing waits for the types of a row
        parts = list[Part]() if memory.is_of_runs and not types.is_decided else None
        read = read_files(replace(changelog, files=of_run), plan, self._on_bad_record, memory, parts)
        options = {"format": self._envelopes.format, "table": table, "key": list(key), "unavailable_value": sorted(self._placeholders)}
        return ChangelogRows(read, plan, key, options)

    def _types(self, changelog: Changelog, memory: ReaderMemory) -> "_Types":
        """The types of this run, and of those before, which may get wider."""
        evidence = changelog.evidence
        declared = together(self._name, evidence.types) if self._by_declaration and evidence.types else None
        if _IS_DECIDED in memory.more:
            widens = memory.typed is not None and declared is not None
            return _Types(union_schema(memory.typed, declared) if widens else memory.typed, True)
        # schemas of Debezium's have all columns, also those of deletes
        has_all = self._envelopes.format == "debezium" and declared is not None
        return _Types(declared, not evidence.without_rows or not self._by_declaration or has_all)

    def _plan(self, key: Sequence[str], declared: pa.Schema | None, changelog: Changelog, *, in_python: bool) -> ReadPlan:
        """The plan to read rows in typed columns, or as dicts, ``in_python`` with its numbers."""
        typed, columns = declared if self._by_declaration else self._schema, enveloped(self._name)
        if typed is not None:
            return ReadPlan.of_rows(columns, typed, declared, changelog.bytes_text)
        return replace(ReadPlan.of_objects(columns, paths_of(key), columns.about_the_change()), in_python=in_python)

    def _doubts(self, changelog: Changelog) -> list[str]:
        """The sentences on rows that may lack columns, and on transactions that are not whole."""
        evidence = changelog.evidence
        lacking = "" if evidence.whole or self._schema else evidence.doubt
        return [sentence for sentence in (lacking, *(each.sentence for each in changelog.waiting)) if sentence]

    def _check(self, changelog: Changelog) -> None:
        """Raise InputError for columns that options name and rows do not have."""
        for column in () if self._schema is None else self._schema.names:  # Arrow would make a column of nulls of a name with a typo
            changelog.require("schema=", column)
        types = changelog.evidence.types if self._by_declaration else ()
        together(self._name, types)
        for column in self._envelopes.key if types else ():
            changelog.require("key=", column)

    def _files(self, held: Sequence[str], *, folders: bool) -> tuple[File, ...]:
        """The files of this run, with ``folders`` also those of a folder, behind those of earlier ones that had no row, which this
        one reads.
        """
        files = list[File]()
        for path in held:
            of_path = find_files(self._name, glob.escape(path) if is_local(path) else path, self._envelopes)
            if not of_path:
                raise InputError(
                    f"{self._name}: {path} is gone, which no run has read as none had a row: restore it, or begin with an empty state"
                )
            files += of_path
        there = files_of(self._name, self._pattern, self._columns, folders=folders)
        return (*files, *(file for file in there if file.path not in held))

    def _earlier_memory(self, inputs: Mapping[str, Any], label: str) -> dict[str, Any]:
        """The memory that earlier versions have kept: key and types, and no files."""
        before = inputs.get(f"envelopes of {label}")
        if before is None:
            return {}
        seen = inputs.get("tables seen")
        taken = {name: before[name] for name in (_TABLE, _IN_PYTHON, _HELD, "whole") if before.get(name)}
        is_there = seen is None or self._table in seen
        decided = {_IS_DECIDED: True, "typed": before["types"]} if "types" in before else {}
        return {**taken, **decided, "key": [*top_columns(before["key"])], "there": is_there, "open deletes": None}


def _alike(before: str, table: str) -> str:
    """The name that a table had before, where that is the same name, whole or its last part."""
    return before if before and table and (f".{before}".endswith(f".{table}") or f".{table}".endswith(f".{before}")) else table
