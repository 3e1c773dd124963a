"""ReadSnapshots: reads the table of whole exports in files, each of which is the table at its time."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.pipelines.changelogs.changelog_files import files_of
from beam_joins.pipelines.changelogs.changelog_rows import (
    ChangelogRows,
    checked_schema,
    inferred_in_runs,
    plan_of,
    read_files,
    require_columns,
)
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.changelogs.read_table import Reads, ReadTable
from beam_joins.pipelines.changelogs.reader_memory import ReaderMemory
from beam_joins.pipelines.formats.changelog_columns import Columns, Unit
from beam_joins.pipelines.formats.column_formats import ColumnFormats
from beam_joins.pipelines.formats.csv_types import layout_by
from beam_joins.pipelines.systems.files.changelog_options import formats_in_memory
from beam_joins.pipelines.systems.files.snapshot_options import snapshot_columns
from beam_joins.transforms.connect import checks

__all__ = ["ReadSnapshots"]


class ReadSnapshots(ReadTable):
    r"""Reads the table of whole exports: each file, or several of one time, is a snapshot of the table. The rows that differ from
    those of the snapshot before are its changes: inserts, updates, and deletes of rows that are gone; a row that is equal makes
    none.

    * ``path``: a path or a glob, on any filesystem that Beam knows. With a state a run reads the files that no run has read,
      also of a folder, and compares the first of them with the last snapshot of the runs before. The formats are those of
      :class:`~beam_joins.io.ReadChangelog`.
    * ``key``: the columns of the primary key, ``"id"`` or ``["region", "id"]``, which hold whole numbers, text, dates, or true and
      false.
    * ``timestamp_in_path``: the form of the time of a snapshot in the path of its files, as ``strptime`` has it, such as
      ``"%Y-%m-%d"``; in UTC where it does not say (``%z``). Files of one time are one snapshot.
    * ``timestamp_by``: the column with the time of the export, the same in all rows, which is no column of the table. Without
      either the time of a snapshot is that of the last write of its file.
    * ``timestamp_unit``: the unit of whole numbers in ``timestamp_by``, which count from 1970: ``"us"``, the default, ``"ms"``,
      ``"s"`` or ``"ns"``.
    * ``min_share``: the least number of rows of a snapshot, as a share of those of the one before, by default 0.5. One with fewer
      is refused before it deletes the others, as an export that was cut short.
    * ``except_columns``: columns to leave out of the values.
    * ``schema``: the columns of the values, a ``pyarrow.Schema`` or a class. By default, ``"inferred"``, the columns and types that
      :class:`~beam_joins.io.ReadChangelog` infers.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`, by default ``"changes"``.
    * ``delimiter``, ``encoding``, ``column_formats``: as of :class:`~beam_joins.io.ReadChangelog`.
    * ``on_bad_record``: ``"fail"``, or ``"drop"`` to go on without records that cannot be read, have no usable key, or do not fit
      their columns; such records are counted, and as they may be of any rows, their snapshot deletes none.

    The position of a change, and its event time, is the time of its snapshot in microseconds. The last snapshot may be corrected:
    where its files have changed they are compared with it, and the changes are one microsecond behind it. A snapshot of an earlier
    time is refused: ``--beam_joins_read_again`` reads all that are there in the order of their times. (AUTO CDC FROM SNAPSHOT of
    Databricks, snapshots of dbt with ``check_cols`` and ``hard_deletes``.)

    The process that builds the pipeline reads each new snapshot once, to compare it, and a state keeps of the last one the keys and
    digests of 128 bits of its rows; workers read the changes.

    Raises ``ValueError`` at construction for a wrong option; and :class:`~beam_joins.InputError`, a ``ValueError`` too, when it
    is applied, if no file matches, one cannot be read or does not say its time, for a snapshot of an earlier time than the last
    one, with too few rows, or with two unlike rows of a key; and in the run, naming file and line, for a bad record.

    >>> import os, tempfile
    >>> import apache_beam as beam
    >>> from beam_joins import TableToChanges
    >>> folder = tempfile.mkdtemp()
    >>> for day, rows in {"2026-03-01": "1,Anna\n2,Bert\n", "2026-03-02": "1,Anna\n3,Cleo\n"}.items():
    ...     with open(os.path.join(folder, f"customers-{day}.csv"), "w") as file:
    ...         _ = file.write(f"id,name\n{rows}")
    >>> with beam.Pipeline() as pipeline:
    ...     read = ReadSnapshots(f"{folder}/*.csv", key="id", timestamp_in_path="%Y-%m-%d")
    ...     changes = pipeline | read | TableToChanges()
    ...     _ = changes | beam.Map(lambda change: print(change.key, change.old, change.new, change.position))
    1 None {'id': 1, 'name': 'Anna'} 1772323200000000
    2 None {'id': 2, 'name': 'Bert'} 1772323200000000
    2 {'id': 2, 'name': 'Bert'} None 1772409600000000
    3 None {'id': 3, 'name': 'Cleo'} 1772409600000000
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str],
        timestamp_in_path: str | None = None,
        timestamp_by: str | None = None,
        timestamp_unit: Unit = "us",
        min_share: float = 0.5,
        except_columns: Sequence[str] = (),
        schema: pa.Schema | Literal["inferred"] = "inferred",
        emit: Emit = "changes",
        delimiter: str | None = None,
        encoding: str | None = None,
        column_formats: ColumnFormats | None = None,
        on_bad_record: OnBadRecord = "fail",
    ) -> None:
        checks.text("path", path, "a path or a glob")
        columns = snapshot_columns(
            key=checks.columns("key", key),
            timestamp_in_path=timestamp_in_path,
            timestamp_by=timestamp_by,
            timestamp_unit=timestamp_unit,
            min_share=min_share,
            delimiter=delimiter,
            encoding=encoding,
            column_formats=column_formats,
        )
        omitted = checks.columns("except_columns", except_columns, none=True)
        checks.choice("on_bad_record", on_bad_record, OnBadRecord)
        checks.choice("emit", emit, Emit)
        if schema is None or schema == "declared":
            raise ValueError(f"schema={schema!r}: choose 'inferred', or give the columns")
        typed = checked_schema(schema, inferred=True)
        if isinstance(typed, pa.Schema):
            require_columns("key", columns.key, typed)

        def reads(begin: PBegin) -> Reads:
            rows = _rows(begin, path, columns, typed, omitted, on_bad_record)
            return rows.table(emit=emit, except_columns=[name for name in omitted if name in rows.plan.value.names])

        super().__init__(reads)


def _rows(
    begin: PBegin, path: str, columns: Columns, schema: Any, omitted: Sequence[str], on_bad_record: OnBadRecord
) -> ChangelogRows:
    """The rows, in a run, of the changes of snapshots."""
    memory = ReaderMemory(begin, "the snapshots", lambda inputs, label: {})
    files = memory.new(partial(files_of, "the snapshots", path, columns, folders=memory.is_of_runs), path, columns)
    changelog = memory.changelog(files, columns)
    named = [*(("key=", name) for name in columns.key), *(("except_columns=", name) for name in omitted)]
    named += [("column_formats=", name) for name, _ in columns.csv.formats]
    changelog.require_all([each for each in named if each[1] not in changelog.remembered])
    typed = schema
    if schema == "inferred":
        left_out = columns.about_the_change()
        typed = inferred_in_runs(memory, changelog)
        typed = pa.schema([field for field in typed if field.name not in left_out])
    elif changelog.files:
        layouts = [layout_by(typed, file.layout) for file in changelog.files]
        declared = tuple(typed.names)
        timed = [replace(file, layout=each, declared=declared) for file, each in zip(changelog.files, layouts, strict=True)]
        changelog = replace(changelog, files=tuple(timed))
    memory.typed = typed
    changelog = memory.of_snapshots(changelog)
    memory.keep()
    plan = plan_of(changelog.columns, columns.key, typed, omitted, is_inferred=schema == "inferred")
    if plan.allowed is not None:
        plan = replace(plan, allowed=plan.allowed.union(changelog.columns.about_the_change()))
    options = {"key": list(columns.key), "except_columns": sorted(omitted), "snapshots": True, **formats_in_memory(columns)}
    return ChangelogRows(read_files(changelog, plan, on_bad_record, memory), plan, columns.key, options)
