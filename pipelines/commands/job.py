"""The job of a command: its inputs, the forms and types of their rows, and how they are read."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, TypeAlias

import pyarrow as pa

from beam_joins.columns.compared import ComparedTable, comparisons
from beam_joins.elements.content import Emit
from beam_joins.errors import InputError
from beam_joins.options.join_types import How
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_records import GOES_ON, OnBadRecord
from beam_joins.pipelines.changelogs.row_types import AlteredColumn, altered_columns, row_types
from beam_joins.pipelines.changelogs.time_units import remarks_on
from beam_joins.pipelines.commands.at_least import AtLeast
from beam_joins.pipelines.commands.command_spec import LACKING, CommandSpec
from beam_joins.pipelines.commands.computed_columns import ComputedColumns
from beam_joins.pipelines.commands.result_groups import ResultGroups
from beam_joins.pipelines.commands.select import Share, shares_of
from beam_joins.pipelines.commands.stored_rows import Select, StoredRows
from beam_joins.pipelines.commands.summary import Summary
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.formats.read_plan import COLUMNS, JSON, Form, Kind, ReadPlan
from beam_joins.pipelines.results.write_parts import Report
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

    spec: CommandSpec
    changelogs: tuple[Changelog, ...]
    select: str
    """The columns of the result, as ``--select`` names them."""
    how: How = "inner"
    foreign_key: tuple[str, ...] = ()
    """The columns of the left rows with the key of a right row; empty: the keys are joined."""
    computed: ComputedColumns | None = None
    """The columns of the result and the condition of its rows, where these are not columns of the inputs alone."""
    keeps: AtLeast | None = None
    """Which rows of the first changelog are in its table; None: all."""
    groups: ResultGroups | None = None
    """The groups of the rows, whose aggregates are the result."""
    on_bad_record: OnBadRecord
    emit: Emit | None = None
    """Which records are changes of their tables, ``None`` where nobody says it."""
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
        made = partial(shares_of, self.select, [side.option for side in self.spec.sides])
        rest = LACKING.get(self.how, ()), self.spec.rename
        earlier = self.known_names
        if earlier is None and all(each.remembered for each in self.changelogs):
            earlier = names_of(made([each.remembered for each in self.changelogs], *rest), len(self.changelogs))
        shares = made([each.rows_have for each in self.changelogs], *rest, earlier or ())
        if self.how in ("semi", "anti") and 1 in shares:
            raise InputError(f"--how {self.how} gives left rows alone: leave the columns of the right side out of --select")
        return shares

    @property
    def compared(self) -> tuple[ComparedTable, ComparedTable]:
        """The tables of a join by a reference as their database compares it with the key; numbers are compared as they are."""
        left, right = self.changelogs
        refers, of_key = (
            tuple(
                changelog.compared(column) if kind == "text" else None for column, kind in zip(columns, self.kinds()[1], strict=True)
            )
            for changelog, columns in ((left, self.foreign_key), (right, right.columns.key))
        )
        return ComparedTable(values=((REFERENCE, refers),)), ComparedTable(of_key)

    def added(self, side: int) -> str | None:
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
        return Summary(self.spec, report, files, seconds, [*more, *self.remarks()], matches=matches, title=self.title())

    def title(self) -> str:
        """The title of the result, with the names of its files: ``Left join of orders.jsonl and customers.jsonl``."""
        files = [_in_words(changelog) for changelog in self.changelogs]
        table = f"{self.how.capitalize()} join of {' and '.join(files)}" if len(files) > 1 else f"Table of {files[0]}"
        return table if self.groups is None else f"{table}, {self.groups}"

    def key_names(self) -> list[str]:
        """The columns of the key of a row of the result, as they are called there."""
        if self.groups is not None:
            return list(self.groups.by)
        if self.computed is not None:
            return self.computed.names(0, self.changelogs[0].columns.key)
        named = dict(share.columns or ()) if (share := self.shares.get(0)) is not None else {}
        return [named.get(column, column) for column in self.changelogs[0].columns.key]

    def computed_of(self, name: str) -> tuple[Changelog, str] | None:
        """The changelog of a column of the result, and the column there; ``None`` for an expression."""
        assert self.computed is not None
        of = self.computed.columns([changelog.rows_have for changelog in self.changelogs]).get(name)
        for side, changelog in enumerate(self.changelogs):
            for column in changelog.rows_have:
                if of == self.computed.column(side, column):
                    return changelog, column
        return None

    def kinds(self) -> Kinds:
        """The kinds of the values in the key columns of each changelog, in words."""
        first = (tuple(kind or "text" for kind in kinds) for kinds in self.first_kinds())
        return tuple(known or kinds for known, kinds in zip(self._known_kinds, first, strict=True))

    def is_first(self, side: int) -> bool:
        """Whether no earlier run has seen the kinds of a changelog's keys."""
        return self._known_kinds[side] is None

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
                lacks = self.added(side) if side in self.shares else None
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
            of = changelog.name, changelog.rows_have, self.added(side) if share else None, self.again(side)
            selects.append(None if share is None else rows.select(share, *of))
        return selects

    def again(self, side: int) -> str:
        """The option that reads a changelog again."""
        return f"--read-again {self.spec.sides[side].path_option}"

    def plans(self, *, in_types: bool) -> list[ReadPlan]:
        """The plan to read each changelog; ``in_types``: also records of which texts are kept must have values of the columns'
        types.
        """
        kinds, plans = self.kinds(), []
        for side, (changelog, rows) in enumerate(zip(self.changelogs, self.rows_stored, strict=True)):
            refers = side == 0 and bool(self.foreign_key)
            without = changelog.columns.about_the_change()
            typed = self.typed(side, rows.columns) if in_types or COLUMNS in rows.forms else None
            allowed: frozenset[str] | None = None
            if rows.columns is not None:
                allowed = frozenset(changelog.rows_have) if rows.has_all else None
            elif typed is not None:
                allowed = frozenset(self.types(side).names)
            plans.append(
                ReadPlan(
                    columns=changelog.columns,
                    key=kinds[side],
                    key_names=self.key_columns(side),
                    reference=self.foreign_key if refers else (),
                    refers=kinds[1] if refers else ("text",),
                    refers_names=self.changelogs[1].columns.key if refers else (),
                    numbers=self._numbers(side),
                    added=self.added(side) if side in self.shares else None,
                    rename=self.spec.rename,
                    taken=rows.columns,
                    allowed=allowed and allowed.union(without),
                    members=changelog.rows_have,
                    forms=rows.forms,
                    typed=typed,
                    bytes_text=changelog.bytes_text,
                    type_remedy="" if self._altered[side] else None,
                )
            )
        return plans

    def _numbers(self, side: int) -> tuple[str, ...]:
        return (self.keeps.column,) if side == 0 and self.keeps is not None else ()

    def key_columns(self, side: int) -> tuple[str, ...]:
        """The columns whose values are the key by which a changelog's rows are joined."""
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
                f"{self.again(side)}, which reads them again"
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

    def require_unaltered(self, side: int, columns: Iterable[str]) -> None:
        """Raise InputError for columns whose values have another meaning than those that earlier runs have read."""
        if altered := [each for name in columns if (each := self._altered[side].get(name)) is not None and not each.fits]:
            raise InputError(self._said_of_altered(side, altered))

    def _said_of_altered(self, side: int, altered: Sequence[AlteredColumn]) -> str:
        table = self.changelogs[side].table
        assert table is not None
        sentences = "; ".join(each.sentence for each in altered)
        return f"{table.name} was altered: {sentences}: give {self.again(side)}, which {_READS_AGAIN}"

    def unfit_remedy(self, side: int) -> str:
        """The way on where a value does not fit the types of a side."""
        altered = [each for each in self._altered[side].values() if each.fits]
        return self._said_of_altered(side, altered) if altered else f"--on-bad-record=drop {GOES_ON}"

    def typed(self, side: int, columns: Sequence[tuple[str, str]] | None) -> pa.Schema:
        """The types of columns of a side with the names beside them, of ``None`` of all columns of its rows."""
        types = self.types(side)
        self.require_unaltered(side, types.names if columns is None else [column for column, _ in columns])
        taken = columns if columns is not None else zip(types.names, types.names, strict=True)
        return pa.schema([(name, types.field(column).type if column in types.names else pa.string()) for column, name in taken])

    @property
    def has_combined_keys(self) -> bool:
        """Whether a row of the result has the key of a right row beside the key of a left row, each of them possibly missing."""
        return bool(self.foreign_key) and 0 in LACKING.get(self.how, ()) and self.groups is None

    def all_again(self) -> str:
        """The options that read all changelogs again."""
        return " ".join(map(self.again, range(len(self.spec.sides))))


def _has_types(changelog: Changelog, reference: Sequence[str]) -> bool:
    """Whether all files have types of values, the same ones."""
    if changelog.keeps_texts:
        return False
    try:
        return len(row_types(changelog, reference)) > 0
    except InputError:
        return False


def _of_texts(known: pa.Schema, now: pa.Schema) -> pa.Schema:
    """The types that hold the values of both, text where none does: rows are texts of either."""
    fields = {field.name: field.type for field in (*known, *now)}
    for name in {*known.names} & {*now.names}:
        try:
            fields[name] = union_type(known.field(name).type, now.field(name).type)
        except ValueError:
            fields[name] = pa.string()
    return pa.schema(list(fields.items()))


def names_of(shares: Mapping[int, Share], sides: int) -> list[dict[str, str]]:
    """The names in the result of the columns of each side."""
    return [dict(shares[side].columns or ()) if side in shares else {} for side in range(sides)]
