"""The job of a command: its inputs, checked, and the rows of its result."""

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.compared import ComparedColumn, ComparedTable, comparisons
from beam_joins.errors import InputError
from beam_joins.options.join_types import How
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_records import GOES_ON, OnBadRecord
from beam_joins.pipelines.changelogs.row_types import AlteredColumn, altered_columns, row_types
from beam_joins.pipelines.changelogs.sampling import is_time
from beam_joins.pipelines.changelogs.time_units import remarks_on, require_one_unit
from beam_joins.pipelines.commands.at_least import AtLeast
from beam_joins.pipelines.commands.command_spec import LACKING, Names
from beam_joins.pipelines.commands.select import Share, shares_of
from beam_joins.pipelines.commands.stored_rows import Select, StoredRows
from beam_joins.pipelines.commands.summary import Summary
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.formats.json_rows import JsonRows, RowColumns, with_numbers
from beam_joins.pipelines.formats.output_records import ChangeRecords, Made, TableRecords, TextRecords
from beam_joins.pipelines.formats.reading import COLUMNS, JSON, Form, Kind, Reading
from beam_joins.pipelines.formats.registry import file_format, format_of
from beam_joins.pipelines.formats.types.json_text import iso_json
from beam_joins.pipelines.formats.types.target_types import json_lines_type, parquet_type
from beam_joins.pipelines.results.output_files import Output
from beam_joins.pipelines.results.write_parts import Report
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.values.arrow_types import is_text
from beam_joins.values.schema_evolution import union_schema, union_type

Kinds: TypeAlias = tuple[tuple[Kind, ...], ...]
"""The kinds of the values in the key columns of each changelog, in words."""
KnownKinds: TypeAlias = tuple[tuple[Kind, ...] | None, ...]
"""The same, ``None`` for a changelog without such a run."""
_BYTES: Final = frozenset({"bytea", "binary"})
_READS_AGAIN: Final = (
    "reads the table again; in a table of --to alter the column first, behind a DROP of its view, which the run makes again"
)


