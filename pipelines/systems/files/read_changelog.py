"""ReadChangelog: reads the table of a changelog of rows in files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.options.spans import Span
from beam_joins.pipelines.changelogs.changelog_files import files_of
from beam_joins.pipelines.changelogs.changelog_rows import (
    WITHOUT_VALUES,
    ChangelogRows,
    checked_schema,
    inferred_in_runs,
    plan_of,
    read_files,
    require_columns,
    top_columns,
)
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.changelogs.read_table import Reads, ReadTable
from beam_joins.pipelines.changelogs.reader_memory import ReaderMemory
from beam_joins.pipelines.formats.changelog_columns import Columns, Unit
from beam_joins.pipelines.formats.column_formats import ColumnFormats
from beam_joins.pipelines.formats.csv_types import layout_by
from beam_joins.pipelines.systems.files.changelog_options import Operations, options_of_columns, plain_columns
from beam_joins.transforms.connect import checks
from beam_joins.transforms.connect.tables import plain_schema
from beam_joins.values.schema_union import common_schema

__all__ = ["ReadChangelog"]
_IS_TYPED: Final = "is typed"
"""The name under which a reader remembers whether values are typed columns."""


class ReadChangelog(ReadTable):
    r"""Reads the table of a changelog in files: each record is a row, with columns for key, time, sequence and
    delete. Change events of a CDC tool are read by :class:`~beam_joins.io.ReadChangeEvents`.

    * ``path``: a path or a glob, on any filesystem that Beam knows. With a state a run reads the files that no run has read,
      also of a folder; one that has changed since is refused. The suffix says the format: JSON lines and CSV with a
      header, also ``.gz``, ``.bz2`` and ``.zst``; Avro; Parquet; Arrow IPC; MessagePack (extra
      ``msgpack``). Large files are read in parts, side by side.
    * ``key``: the columns of the primary key, ``"id"`` or ``["region", "id"]``.
    * ``timestamp_by``: the column with the event time: a whole number, a timestamp, a date, or text in ISO 8601; in UTC
      without a zone. Without one rows have no event time.
    * ``timestamp_unit``: the unit of whole numbers in ``timestamp_by``, which count from 1970: ``"us"``, the default,
      ``"ms"``, ``"s"`` or ``"ns"``.
    * ``sequence_by``: the column with the position of a change in the order of commits, a whole number or a date. Of
      several columns, ``["commit_lsn", "lsn"]``, the first is the position, and the others order the changes of a row
      within it. Without one the event time orders the changes. Without either all rows are at one position, before those
      with an event time, and the last row of a key counts.
    * ``apply_as_deletes``: a column and its values that mean a delete, ``{"op": ["d", "delete"]}``, in any case;
      ``"null"`` stands for null and ``"not-null"`` for all other values, such as the time of the delete. Of a column
      alone, ``"deleted"``, these values are :data:`beam_joins.options.operations.DELETES`, and null is no delete. Without one no
      record is a delete.
    * ``apply_as_upserts``: the same column and its values that mean an insert or an update, by default
      :data:`beam_joins.options.operations.UPSERTS`. A record whose value has no meaning is a bad record.
    * ``apply_as_truncates``: a column and its values that empty the table, ``{"op": ["t"]}``.
    * ``ignored``: a column and its values that mean no change, ``{"op": ["update_preimage"]}`` for old rows beside the new
      ones. Such records are passed over and counted.
    * ``max_ahead``: the most that a time may be ahead of the clock when it is read: seconds, a ``timedelta`` or a Beam
      ``Duration``. A record of a later time is a bad record. Without it, one record of the far future makes those of later
      runs late. By default there is no limit.
    * ``except_columns``: columns to leave out of the values.
    * ``schema``: the columns of the values, a ``pyarrow.Schema`` or a class. By default, ``"declared"``, those of
      Parquet and Arrow files; values are dicts, their numbers exact, where files do not say types, or with
      ``None``. Values of a schema are typed columns, UUIDs text where the schema does not say otherwise, and a
      value that does not fit its column is a bad record. ``"inferred"``: the columns and types that ``beam-joins``
      infers, also of CSV by the first megabyte of each file, and of JSON lines, MessagePack and CSV by the first
      10,000 records; objects and lists are JSON, which is text in Python. A record with another column is a bad
      record, too. With a state columns of earlier runs stay, and types only get wider.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.
    * ``delimiter``: the delimiter of CSV files: ``","``, ``";"``, ``"tab"`` or ``"|"``; by default as their header shows.
    * ``encoding``: the encoding of CSV files, such as ``"cp1252"`` or ``"latin-1"``; by default as their byte order mark
      says, else UTF-8.
    * ``column_formats``: how columns of CSV files are written: numbers as 1234.5 is written, ``{"amount": "1.234,5"}``, times as
      ``strptime`` has it, ``{"day": "%d.%m.%Y"}``, truth as the words for it, ``{"paid": "yes/no"}``. A column may have
      several, ``["%d.%m.%Y", "%m/%d/%Y"]``. It is read as if it had ``1234.50``, ``2026-07-13`` or ``true``; a text in none of its
      formats, or of two meanings in them, is a bad record.
    * ``on_bad_record``: ``"fail"``, or ``"drop"`` to go on without records that cannot be read, have no usable key, time,
      sequence or operation, or do not fit their columns; such records are counted.

    A dot in the name of a key column leads into a nested one, ``"customer.id"``, unless a column has the whole name. Ties in
    sequence and event time are broken by position in the file. Change feeds have no order within a version: there a delete
    sorts before an upsert. These are files whose column of operations is ``_change_type``, ``change_type``,
    ``METADATA$ACTION`` or ``__$operation``, or has the old rows of updates (``"update_preimage"``, ``"update_before"``).
    ``with_outputs()`` has a sentence for each bad record; records with a null key or sequence are dropped and counted by
    the table.

    Raises ``ValueError`` at construction for a wrong option; and :class:`~beam_joins.InputError`, a ``ValueError`` too, when it
    is applied, if no file matches, one cannot be read, or no record has a column that an option names, and in the run,
    naming file and line, for a bad record.

    >>> import tempfile
    >>> import apache_beam as beam
    >>> from beam_joins import TableToChanges
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file, beam.Pipeline() as pipeline:
    ...     _, _ = file.write(b"id,price,at,lsn\n1,1.50,1970-01-01T00:00:05Z,7\n"), file.flush()
    ...     read = ReadChangelog(file.name, key="id", timestamp_by="at", sequence_by="lsn", except_columns=["at", "lsn"])
    ...     products = pipeline | read
    ...     _ = products | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'id': 1, 'price': 1.5}, timestamp=5000000, position=7)
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str],
        timestamp_by: str | None = None,
        timestamp_unit: Unit = "us",
        sequence_by: str | Sequence[str] | None = None,
        apply_as_deletes: str | Operations | None = None,
        apply_as_upserts: Operations | None = None,
        apply_as_truncates: Operations | None = None,
        ignored: Operations | None = None,
        max_ahead: Span | None = None,
        except_columns: Sequence[str] = (),
        schema: pa.Schema | Literal["declared", "inferred"] | None = "declared",
        emit: Emit = "updates",
        delimiter: str | None = None,
        encoding: str | None = None,
        column_formats: ColumnFormats | None = None,
        on_bad_record: OnBadRecord = "fail",
    ) -> None:
        checks.text("path", path, "a path or a glob")
        columns = plain_columns(
            timestamp_by=timestamp_by,
            timestamp_unit=timestamp_unit,
            sequence_by=sequence_by,
            apply_as_deletes=apply_as_deletes,
            apply_as_upserts=apply_as_upserts,
            apply_as_truncates=apply_as_truncates,
            ignored=ignored,
            max_ahead=max_ahead,
            delimiter=delimiter,
            encoding=encoding,
            column_formats=column_formats,
        )
        names, omitted = checks.columns("key", key), checks.columns("except_columns", except_columns, none=True)
        checks.choice("on_bad_record", on_bad_record, OnBadRecord)
        checks.choice("emit", emit, Emit)
        of_run = _rows_of(path, columns, names, checked_schema(schema, inferred=True), omitted, on_bad_record)

        def reads(begin: PBegin) -> Reads:
            rows = of_run(begin)
            # a column that schema= does not have is left out already
            return rows.table(emit=emit, except_columns=[name for name in omitted if name in rows.plan.value.names])

        super().__init__(reads)


