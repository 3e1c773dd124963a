"""Rounds of reading a Delta table: the first reads its rows, each later one the versions since the one before.

The log is read here, the files that it names by the readers of their rows. (The package's own reader of the feed is one stream,
and does not find the files of partitions whose values have a slash or a space.)
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import unquote
from uuid import uuid4

import msgspec
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from pyarrow.fs import FileType, PyFileSystem
from xxhash import xxh3_128_hexdigest

from beam_joins.errors import InputError, kind_of
from beam_joins.extras import needs
from beam_joins.pipelines.base.input_error import BEGIN_ANEW, writing
from beam_joins.pipelines.base.paths import absolute, is_local
from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable
from beam_joins.pipelines.formats.changelog_columns import POSITION, TIME
from beam_joins.pipelines.formats.file_parts import File, Storage
from beam_joins.pipelines.formats.parquet import ParquetEncoder
from beam_joins.pipelines.formats.read_plan import Kind
from beam_joins.pipelines.systems.delta.delta_changes import CHANGE_TYPE, DELETED, INSERTED, DeltaChanges
from beam_joins.transforms.connect.files import create_file
from beam_joins.transforms.connect.runs import StateFolder
from beam_joins.transforms.connect.tables import plain_schema

with needs("delta"):
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler

DeltaSequence = Literal["_commit_version", "_commit_timestamp"]
"""The column that orders the changes of a Delta table."""
_FEED: Final = "delta.enableChangeDataFeed"
_MICROS: Final = 1_000
_LONGEST: Final = 300
_HELD: Final[dict[Callable[[pa.DataType], bool], Kind]] = {
    pa.types.is_integer: "whole numbers",
    pa.types.is_decimal: "whole numbers",
    pa.types.is_string: "text",
    pa.types.is_date: "text",
    pa.types.is_boolean: "true or false",
    pa.types.is_binary: "bytes",
}
"""The kinds of the keys in columns of these types, in words."""


class DeltaSource(NamedTuple):
    """A Delta table at an absolute path, ``shown`` as the user knows it, and what orders its changes."""

    path: str
    shown: str
    sequence_by: DeltaSequence
    options: dict[str, str]

    @classmethod
    def at(cls, path: str, sequence_by: DeltaSequence, storage_options: Mapping[str, str] | None = None) -> Self:
        """The table at a path as a user gives it."""
        return cls(absolute(path), path, sequence_by, dict(storage_options or {}))

    def table(self, version: int | None = None) -> DeltaTable:
        """The table at a version, by default the newest. Raises InputError."""
        with self.errors():
            return DeltaTable(self.path, version=version, storage_options=self.options)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns the errors of the package into InputError."""
        try:
            yield
        except TableNotFoundError:
            raise InputError(f"there is no Delta table at {self.shown}") from None
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise kind_of(error)(f"cannot read {self.shown}: {_reason(error)}") from error


class DeltaRound(NamedTuple):
    """The round of a run for a Delta table: the files, and the table as it is; ``remembered`` is the state for the
    next run. The changes are those behind the version ``before``; ``None``: the rows are read as they are, at
    ``version``.
    """

    files: tuple[File, ...]
    table: DatabaseTable
    version: int
    remembered: dict[str, Any]
    before: int | None

    @property
    def is_first(self) -> bool:
        """Whether the rows are read as they are."""
        return self.before is None

    def files_of(self, key: Sequence[str]) -> tuple[File, ...]:
        """The files, read by a key."""
        return tuple(replace(file, key=tuple(key)) for file in self.files)


def read_delta_in_run(
    source: DeltaSource, name: str, state: StateFolder, *, version: int | None = None, from_beginning: bool = False
) -> DeltaRound:
    """The round of the changes since the last run with this state, which remembers it by ``name``; it counts when the
    run does. ``from_beginning``: the rows as they are, whatever the state remembers.

    Raises InputError.
    """
    name = f"delta {name}"
    before = None if from_beginning else state.inputs.get(name)
    read = read_delta(source, before, state.scratch, version=version, goes_on=True)
    state.has_arrivals |= read.version != read.before
    state.inputs[name] = read.remembered
    return read


def read_delta(
    source: DeltaSource,
    before: dict[str, Any] | None,
    folder: str,
    *,
    version: int | None = None,
    goes_on: bool = False,
    most_rows: int | None = None,
) -> DeltaRound:
    """The changes since the run that ``before`` was remembered of, up to a version, by default the newest.

    ``goes_on``: later runs are to read the changes. ``most_rows``: of the rows as they are at most so many are read, for a
    look. Rows that cannot be read from the files of the table alone are written into ``folder``.

    Raises InputError.
    """
    with source.errors():
        reader = _Reader(source, source.table(version))
        reader.require_readable(before, goes_on=goes_on)
        time, files = reader.snapshot(folder, most_rows) if before is None else reader.changes(before)
        since: dict[str, Any] = before or {}
        commit = reader.commit(reader.version)
        now = {"id": reader.id, "version": reader.version, "time": time, "sequence_by": source.sequence_by, "commit": commit}
        return DeltaRound(tuple(files), reader.described(), reader.version, {**since, **now}, since.get("version"))