def _in_words(changelog: Changelog) -> str:
    """The files of a changelog, or the table or topic whose changes they have, by name."""
    if changelog.table is not None:
        return changelog.table.name
    shown = list(dict.fromkeys(file.shown for file in changelog.files))
    return f"{changelog.name} ({len(shown)} files)" if len(shown) != 1 else os.path.basename(shown[0])


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that the run needs to know: of one changelog its table, of two their join."""

    names: Names
    changelogs: tuple[Changelog, ...]
    select: str
    """The columns of the result, as ``--select`` names them."""
    how: How = "inner"
    foreign_key: tuple[str, ...] = ()
    """The columns of the left rows with the key of a right row; empty: the keys are joined."""
    keeps: AtLeast | None = None
    """Which rows of the first changelog are in its table; None: all."""
    on_bad_record: OnBadRecord
    in_parts: bool = False
    """Whether each result in a file stays in the parts in which it was written."""
    reports: bool = False
    """Whether figures for a report are counted."""
    made: tuple[str, ...] = ()
    """The first remarks of the summary: on folders that were made for results, on options that stand for nothing."""
    known_kinds: KnownKinds | None = None
    """The kinds of the changelogs' keys, where an earlier run has seen them."""
    known_types: tuple[pa.Schema | None, ...] | None = None
    """The types of the columns of each changelog's rows, where they are those of an earlier run."""
    known_database: tuple[Mapping[str, str], ...] | None = None
    """The types that columns had in the database when they were read first, by their names, for each changelog."""
    known_names: Sequence[Mapping[str, str]] | None = None
    """The names in the result of the columns of each changelog, by their own names, where an earlier run has given them."""
    stored: tuple[StoredRows | None, ...] | None = None
    """The rows of each changelog as they are in the state of an earlier run."""
    known_forms: tuple[tuple[Form, ...] | None, ...] | None = None
    """The forms of these rows, where an earlier version has stored them."""
    read_again: tuple[str, ...] = ()
    """The changelogs that are read from their beginning, although earlier runs have read them."""

    @cached_property
    def shares(self) -> dict[int, Share]:
        """The part of each side in a row of the result, by the side's number. Raises InputError."""
        made = partial(shares_of, self.select, [side.option for side in self.names.sides])
        rest = LACKING.get(self.how, ()), self.names.rename
        earlier = self.known_names
        if earlier is None and all(each.remembered for each in self.changelogs):
            earlier = names_of(made([each.remembered for each in self.changelogs], *rest), len(self.changelogs))
        shares = made([each.rows_have for each in self.changelogs], *rest, earlier or ())
        if self.how in ("semi", "anti") and 1 in shares:
            raise InputError(f"--how {self.how} gives left rows alone: leave the columns of the right side out of --select")
        return shares

    def check(self, *, in_runs: bool = False) -> None:
        """Raise InputError for columns that are not there, those of both sides at once, and for keys that could never meet;
        ``in_runs``: also for rows that no column orders.
        """
        missing = list[str]()
        for side, changelog in enumerate(self.changelogs):
            columns, other = changelog.columns, next((each for each in self.changelogs if each is not changelog), None)
            of_record = (
                *(("key", column) for column in columns.key),
                ("timestamp_by", columns.timestamp),
                *(("sequence_by", column) for column in (columns.sequence, *columns.within)),
                ("apply_as_deletes", columns.delete),
                ("apply_as_truncates", columns.truncate),
                ("ignored", columns.ignore),
                *(("schema", column) for column, _ in (changelog.columns.declared if changelog.files else ())),
            )
            named = [(columns.flag(option), column) for option, column in of_record if column is not None]
            if side == 0:
                named += [("--foreign-key", column) for column in self.foreign_key]
                named += [] if self.keeps is None else [(self.keeps.option, self.keeps.column)]
            try:
                changelog.require_all(named, in_runs=in_runs, is_first=self._known_kinds[side] is None, other=other)
            except InputError as error:
                missing.append(str(error))
        if missing:
            raise InputError("; ".join(missing))
        for side, changelog in enumerate(self.changelogs):
            self._require_unaltered(side, changelog.columns.key)
        if self.keeps is not None and self.keeps.column in self.changelogs[0].columns.about_the_change():
            raise InputError(f"{self.keeps.option}: '{self.keeps.column}' is about the change and no column of the row")
        for side, share in self.shares.items():
            changelog = self.changelogs[side]
            taken = changelog.remembered if share.columns is None else [column for column, _ in share.columns]
            if changelog.table is None and (share.columns is None or share.allowed is not None):
                taken = [column for column in taken if column not in changelog.remembered]
            changelog.require_all([("--select", column) for column in taken], is_first=self._known_kinds[side] is None)
            if (added := self._added(side)) is not None and any(added in row for row in (*changelog.first, changelog.remembered)):
                raise InputError(f"{self.changelogs[side].name} have a column '{added}' already: {self.names.rename}")
        if len(self.changelogs) == 2:
            self._check_pair(*self.changelogs)

    def _check_pair(self, left: Changelog, right: Changelog) -> None:
        ordered = [each.columns for each in (left, right) if each.columns.is_ordered]
        if len({each.sequence is None for each in ordered}) > 1:
            flags = " and ".join(each.columns.flag("sequence_by") for each in (left, right))
            raise InputError(f"{flags} must both name a column or both be empty: positions are compared")
        require_one_unit(left, right)
        columns, keys = self.foreign_key or left.columns.key, right.columns.key
        if len(columns) != len(keys):
            option = "--foreign-key" if self.foreign_key else left.columns.flag("key")
            raise InputError(
                f"{option} is of {_counted(columns)} and {right.columns.flag('key')} of {_counted(keys)}: "
                "name as many, in the order in which they meet"
            )
        for column, of_key in zip(columns, keys, strict=True):
            reference, key = left.kind_of(column), right.kind_of(of_key)
            self._check_compared(_compared(left, column), _compared(right, of_key), reference, key)
            if (units := _units_of_texts((left, column), (right, of_key))) is not None:
                raise InputError(
                    f"the {left.name}' column '{column}' is {units[0]} and the {right.name}' column '{of_key}' {units[1]}: their keys "
                    "are texts with the digits of the unit of events, and would not meet: write both as events of one unit"
                )
            times = [is_time(dict(each.types).get(name, "")) for each, name in ((left, column), (right, of_key))]
            if reference == key and True in times and times[0] != times[1]:
                reference, key = ("times" if held else "whole numbers" for held in times)
            if reference and key and reference != key:
                raise InputError(
                    f"the {left.name}' column '{column}' holds {reference} and the {right.name}' column "
                    f"'{of_key}' {key}: {self.names.no_match}"
                )
        if not self.foreign_key and (kinds := self.kinds())[0] != kinds[1]:  # one side is read again, by another key
            held = (f"of the {each.name} hold {' and '.join(kind)}" for each, kind in zip((left, right), kinds, strict=True))
            raise InputError(f"keys {', those '.join(held)}: {self.names.no_match}")

    def _check_compared(
        self, one: ComparedColumn | None, other: ComparedColumn | None, reference: Kind | None, key: Kind | None
    ) -> None:
        """Raise InputError for columns of a database that it compares otherwise than the join would."""
        if one is None or other is None:
            return
        try:
            compared = one.compared_with(other)
        except ValueError as error:
            raise InputError(str(error)) from error
        pair = f"{one.words} and {other.words}"
        if reference != key:
            raise InputError(f"{pair}, whose keys are {reference} and {key}: {self.names.no_match}; {one.made_one_with(other)}")
        if not self.foreign_key and reference == "text" and (compared.left or compared.right):
            keys = ",".join(self.changelogs[0].columns.key)
            raise InputError(f"{pair}, of which equal values may have unlike texts: join them with --foreign-key {keys}")

    @property
    def compared(self) -> tuple[ComparedTable, ComparedTable]:
        """The tables of a join by a reference as their database compares it with the key; numbers are compared as they are."""
        left, right = self.changelogs
        refers, of_key = (
            tuple(
                _compared(changelog, column) if kind == "text" else None for column, kind in zip(columns, self.kinds()[1], strict=True)
            )
            for changelog, columns in ((left, self.foreign_key), (right, right.columns.key))
        )
        return ComparedTable(values=((REFERENCE, refers),)), ComparedTable(of_key)

    def _added(self, side: int) -> str | None:
        """The column of the result that rows taken as they come must not have."""
        others = [share.nested for other, share in self.shares.items() if other != side and share.nested]
        return others[0] if others and self.shares[side] == Share() else None

    def remarks(self) -> list[str]:
        """The remarks of the summary on inputs and on folders."""
        of_inputs = [(*changelog.layouts(), *changelog.doubts(), *remarks_on(changelog)) for changelog in self.changelogs]
        remarks = [*self.made, *itertools.chain.from_iterable(of_inputs)]
        if self.foreign_key:
            left, right = self.compared
            remarks += [each.note for each in comparisons(left.columns(REFERENCE), right.key) if each.note]
        for side, share in self.shares.items():
            if share.columns is None or share.allowed is not None:
                of = self.changelogs[side]
                remarks += [f"new column {name} of {of.name}: rows of the runs before do not have it" for name in of.new_columns]
                remarks += [f"the new {of.name} have no column {name}: it is null in them" for name in of.absent_columns]
        return remarks

    def summary(
        self, report: Report, files: Mapping[str, Sequence[str]], seconds: Mapping[str, float], more: Sequence[str] = ()
    ) -> Summary:
        """The summary of a run; ``more`` are remarks beside those on the inputs."""
        matches = len(self.changelogs) > 1 and self.how not in ("semi", "anti")
        return Summary(self.names, report, files, seconds, [*more, *self.remarks()], matches=matches, title=self.title())

    def title(self) -> str:
        """The title of the result, with the names of its files: ``Left join of orders.jsonl and customers.jsonl``."""
        files = [_in_words(changelog) for changelog in self.changelogs]
        return f"{self.how.capitalize()} join of {' and '.join(files)}" if len(files) > 1 else f"Table of {files[0]}"

    def key_names(self) -> list[str]:
        """The columns of the key of a row of the result, as they are called there."""
        named = dict(share.columns or ()) if (share := self.shares.get(0)) is not None else {}
        return [named.get(column, column) for column in self.changelogs[0].columns.key]

    def kinds(self) -> Kinds:
        """The kinds of the values in the key columns of each changelog, in words."""
        first = (tuple(kind or "text" for kind in kinds) for kinds in self.first_kinds())
        return tuple(known or kinds for known, kinds in zip(self._known_kinds, first, strict=True))

    @property
    def _known_kinds(self) -> KnownKinds:
        return self.known_kinds or (None,) * len(self.changelogs)

    def first_kinds(self) -> list[list[Kind | None]]:
        """The same as the first records say it, None where they have none."""
        left, *others = self.changelogs
        keys = [list(map(each.first_kind_of, each.columns.key)) for each in self.changelogs]
        if not others:
            return keys
        if not self.foreign_key:
            return [[one or other for one, other in zip(*keys, strict=True)]] * 2
        refers = map(left.first_kind_of, self.foreign_key)
        return [keys[0], [one or other for one, other in zip(keys[1], refers, strict=True)]]

    def forms(self, side: int) -> tuple[Form, ...]:
        """The forms of the rows of a changelog: as the state has them, or typed columns where all files have types and agree on
        them, and JSON texts where one has texts of values.
        """
        if self.stored and (before := self.stored[side]) is not None:
            return before.forms
        if self.known_forms and (forms := self.known_forms[side]) is not None:
            return forms
        return self._forms_of_files[side]

    @cached_property
    def _forms_of_files(self) -> tuple[tuple[Form, ...], ...]:
        return tuple((COLUMNS,) if _has_types(each, self._reference(side)) else (JSON,) for side, each in enumerate(self.changelogs))

    def _reference(self, side: int) -> tuple[str, ...]:
        return self.foreign_key if side == 0 else ()

    @property
    def result_forms(self) -> tuple[Form, ...]:
        """The forms of the rows of the result: those that all its parts have, or JSON texts."""
        first, *others = (self.forms(side) for side in self.shares)
        return tuple(form for form in first if all(form in other for other in others)) or (JSON,)

    @cached_property
    def rows_stored(self) -> list[StoredRows]:
        """The rows of each changelog as the state has them after this run."""
        rows = list[StoredRows]()
        for side, changelog in enumerate(self.changelogs):
            share, before = self.shares.get(side, Share(())), self.stored[side] if self.stored else None
            if before is None:
                lacks = self._added(side) if side in self.shares else None
                rows.append(StoredRows.of(share, self.forms(side), lacks, self._numbers(side)))
            else:
                rows.append(before.grown(share, changelog.rows_have))
        return rows

    def selects(self) -> list[Select | None]:
        """For each changelog the function that makes its share of the result of rows that are stored for another one. Raises
        InputError for columns that are not stored.
        """
        selects = list[Select | None]()
        for side, (changelog, rows) in enumerate(zip(self.changelogs, self.rows_stored, strict=True)):
            share = self.shares.get(side)
            of = changelog.name, changelog.rows_have, self._added(side) if share else None, self._again(side)
            selects.append(None if share is None else rows.select(share, *of))
        return selects

    def _again(self, side: int) -> str:
        return f"--read-again {self.names.sides[side].path_option}"

    def readings(self, *, in_types: bool) -> list[Reading]:
        """The reading of each changelog; ``in_types``: also records of which texts are kept must have values of the columns'
        types.
        """
        kinds, readings = self.kinds(), []
        for side, (changelog, rows) in enumerate(zip(self.changelogs, self.rows_stored, strict=True)):
            refers = side == 0 and bool(self.foreign_key)
            without = changelog.columns.about_the_change()
            typed = self._typed(side, rows.columns) if in_types or COLUMNS in rows.forms else None
            allowed: frozenset[str] | None = None
            if rows.columns is not None:
                allowed = frozenset(changelog.rows_have) if rows.has_all else None
            elif typed is not None:
                allowed = frozenset(self.types(side).names)
            readings.append(
                Reading(
                    columns=changelog.columns,
                    key=kinds[side],
                    key_names=self._key_names(side),
                    reference=self.foreign_key if refers else (),
                    refers=kinds[1] if refers else ("text",),
                    refers_names=self.changelogs[1].columns.key if refers else (),
                    numbers=self._numbers(side),
                    added=self._added(side) if side in self.shares else None,
                    rename=self.names.rename,
                    taken=rows.columns,
                    allowed=allowed and allowed.union(without),
                    forms=rows.forms,
                    typed=typed,
                    bytes_text=changelog.bytes_text,
                    type_remedy="" if self._altered[side] else None,
                )
            )
        return readings

    def _numbers(self, side: int) -> tuple[str, ...]:
        return (self.keeps.column,) if side == 0 and self.keeps is not None else ()

    def _key_names(self, side: int) -> tuple[str, ...]:
        return self.changelogs[side if self.foreign_key else 0].columns.key

    def types(self, side: int) -> pa.Schema:
        """The types of the columns of a changelog's rows; those of earlier runs, which may get wider. Raises InputError."""
        if side not in self._types:
            self._types[side] = self._types_of(side, self.changelogs[side])
        return self._types[side]

    @cached_property
    def _types(self) -> dict[int, pa.Schema]:
        return {}

    def _types_of(self, side: int, changelog: Changelog) -> pa.Schema:
        known = None if self.known_types is None else self.known_types[side]
        has_texts = JSON in self.forms(side)
        is_new = not self.stored or self.stored[side] is None
        if known is None and not is_new and not (has_texts and changelog.files and changelog.keeps_texts):
            raise InputError(
                f"the types of the columns of the {changelog.name} are not in the state, which an earlier version made: give "
                f"{self._again(side)}, which reads them again"
            )
        if known is not None and not changelog.files:
            return known
        try:
            now = row_types(changelog, self._reference(side))
        except InputError:
            if known is None:
                raise
            return known  # records that do not fit are bad records
        if known is None:
            return now
        return _of_texts(known, now) if has_texts else union_schema(known, now)

    def types_to_remember(self, side: int) -> pa.Schema | None:
        """The types of the columns of a changelog, ``None`` where rows are texts and their types are not known."""
        try:
            return self.types(side)
        except InputError:
            if JSON not in self.forms(side):
                raise
            return None if self.known_types is None else self.known_types[side]

    @cached_property
    def _altered(self) -> tuple[dict[str, AlteredColumn], ...]:
        """The columns that have other types in their tables than earlier runs have read, by their names, for each changelog."""
        return tuple(self._altered_of(*each) for each in enumerate(self.changelogs))

    def _altered_of(self, side: int, changelog: Changelog) -> dict[str, AlteredColumn]:
        table, known = changelog.table, None if self.known_types is None else self.known_types[side]
        if table is None or not changelog.files:
            return {}
        names = self.known_database[side] if self.known_database else {}
        altered = altered_columns(table, known or pa.schema([]), row_types(changelog, self._reference(side)), names)
        for column, kind in zip(changelog.columns.key, self._known_kinds[side] or (), strict=False):
            now = table.types[column]
            was = names.get(column, now)
            if table.kinds.get(column, kind) != kind or (was != now and {was, now} & _BYTES):
                altered.append(AlteredColumn(column, names.get(column, kind), now, fits=False))
        return {each.name: each for each in altered}

    def database_types(self, side: int) -> dict[str, str]:
        """The types that columns had in the database when they were read first, or when they got wider."""
        table, known = self.changelogs[side].table, self.known_database[side] if self.known_database else {}
        if table is None:
            return dict(known)
        return {**known, **{name: kind for name, kind in table.types.items() if name not in known or name not in self._altered[side]}}

    def _require_unaltered(self, side: int, columns: Iterable[str]) -> None:
        """Raise InputError for columns whose values have another meaning than those that earlier runs have read."""
        if altered := [each for name in columns if (each := self._altered[side].get(name)) is not None and not each.fits]:
            raise InputError(self._said_of_altered(side, altered))

    def _said_of_altered(self, side: int, altered: Sequence[AlteredColumn]) -> str:
        table = self.changelogs[side].table
        assert table is not None
        sentences = "; ".join(each.sentence for each in altered)
        return f"{table.name} was altered: {sentences}: give {self._again(side)}, which {_READS_AGAIN}"

    def unfit_remedy(self, side: int) -> str:
        """The way on where a value does not fit the types of a side."""
        altered = [each for each in self._altered[side].values() if each.fits]
        return self._said_of_altered(side, altered) if altered else f"--on-bad-record=drop {GOES_ON}"

    def _typed(self, side: int, columns: Sequence[tuple[str, str]] | None) -> pa.Schema:
        """The types of columns of a side with the names beside them, of ``None`` of all columns of its rows."""
        types = self.types(side)
        self._require_unaltered(side, types.names if columns is None else [column for column, _ in columns])
        taken = columns if columns is not None else zip(types.names, types.names, strict=True)
        return pa.schema([(name, types.field(column).type if column in types.names else pa.string()) for column, name in taken])

    @property
    def has_combined_keys(self) -> bool:
        """Whether a row of the result has the key of a right row beside the key of a left row, each of them possibly missing."""
        return bool(self.foreign_key) and 0 in LACKING.get(self.how, ())

    @cached_property
    def table_type(self) -> TableType:
        """The types of the keys and the rows of the result, in typed columns. Raises InputError."""
        fields = list[Any]()
        for types, nested, _ in self._columns():
            fields += [(nested, pa.struct(list(types)))] if nested else list(types)
        keys = [
            Reading(columns=changelog.columns, key=kinds, key_names=self._key_names(side)).key_type
            for side, (changelog, kinds) in enumerate(zip(self.changelogs, self.kinds(), strict=True))
        ]
        key = pa.struct([("foreign_key", keys[1]), ("primary_key", keys[0])]) if self.has_combined_keys else keys[0]
        return TableType(key, pa.struct(fields))

    def _columns(self) -> list[RowColumns]:
        """The columns of the parts of a row of the result."""
        return [
            RowColumns(self._typed(side, share.columns), share.nested, self.changelogs[side].bytes_text)
            for side, share in self.shares.items()
        ]

    def texts_of_numbers(self, side: int) -> list[str]:
        """The columns of a changelog in the result that are texts of numbers, as a database without a scale for them has these."""
        table, share = self.changelogs[side].table, self.shares[side]
        if table is None:
            return []
        names = share.columns or [(name, name) for name in self.types(side).names]
        return [name for column, name in names if table.types.get(column, "").startswith("numeric") and self._is_text(side, column)]

    def _is_text(self, side: int, column: str) -> bool:
        types = self.types(side)
        return column in types.names and is_text(types.field(column).type)

    def plain_rows(self, option: str, as_: Made, *, in_json: bool = False, of_texts: bool = False) -> PlainRows:
        """The columns of rows that are written as upserts, pairs and so on, ``in_json`` lines; ``of_texts``: they are columns
        of JSON. Raises InputError for columns that no file holds.
        """
        self._require_apart_from_key(option, as_)
        of_table = self.table_type
        if of_texts:
            of_table = of_table._replace(value=pa.struct([(field.name, pa.json_(pa.string())) for field in of_table.value]))
        elif in_json and as_ == "upserts":
            of_table = of_table._replace(value=with_numbers(pa.nulls(0, of_table.value), self._paths_of_numbers).type)
        try:
            stored = json_lines_type if in_json and as_ != "pairs" else parquet_type
            if as_ not in ("upserts", "pairs"):
                return PlainRows(option, of_table, stored=stored, without_key=True)
            return PlainRows(option, of_table, None if self.has_combined_keys else self.key_names(), stored=stored)
        except ValueError as error:
            raise InputError(f"{option}: {str(error).removeprefix(f'{option}: ')}") from error

    def _require_apart_from_key(self, option: str, as_: Made) -> None:
        """Raise InputError for another column of the result with the name of one of the key, which takes its place."""
        if as_ in ("changes", "rows"):
            return
        if self.has_combined_keys:
            of_key: dict[str, set[tuple[int, str]]] = {"foreign_key": set(), "primary_key": set()}
        else:
            keys = [each.columns.key for each in self.changelogs[: 1 if self.foreign_key else 2]]
            of_key = {name: set(enumerate(columns)) for name, *columns in zip(self.key_names(), *keys, strict=True)}
        for side, share in self.shares.items():
            taken = share.columns if share.columns is not None else [(name, name) for name in self.types(side).names]
            for column, name in [("", share.nested)] if share.nested else taken:
                if name in of_key and (side, column) not in of_key[name]:
                    raise InputError(f"{option}: '{name}' is a column of the key and another one of the result: {self.names.rename}")

    def output(self, name: str, option: str, path: str, as_: Made, owner: str = "") -> Output:
        """An output of an option, whose suffix says its format.

        Raises InputError for a column that the format does not take.
        """
        format_ = format_of(option, path).name
        in_parts = self.in_parts and as_ != "table"
        has_texts, of_json = JSON in self.result_forms, file_format(format_).of_json
        texts, columns = partial(pc.struct_field, indices=JSON), partial(pc.struct_field, indices=COLUMNS)
        numbers = partial(with_numbers, paths=self._paths_of_numbers)
        records: TableRecords
        if of_json and as_ in ("changes", "rows"):
            records = TextRecords(of_finals=as_ == "rows")
            row = texts if has_texts else partial(_applied, iso_json, partial(_applied, numbers, columns))
            return Output(name, path, records, row=row, owner=owner, in_parts=in_parts)
        of_texts = has_texts and of_json and as_ == "upserts"
        try:
            records = ChangeRecords(self.plain_rows(option, as_, in_json=of_json, of_texts=of_texts), as_, format_)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{option}: {path}: {error}") from error
        row = partial(_applied, numbers, columns) if of_json and as_ == "upserts" else columns
        if has_texts:
            remedy = f"give {self._all_again()}, which reads the rows again"
            rows = JsonRows(tuple(self._columns()), remedy, are_stored=any(self.stored or ()))
            row = partial(_applied, rows.in_json if of_texts else rows.in_types, texts)
        return Output(name, path, records, row=row, owner=owner, in_parts=in_parts)

    @cached_property
    def _paths_of_numbers(self) -> list[tuple[str, ...]]:
        """The paths of the columns of the result that are texts of numbers."""
        nested = {side: (share.nested,) if share.nested else () for side, share in self.shares.items()}
        return [(*within, name) for side, within in nested.items() for name in self.texts_of_numbers(side)]

    def _all_again(self) -> str:
        return " ".join(map(self._again, range(len(self.names.sides))))


