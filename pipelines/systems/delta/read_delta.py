"""ReadDelta: the table of a Delta Lake table, with its changes from the Change Data Feed."""

import atexit
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import remove_directory
from beam_joins.pipelines.changelogs.changelog_rows import (
    checked_schema,
    columns_of_runs,
    require_columns,
    rows_of_table,
    top_columns,
)
from beam_joins.pipelines.changelogs.read_table import Reads, ReadTable, table_label
from beam_joins.pipelines.results.paths_in_use import reads_files
from beam_joins.pipelines.systems.delta.delta_rounds import DeltaSequence, DeltaSource, read_delta, read_delta_in_run
from beam_joins.transforms.connect import checks
from beam_joins.transforms.connect.runs import folder_for, label_of

__all__ = ["ReadDelta"]

_READ: Final = "_beam_joins_delta"
"""The name under which a pipeline remembers the Delta tables that it reads."""


class ReadDelta(ReadTable):
    """Reads the table of a Delta Lake table: its rows, and with ``--beam_joins_state`` every change since the last run,
    from the table's Change Data Feed.

    The first run reads the rows of the newest version, each later run the versions since. The version counts as read when
    the run is committed: a run that fails or is killed reads the same again. Without a state the rows are read. All uses of
    a path in a pipeline read the version of the time when the pipeline is built. Workers read the files of the table in
    parts, side by side; the process that builds the pipeline reads only the log.

    * ``path``: a folder, or an address that the package ``deltalake`` knows (``s3://...``).
    * ``storage_options``: the options of ``deltalake`` for such an address; workers get them too.
    * ``key``: the columns of the key, which Delta does not know: rows with an equal key are one row, the last one. A dot
      leads into a nested column.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``. By default, ``"declared"``, those of the Delta table, with
      their types, of this run and those before; ``None``: values are dicts.
    * ``sequence_by``: the position of a change, ``"_commit_version"`` or ``"_commit_timestamp"``; its event time is the
      commit's timestamp. Versions order one table alone: two Delta tables have no common sequence. To join a table with
      another one, read both by ``"_commit_timestamp"``: microseconds since 1970, where each version is later than the
      previous one even if a writer's clock was set back. A table of another reader then needs its event
      time, in microseconds, as ``sequence_by``.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.

    Raises ``ValueError`` at construction for a wrong option, and :class:`~beam_joins.InputError`, a ``ValueError`` too,
    when it is applied: if there is no such table, or it has no column of the key; with a state if its Change Data Feed is
    not enabled, if versions since the last run were removed, or if the table was created again; for two tables in one
    pipeline that are read by ``"_commit_version"``; and where the pipeline writes the table.

    >>> ReadDelta("orders", key="id", sequence_by="id")
    Traceback (most recent call last):
    ValueError: sequence_by='id': choose one of '_commit_version', '_commit_timestamp'
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str],
        schema: pa.Schema | Literal["declared"] | None = "declared",
        sequence_by: DeltaSequence = "_commit_version",
        storage_options: Mapping[str, str] | None = None,
        emit: Emit = "updates",
    ) -> None:
        checks.text("path", path, "the path of a folder")
        if not (storage_options is None or isinstance(storage_options, Mapping)):
            raise ValueError(f"storage_options={storage_options!r}: give settings by their names, or None")
        self._key, self._schema = checks.columns("key", key), checked_schema(schema)
        if isinstance(self._schema, pa.Schema):
            require_columns("key", self._key, self._schema)
        checks.choice("sequence_by", sequence_by, DeltaSequence)
        self._emit: Emit = checks.choice("emit", emit, Emit)
        self._source = DeltaSource.at(path, sequence_by, storage_options)
        super().__init__(self._reads)

    def _reads(self, begin: PBegin) -> Reads:
        reads_files(begin.pipeline, self._source.shown, [self._source.path])
        state, version = folder_for(begin), self._version(begin)
        label = label_of(begin.pipeline)
        if state is None:
            folder = tempfile.mkdtemp(prefix="beam-joins-delta-")
            atexit.register(remove_directory, folder)
            read = read_delta(self._source, None, folder, version=version)
        else:
            anew = state.plan.may_begin(table_label(label))
            read = read_delta_in_run(self._source, label, state, version=version, from_beginning=anew)
        tops, name, before = top_columns(self._key), read.table.name, read.remembered.get("columns")
        stored = {} if before is None else {name: before}
        schema = columns_of_runs(read.table, tops, self._schema, stored, table_label(label), is_first=read.is_first)
        read.remembered["columns"] = stored.get(name)
        options = {"key": list(self._key), "sequence_by": self._source.sequence_by}
        return rows_of_table(read.files_of(tops), self._key, schema)._replace(options=options).table(emit=self._emit)

    def _version(self, begin: PBegin) -> int:
        """The version that this pipeline reads; raises InputError for another table that is ordered by versions."""
        source = self._source
        read: _Read = begin.pipeline.__dict__.setdefault(_READ, _Read({}, {}))
        if source.path not in read.versions:
            read.versions[source.path] = int(source.table().version())
        if source.sequence_by == "_commit_version":
            read.by_version[source.path] = source.shown
        if len(read.by_version) > 1:
            raise InputError(
                f"{' and '.join(read.by_version.values())} are ordered by versions, and those of two Delta tables cannot be compared: "
                "read both with sequence_by='_commit_timestamp', or in two pipelines"
            )
        return read.versions[source.path]


class _Read(NamedTuple):
    """The Delta tables that a pipeline reads: their versions, and the names of those that are ordered by these."""

    versions: dict[str, int]
    by_version: dict[str, str]
