"""Reads the rows of a changelog as a table in Python needs them: typed columns, or dicts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.elements.content import Emit
from beam_joins.errors import InputError, StateRefused
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, DatabaseTable, bytes_of, parts_of
from beam_joins.pipelines.changelogs.read_records import GOES_ON, OnBadRecord, ReadRecords
from beam_joins.pipelines.changelogs.read_table import Reads, key_in_columns, paths_of, table_of
from beam_joins.pipelines.changelogs.reader_memory import ReaderMemory
from beam_joins.pipelines.changelogs.row_types import altered_columns, row_types
from beam_joins.pipelines.formats.changelog_columns import KEY, Columns, enveloped
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.tables.unchanged import Complete
from beam_joins.transforms.connect.runs import schema_text, text_schema
from beam_joins.transforms.connect.tables import as_arrow, declared_schema
from beam_joins.values.schema_evolution import union_schema

WITHOUT_VALUES: Final = "columns without a value"
"""The name under which a reader remembers the columns that had no value, which are text."""


class ChangelogRows(NamedTuple):
    """The transform that reads the rows, in the columns of a ``plan``, the names of the columns of their key, and the
    options of the reader on which its table depends, as a state remembers them.
    """

    read: beam.PTransform[PBegin, Any]
    plan: ReadPlan
    key: Sequence[str] = ()
    options: Mapping[str, Any] = MappingProxyType({})

    def of_run(self, begin: PBegin) -> "ChangelogRows":
        """The same in each run."""
        return self

    def table(
        self,
        *,
        emit: Emit = "updates",
        without_earlier: Literal["fail", "drop"] = "fail",
        completed_by: Complete | None = None,
        except_columns: Sequence[str] = (),
    ) -> Reads:
        """The transform that reads the table of the rows."""
        is_typed = "row" in self.plan.forms
        made = table_of(
            self.plan,
            key=key_in_columns(self.key, self.plan.value.names) if is_typed else KEY,
            emit=emit,
            without_earlier=without_earlier,
            completed_by=completed_by,
            except_columns=except_columns if is_typed else (),
        )
        return Reads(self.read, made, self.plan.about.names, self.plan.columns.is_ordered, self.options)


def read_files(
    changelog: Changelog, plan: ReadPlan, on_bad_record: OnBadRecord, memory: ReaderMemory, parts: Sequence[Part] | None = None
) -> ReadRecords:
    """The transform that reads the records of a changelog, or of some ``parts`` of it, for a table in Python."""
    return ReadRecords(
        changelog.name,
        changelog.parts() if parts is None else parts,
        ColumnReader(plan),
        bytes=changelog.bytes,
        on_bad_record=on_bad_record,
        remedy=f"on_bad_record='drop' {GOES_ON}",
        beginning=changelog.beginning if parts is None else None,
        left_open=memory.left_open,
    )


class ReadFollowed(beam.PTransform[PBegin, PCollection[Any]]):
    """The changes of what is followed, of the columns of a plan."""

    def __init__(self, changes: beam.PTransform[PBegin, PCollection[Any]], plan: ReadPlan) -> None:
        super().__init__()
        self._changes, self._plan = changes, plan

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        return as_arrow(begin | "Records" >> self._changes, self._plan.schema)


def rows_of_table(files: Sequence[File], key: Sequence[str], schema: pa.Schema | None, *, nested: bool = True) -> ChangelogRows:
    """The rows of a table of a database, whose changes lie in files with the columns of :func:`enveloped`."""
    columns = enveloped(None)
    if schema is None:
        paths = paths_of(key) if nested else [[name] for name in key]
        plan = ReadPlan.of_objects(columns, paths, columns.about_the_change())
    else:
        plan = ReadPlan.of_rows(columns, schema)
    read = ReadRecords("rows", parts_of(files), ColumnReader(plan), bytes=bytes_of(files))
    return ChangelogRows(read, plan, key)


def columns_of_runs(
    described: DatabaseTable, key: Sequence[str], schema: Any, stored: dict[str, str], label: str, *, is_first: bool
) -> pa.Schema | None:
    """The columns of the values of a table of a database: those of ``schema``, the option of a reader, or those that it has now
    and in earlier runs, which are ``stored`` by the names of tables. ``label`` is that of the transform that makes the table.

    Raises InputError for a column that the table does not have, and for one whose values have another meaning than before.
    """
    remedy = f"give --beam_joins_read_again={label}, which reads the table again, or begin with an empty state"
    read, table, there, altered = schema, described.name, described.columns, list[str]()
    if isinstance(schema, str):
        known = text_schema(stored[table]) if table in stored else there
        altered = [each.sentence for each in altered_columns(described, known, there, {}) if not each.fits]
        read = union_schema(known, there)
        stored[table] = schema_text(read)
    for option, names in (("key=", key), ("schema=", () if read is None else read.names)):
        for column in names:
            if column not in there.names:
                gone = "" if is_first else f"; where it was renamed or dropped, {remedy}"
                raise InputError(f"{table} has no column '{column}' ({option}): it has {', '.join(there.names)}{gone}")
    if altered:
        raise InputError(f"{table} was altered: {'; '.join(altered)}: {remedy}")
    return read


def plan_of(
    columns: Columns,
    key: Sequence[str],
    schema: pa.Schema | None,
    omitted: Sequence[str] = (),
    *,
    is_inferred: bool = False,
) -> ReadPlan:
    """The plan to read records for a table in Python: typed columns, or dicts without those ``omitted``. With an inferred schema
    records have no other columns.
    """
    if schema is None:
        return ReadPlan.of_objects(columns, paths_of(key), omitted)
    plan = ReadPlan.of_rows(columns, schema)
    return replace(plan, allowed=frozenset(schema.names)) if is_inferred else plan


def inferred_types(changelog: Changelog) -> pa.Schema:
    """The columns of files and the types that a command infers of them, with those about the change, which rows in Python have.
    Raises InputError.
    """
    return row_types(replace(changelog, columns=Columns(key=(), side=changelog.columns.side)))


def inferred_in_runs(memory: ReaderMemory, changelog: Changelog) -> pa.Schema:
    """The types inferred of the new files of a changelog, and those of earlier runs, which may get wider. Raises InputError for
    files without records, where these would decide.
    """
    inferred = inferred_types(changelog)
    memory.more[WITHOUT_VALUES] = _without_values(memory, changelog, inferred)
    if memory.typed is not None:
        inferred = union_schema(memory.typed, inferred)
    else:
        shows_types = changelog.first or not any(file.layout for file in changelog.files)
        if not inferred.names or (memory.is_of_runs and not shows_types):
            raise InputError(
                f"{changelog.name} have no record that shows the types of columns: give schema=, or begin with files that have some"
            )
    return inferred


def _without_values(memory: ReaderMemory, changelog: Changelog, inferred: pa.Schema) -> list[str]:
    """The columns that have had no value in any run; raises :class:`StateRefused` for one that now has values of another type
    than the text that it was.
    """
    with_values = {name for row in changelog.first for name, value in row.items() if value is not None}
    here = {*inferred.names} - with_values if changelog.first else set[str]()
    if memory.typed is None:
        return sorted(here)
    before = {*memory.more.get(WITHOUT_VALUES, ())}
    for name in sorted(before & {*inferred.names} & with_values):
        if not pa.types.is_string(kind := inferred.field(name).type):
            raise StateRefused(
                f"{changelog.name}: column '{name}' had no value in the runs before, which made it text, and is {kind} now: give its"
                f" whole input in this run with --beam_joins_read_again={memory.table}, or begin with an empty state"
            )
    return sorted((before - with_values) | (here - {*memory.typed.names}))


def require_columns(option: str, names: Sequence[str], schema: pa.Schema) -> None:
    """Raise ``ValueError`` for a column that is not in the schema, or that a dot leads into although it has no columns."""
    for top, *within in paths_of(names, schema.names):
        if top not in schema.names:
            raise ValueError(f"{option}={names!r}: schema= has no column {top!r}; it has {', '.join(schema.names) or 'none'}")
        if within and not pa.types.is_struct(kind := schema.field(top).type):
            raise ValueError(
                f"{option}={names!r}: column {top!r} has the type {kind} and no columns: give schema= with a struct there"
            )


def checked_schema(schema: Any, *, inferred: bool = False) -> Any:
    """The option ``schema=`` of a reader, with the columns of a class; raises ``ValueError`` for another form. ``inferred``: the
    reader infers types if it is asked to.
    """
    words = ("declared", "inferred") if inferred else ("declared",)
    if schema is None or (isinstance(schema, str) and schema in words):
        return schema
    try:
        return declared_schema(schema)
    except ValueError as error:
        raise ValueError(f"{error}; or {', '.join(map(repr, words))} or None") from None


def top_columns(key: Iterable[str], columns: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that names lead into, each once: ``customer`` for ``customer.id``, unless one of ``columns`` is called so."""
    return tuple(dict.fromkeys(top for top, *_ in paths_of(key, columns)))