def _has_types(changelog: Changelog, reference: Sequence[str]) -> bool:
    """Whether all files have types of values, the same ones."""
    if changelog.keeps_texts:
        return False
    try:
        return len(row_types(changelog, reference)) > 0
    except InputError:
        return False


def _applied(made: Callable[[Any], Any], of: Callable[[Any], Any], values: Any) -> Any:
    return made(of(values))


def _of_texts(known: pa.Schema, now: pa.Schema) -> pa.Schema:
    """The types that hold the values of both, text where none does: rows are texts of either."""
    fields = {field.name: field.type for field in (*known, *now)}
    for name in {*known.names} & {*now.names}:
        try:
            fields[name] = union_type(known.field(name).type, now.field(name).type)
        except ValueError:
            fields[name] = pa.string()
    return pa.schema(list(fields.items()))


def _compared(changelog: Changelog, column: str) -> ComparedColumn | None:
    """The column as its database compares it."""
    return None if changelog.table is None else changelog.table.compared.get(column)


def _units_of_texts(*keys: tuple[Changelog, str]) -> list[str] | None:
    """The types of two columns of times whose event keys are texts by the unit, where these cannot meet."""
    of_events = [any(column in schema.names for schema in changelog.evidence.types) for changelog, column in keys]
    types = [
        next((str(schema.field(column).type) for schema in changelog.evidence.types if column in schema.names), None)
        or dict(changelog.types).get(column, "")
        for changelog, column in keys
    ]
    differ = any(of_events) and (len({*types}) > 1 or not all(of_events))
    return types if differ and all("time" in each for each in types) else None


def names_of(shares: Mapping[int, Share], sides: int) -> list[dict[str, str]]:
    """The names in the result of the columns of each side."""
    return [dict(shares[side].columns or ()) if side in shares else {} for side in range(sides)]


def _counted(columns: Sequence[str]) -> str:
    return f"the column {columns[0]}" if len(columns) == 1 else f"the columns {', '.join(columns)}"
