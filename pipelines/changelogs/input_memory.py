"""The memory of an input in a state: which files runs have read, and what these said of columns, types and key."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from beam_joins.pipelines.changelogs.changelog_files import changelog_of_table, look_into
from beam_joins.pipelines.changelogs.compared_snapshots import LastSnapshot, compared
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, DatabaseTable
from beam_joins.pipelines.changelogs.processed_files import SeenFiles
from beam_joins.pipelines.changelogs.sampling import is_time
from beam_joins.pipelines.changelogs.tombstones_in_files import Beginning
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.csv_schema import UNKNOWN
from beam_joins.pipelines.formats.envelopes.wal2json_log import ReadBefore
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.transforms.connect.runs import StateFolder, schema_text, text_schema

_SNAPSHOT: Final = "snapshot"
"""The name under which an input remembers its last snapshot, and a state keeps the rows of it."""


class InputMemory:
    """The memory of the input ``name``, as a run finds it (``stored``, empty for a new input) and adds to it.

    ``files`` are those that runs have read; ``columns`` those of the rows; ``key`` that of envelopes; ``typed`` the types of
    columns that a reader has settled; ``open_deletes`` the number of deletes of Debezium's events in files whose tombstones are
    still to come, ``None`` before the first run; ``more`` what a reader remembers beside these, by names of its own.
    ``read_before`` are the paths that earlier runs have read of an input that is read again.

    >>> memory = InputMemory("orders", {"columns": ["id", "amount"], "key": ["id"]})
    >>> memory.is_new, memory.columns, memory.stored()["key"]
    (False, ('id', 'amount'), ['id'])
    """

    def __init__(self, name: str, stored: Mapping[str, Any], read_before: Collection[str] = ()) -> None:
        self._name, self.is_new, self._read_before = name, not stored, read_before
        self.files = SeenFiles(name, stored.get("files"))
        self.columns: tuple[str, ...] = tuple(stored.get("columns") or ())
        self.key: list[str] = list(stored.get("key") or ())
        self.typed: pa.Schema | None = _schema(stored.get("typed"))
        self.open_deletes: int | None = None if self.is_new else stored.get("open deletes", 0)
        self._is_there: bool = stored.get("there", bool(self.columns))
        self._layout: dict[str, str] = dict(stored.get("types") or {})
        self._whole: pa.Schema | None = _schema(stored.get("whole"))
        self._waiting: dict[str, int] = dict(stored.get("waiting") or {})
        self._times: dict[str, bool] = dict(stored.get("times") or {})
        self._parts: int = stored.get("parts") or 0
        self._read = ReadBefore(**stored.get("transactions") or {})
        self.more: dict[str, Any] = {}
        known = self.stored()
        self.more = {name: value for name, value in stored.items() if name not in known}

    def stored(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {
            **self.more,
            "files": self.files.stored(),
            "columns": self.columns,
            "key": self.key,
            "typed": _text(self.typed),
            "open deletes": self.open_deletes,
            "there": self._is_there,
            "types": self._layout,
            "whole": _text(self._whole),
            "waiting": self._waiting,
            "times": self._times,
            "parts": self._parts,
            "transactions": self._read._asdict(),
        }

    def gone(self, files: Sequence[File]) -> int:
        """The number of files that earlier runs have read of an input that is read again, and that are not among these."""
        return len({*self._read_before} - {file.path for file in files})

    @property
    def last_snapshot(self) -> LastSnapshot | None:
        """The last snapshot that runs have read; ``None`` for an input of other records."""
        last = self.more.get(_SNAPSHOT)
        return None if last is None else LastSnapshot(**last)

    def unseen(self, files: Sequence[File]) -> list[File]:
        """The files that no run has read, and all of the last snapshot if one of them has changed. Raises InputError for another
        file that has changed since a run has read it.
        """
        of_last = () if self.last_snapshot is None else self.last_snapshot.files
        unseen = self.files.unseen(files, of_last)
        if any(file.path in of_last for file in unseen):
            return [file for file in files if file in unseen or file.path in of_last]
        return unseen

    def changes(self, changelog: Changelog, state: StateFolder, name: str, again: str) -> Changelog:
        """The changes of the new snapshots of a changelog, :func:`compared` with the last one, whose rows a state keeps by a name;
        ``again`` is the option that reads all snapshots anew.
        """
        last, kept = self.last_snapshot, f"{_SNAPSHOT} {name}"
        made = compared(changelog, last, None if last is None else state.kept(kept), state.scratch, again)
        if made.last is not None and made.last != last:
            self.more[_SNAPSHOT] = made.last._asdict()
            state.keep(kept, made.rows)
        self._parts += len(made.changelog.parts()) - len(changelog.parts())
        return made.changelog

    def waiting(self, files: Sequence[File]) -> list[File]:
        """The parts of files, among those that earlier runs have read, that wait for the end of a transaction."""
        return [replace(file, start=self._waiting[file.path]) for file in files if file.path in self._waiting]

    def changelog(
        self, files: Sequence[File], columns: Columns, table: DatabaseTable | None = None, *, keyed_later: bool = False
    ) -> Changelog:
        """The new ``files``, read as those of earlier runs were. ``table``: what a database says of the table that they are of;
        ``keyed_later``: the key of envelopes may be unknown. Raises InputError.
        """
        if columns.enveloped and self.key:
            files, columns = [replace(file, key=tuple(self.key)) for file in files], replace(columns, key=tuple(self.key))
        if table is not None:
            changelog = changelog_of_table(self._name, files, columns, table)
            self.key = list(changelog.columns.key)
            return self._numbered(changelog)
        changelog = look_into(
            self._name,
            tuple(files),
            columns,
            remembered=tuple(self._layout.items()),
            before=self._whole,
            read=self._read,
            is_known=self._is_there,
            held_times=self._times,
            keyed_later=keyed_later,
        )
        if changelog.beginning is not None and self.open_deletes is not None:
            changelog = replace(changelog, beginning=Beginning("", self.open_deletes))
        self._is_there = self._is_there or changelog.evidence.is_there
        self._read, self._whole = changelog.read, changelog.evidence.whole or self._whole
        self._waiting = {each.path: each.start for each in changelog.waiting if not each.comes_again}
        changelog = self._numbered(changelog)
        for file in changelog.files:
            self.key = list(file.key)
            self._layout = {**{name: kind for name, kind in file.layout if kind != UNKNOWN}, **self._layout}
        held = {name: is_time(kind) for name, kind in changelog.types}
        self._times = {**{name: held_time for name, held_time in held.items() if held_time is not None}, **self._times}
        return changelog

    def _numbered(self, changelog: Changelog) -> Changelog:
        """The changelog with the columns of earlier runs, and its parts numbered behind theirs."""
        changelog = replace(changelog, remembered=self.columns, first_part=self._parts)
        self.columns = changelog.rows_have
        self._parts += len(changelog.parts())
        return changelog


def _schema(text: str | None) -> pa.Schema | None:
    return None if text is None else text_schema(text)


def _text(schema: pa.Schema | None) -> str | None:
    return None if schema is None else schema_text(schema)