def _rows_of(
    path: str, columns: Columns, key: Sequence[str], schema: Any, omitted: Sequence[str], on_bad_record: OnBadRecord
) -> Callable[[PBegin], ChangelogRows]:
    """The rows, in each run, of files whose records are rows, with the columns that the options name."""
    options = {"key": list(key), "except_columns": sorted(omitted), **options_of_columns(columns)}

    def of_run(begin: PBegin) -> ChangelogRows:
        memory = ReaderMemory(begin, "the files", _earlier_memory)
        files = memory.new(partial(files_of, "the files", path, columns, folders=memory.is_of_runs), path, columns)
        changelog = memory.changelog(files, columns)
        tops = top_columns(key, changelog.rows_have)
        changelog = replace(changelog, columns=replace(changelog.columns, key=tops))
        typed = schema
        if isinstance(schema, str):
            typed = inferred_in_runs(memory, changelog) if schema == "inferred" else _declared_in_runs(memory, changelog)
        memory.typed, memory.more[_IS_TYPED] = typed, typed is not None
        of_order = ("timestamp_by", columns.timestamp), *(("sequence_by", name) for name in (columns.sequence, *columns.within))
        of_operation = ("apply_as_deletes", columns.delete), ("apply_as_truncates", columns.truncate), ("ignored", columns.ignore)
        of_formats = [("column_formats", name) for name, _ in columns.csv.formats if name not in changelog.remembered]
        of_columns = (*(("key", top) for top in tops), *of_order, *of_operation, *of_formats)
        named = [(columns.flag(option), name) for option, name in of_columns]
        of_values = [*(("schema=", name) for name in (() if isinstance(schema, str) or schema is None else schema.names))]
        of_values += [("except_columns=", name) for name in omitted]
        named += [each for each in of_values if each[1] not in changelog.remembered]
        required = [(option, name) for option, name in named if name]
        changelog.require_all(required, in_runs=memory.is_of_runs, is_first=memory.is_new)
        if typed is not None and typed.names:
            require_columns("key", key, typed)
        if typed is not None and schema != "inferred":
            layouts = [layout_by(typed, file.layout) for file in changelog.files]
            declared = tuple(typed.names)
            files = [replace(file, layout=each, declared=declared) for file, each in zip(changelog.files, layouts, strict=True)]
            changelog = replace(changelog, files=tuple(files))
        memory.keep()
        plan = plan_of(changelog.columns, key, typed, omitted, is_inferred=schema == "inferred")
        return ChangelogRows(read_files(changelog, plan, on_bad_record, memory), plan, key, options)

    return of_run


def _earlier_memory(inputs: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The memory that earlier versions have kept: the types of columns, and no files."""
    earlier = {
        "types": inputs.get(f"types of {label}/Rows"),
        "typed": inputs.get(f"inferred types of {label}"),
        WITHOUT_VALUES: inputs.get(f"columns without a value of {label}"),
    }
    return {name: value for name, value in earlier.items() if value is not None}


def _declared_in_runs(memory: ReaderMemory, changelog: Changelog) -> pa.Schema | None:
    """The columns of the first file of all runs, where all files of the first run say which they have, whose values then are
    typed without being asked for: in the types that hold what all files have in them, such as milliseconds and
    microseconds.
    """
    if not memory.more.get(_IS_TYPED, all(file.reader.columnar for file in changelog.files)):
        return None
    of_files = [file.reader.schema(file) for file in changelog.files]
    schemas = [*filter(None, [memory.typed]), *(plain_schema(schema) for schema in of_files if schema is not None)]
    names = schemas[0].names
    try:
        return common_schema([pa.schema([field for field in schema if field.name in names]) for schema in schemas])
    except ValueError:  # the run names the file whose values do not fit
        return schemas[0]