class _Reader:
    """Reads the log of a table at a version."""

    def __init__(self, source: DeltaSource, table: DeltaTable) -> None:
        metadata = table.metadata()
        self.id, self.version = str(metadata.id), int(table.version())
        self._source, self._table, self._settings = source, table, metadata.configuration
        self._partitioned_by: list[str] = metadata.partition_columns
        self._columns = plain_schema(pa.schema(table.schema()))
        self._files = PyFileSystem(DeltaStorageHandler(source.path, source.options))

    def described(self) -> DatabaseTable:
        """The table as it is."""
        types = {field.name: field.type for field in self._columns}
        held = {name: word for name, kind in types.items() for is_kind, word in _HELD.items() if is_kind(kind)}
        return DatabaseTable(self._source.shown, (), self._columns, {name: str(kind) for name, kind in types.items()}, held)

    def require_readable(self, before: dict[str, Any] | None, *, goes_on: bool) -> None:
        """Raise InputError for a table whose files or changes cannot be read, or that is not that of the last run."""
        shown = self._source.shown
        if self._settings.get("delta.columnMapping.mode", "none") != "none":
            raise InputError(f"{shown} has a column mapping (delta.columnMapping.mode), which is not read: write it anew without")
        if goes_on and self._settings.get(_FEED, "").lower() != "true":
            raise InputError(
                f"the Change Data Feed of {shown} is not enabled, without which a later run cannot read its changes: set the table "
                f"property {_FEED} to true"
            )
        if before is None:
            return
        if self.id != before["id"] or self.version < before["version"]:
            was = f"id {before['id']}, version {before['version']}"
            raise InputError(
                f"{shown} was made anew since the last run (id {self.id}, version {self.version}; was {was}): {BEGIN_ANEW}"
            )
        if before.get("commit") and self.commit(before["version"]) not in ("", before["commit"]):
            raise InputError(
                f"{shown} was put back to an earlier state since the last run: its version {before['version']} is another commit than "
                f"the one that was read: {BEGIN_ANEW}"
            )
        if self._source.sequence_by != before["sequence_by"]:
            raise InputError(
                f"sequence_by={self._source.sequence_by!r}: the runs before have read {shown} by {before['sequence_by']!r}: begin "
                "with an empty state"
            )

    def snapshot(self, folder: str, most_rows: int | None) -> tuple[int, list[File]]:
        """The time of the version, and files with the rows of the table."""
        actions = pa.table(self._table.get_add_actions())
        named = {"path", "size_bytes", "modification_time", "partition"}  # without the statistics of all columns
        added = actions.select([name for name in actions.column_names if name in named]).to_pylist()
        if (log := self._actions(self.version)) is None:  # a checkpoint has taken its place
            time = max((each["modification_time"] for each in added), default=self._table.metadata().created_time) * _MICROS
        else:
            time = self._time(self.version, log)
        about = self._about(self.version, time, INSERTED)
        if most_rows is not None or len(pa.table(self._table.deletion_vectors())):
            return time, [self._written(folder, about, most_rows)]
        return time, [self._file(each["path"], each["size_bytes"], (*about, *(each.get("partition") or {}).items())) for each in added]

    def changes(self, before: dict[str, Any]) -> tuple[int, list[File]]:
        """The time of the version, and files with the changes since the last run."""
        time, files, paths = before["time"], list[File](), dict[str, int]()
        for version in range(before["version"] + 1, self.version + 1):
            actions = self._actions(version)
            if actions is None:
                raise self._gone(version)
            at = self._time(version, actions)
            time = at if self._source.sequence_by == "_commit_version" else max(at, time + 1)
            for each, change in _changed_files(actions):
                about = (*self._about(version, time, change), *self._partition(version, each))
                files.append(self._file(each["path"], each.get("size") or 0, about))
                paths.setdefault(unquote(each["path"]), version)
        for found in self._files.get_file_info([path for path in paths if "://" not in path]):
            if found.type == FileType.NotFound:
                raise self._gone(paths[found.path])
        return time, files

    def _gone(self, version: int) -> InputError:
        return InputError(
            f"{self._source.shown}: version {version} was removed, which no run has read: {BEGIN_ANEW}, and keep "
            "versions for longer (delta.logRetentionDuration, delta.deletedFileRetentionDuration)"
        )

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        """The log of a version, if it is there."""
        try:
            with self._files.open_input_file(_log_of(version)) as file:
                return [msgspec.json.decode(line) for line in file.read().splitlines() if line]
        except FileNotFoundError:
            return None

    def commit(self, version: int) -> str:
        """A hash of the log of a version; empty if it was removed."""
        try:
            with self._files.open_input_file(_log_of(version)) as file:
                return xxh3_128_hexdigest(file.read())
        except FileNotFoundError:
            return ""

    def _time(self, version: int, actions: list[dict[str, Any]]) -> int:
        """The time of a commit, or where it does not say that of its file, in microseconds."""
        info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
        millis = info.get("inCommitTimestamp", info.get("timestamp"))
        return int(self._files.get_file_info(_log_of(version)).mtime_ns // _MICROS if millis is None else millis * _MICROS)

    def _about(self, version: int, time: int, change: str) -> tuple[tuple[str, Any], ...]:
        """The columns that are the same for all rows of a file; rows of the feed's files state their ``change``
        themselves.
        """
        position = version if self._source.sequence_by == "_commit_version" else time
        return (TIME, time), (POSITION, position), *([(CHANGE_TYPE, change)] if change else [])

    def _partition(self, version: int, action: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The values of the partition columns of a file, by the log of a version."""
        values = action.get("partitionValues") or {}
        unread = "has deletion vectors and no feed" if action.get("deletionVector") else "does not say the partition of a file"
        if action.get("deletionVector") or not {*self._partitioned_by} <= {*values}:
            raise InputError(f"{self._source.shown}: version {version} {unread}, which is not read: {BEGIN_ANEW}")
        return ((name, _value(values[name], self._columns.field(name).type)) for name in self._partitioned_by)

    def _file(self, path: str, size: int, constants: tuple[tuple[str, Any], ...]) -> File:
        name, root = unquote(path), self._source.path
        storage = None
        if "://" in path:  # of a table that this one was cloned from
            name = name.removeprefix("file://")
        elif is_local(root):
            name = os.path.join(root, name)
        else:
            storage = Storage(root, tuple(self._source.options.items()))
        shown = f"{self._source.shown}, {path}"
        return File(
            path=name, bytes=size, shown=shown, reader=DeltaChanges(), columns=self._columns, constants=constants, storage=storage
        )

    def _written(self, folder: str, constants: tuple[tuple[str, Any], ...], most_rows: int | None) -> File:
        """A file with the rows of the table, which the package reads."""
        path, rows, size = os.path.join(folder, f"{uuid4().hex[:12]}.parquet"), 0, 0
        with writing(path):
            if is_local(path):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            writer = ParquetEncoder(self._columns, False).writer(create_file(path, CompressionTypes.UNCOMPRESSED))
        for batch in pa.RecordBatchReader.from_stream(self._table.scan()):
            some = batch.cast(self._columns)[: None if most_rows is None else most_rows - rows]
            rows, size = rows + len(some), size + some.nbytes
            with writing(path):
                writer.write(some.to_struct_array())
            if rows == most_rows:
                break
        with writing(path):
            writer.close()
        return File(path=path, bytes=size, shown=self._source.shown, reader=DeltaChanges(), columns=self._columns, constants=constants)


def _changed_files(actions: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """The files with the changes of a version; where it has none in the feed, the data files that it adds and removes, and what
    their rows are then.
    """
    of_feed = [each["cdc"] for each in actions if "cdc" in each]
    yield from ((each, "") for each in of_feed)
    for what, change in () if of_feed else (("add", INSERTED), ("remove", DELETED)):
        yield from ((each[what], change) for each in actions if what in each and each[what]["dataChange"])


def _value(text: str | None, kind: pa.DataType) -> Any:
    """The value of a partition column, of its text in the log.

    >>> _value("2026-01-02 03:04:05", pa.timestamp("us", "UTC")).isoformat(), _value("", pa.int64())
    ('2026-01-02T03:04:05+00:00', None)
    """
    if not text:
        return None
    if pa.types.is_binary(kind):
        return text.encode("latin-1")
    bare = pa.scalar(text.removesuffix("Z")).cast(pa.timestamp("us")) if pa.types.is_timestamp(kind) else pa.scalar(text)
    return bare.cast(kind).as_py()


def _reason(error: BaseException) -> str:
    r"""The message of the package in one line, where it draws a tree of causes.

    >>> _reason(OSError("Generic S3 error\n   \x1b[31m\u21b3\x1b[0m tcp connect error\n    \x1b[31m\u21b3\x1b[0m refused"))
    'Generic S3 error: tcp connect error: refused'
    """
    words = re.sub(r"\s*\x1b\[\d+m\u21b3\x1b\[0m", ":", str(error)).split()
    return " ".join(words)[:_LONGEST] or type(error).__name__


def _log_of(version: int) -> str:
    return f"_delta_log/{version:020d}.json"
