"""A changelog in files as it was inspected before the run: its columns and first records, and the sentences on what it lacks."""

import itertools
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.columns.compared import ComparedColumn
from beam_joins.errors import InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.sampling import (
    absent_columns,
    holds_times,
    is_time,
    may_be_positions,
)
from beam_joins.pipelines.changelogs.tombstones_in_files import Beginning
from beam_joins.pipelines.formats.changelog_columns import WITHIN, Columns, reference_at
from beam_joins.pipelines.formats.column_formats import formats_by
from beam_joins.pipelines.formats.csv_schema import Layout, written_name
from beam_joins.pipelines.formats.envelopes.inferred_key import NOTHING, Evidence
from beam_joins.pipelines.formats.envelopes.readers import NOT_READ, SHOWN_BY
from beam_joins.pipelines.formats.envelopes.wal2json_log import NONE_READ, ReadBefore, Waiting
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.read_plan import KEY_TYPES, Kind, kind
from beam_joins.pipelines.formats.registry import packed_as
from beam_joins.pipelines.formats.types.exact_json import BytesText

PART_BYTES: Final = 16 << 20
_MISFITS, _LONGEST = 3, 40
"""The numbers of columns of text that remarks name, and of characters of a value there."""
_READINGS: Final = 10
"""The number of columns that may be in formats, of those that remarks name: each is an option to be taken over."""
_EXAMPLES: Final = 3
"""The most columns that a sentence gives as examples."""
_ORDER_NEEDED: Final = "incremental runs need a time or a sequence, by which later rows replace earlier ones"
_COMPRESSION: Final = 8
"""The assumed number of bytes of records per byte of a compressed file."""


class DatabaseTable(NamedTuple):
    """A table as its database has it now: its full name, its key, its columns with their types, the names that the database
    gives to these, what keys in the columns hold, in words, and the columns as the database compares them.
    """

    name: str
    key: tuple[str, ...]
    columns: pa.Schema
    types: Mapping[str, str]
    kinds: Mapping[str, Kind]
    has_texts: bool = False
    """Whether the values are read of the texts that the database writes of them."""
    compared: Mapping[str, ComparedColumn] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Changelog:
    """The files of one changelog and what was seen in them: the first records, and the times of those of them
    that can be used.

    ``types`` are the columns that files name themselves and their types; ``remembered`` are the columns that the rows of
    an earlier run had; ``evidence`` is what envelopes say. A changelog without files has had them in an earlier run, which
    have had ``first_part`` parts.
    """

    name: str
    files: tuple[File, ...]
    columns: Columns
    first: tuple[dict[str, Any], ...]
    times: tuple[int, ...]
    types: Layout = ()
    remembered: tuple[str, ...] = ()
    first_part: int = 0
    evidence: Evidence = NOTHING
    waiting: tuple[Waiting, ...] = ()
    """The ends of files that wait for the rest of a transaction, whose end is in no file."""
    read: ReadBefore = NONE_READ
    """The transactions that this run and those before it have read."""
    absent: str = ""
    """The sentence on a table that no event of these files is of, although there are events of others."""
    table: DatabaseTable | None = None
    """The table in its database, where that is known."""
    snapshot_remarks: tuple[str, ...] = ()
    """The remarks of the summary on the snapshots whose changes are read."""
    beginning: Beginning | None = None
    """The beginning of a topic whose lines of Debezium's events are in the files; the reader of a topic itself has the keys of
    tombstones.
    """

    @property
    def rows_have(self) -> tuple[str, ...]:
        """The columns that the rows have: those of earlier runs, and others that the files and their first records name."""
        left_out = {*self.columns.about_the_change(), *self.remembered}
        there = self.seen if self.table is None else self.table.columns.names
        return (*self.remembered, *(name for name in there if name not in left_out))

    @property
    def new_columns(self) -> list[str]:
        """The columns that the rows of earlier runs did not have."""
        return [name for name in self.rows_have if name not in self.remembered] if self.remembered else []

    @property
    def absent_columns(self) -> list[str]:
        """The columns of the rows of earlier runs that no file says and no record looked at has, where there are some."""
        return [name for name in self.remembered if name not in self.seen] if self.seen and not self.columns.enveloped else []

    @property
    def bytes_text(self) -> BytesText:
        """The encoding of bytes in the texts of rows."""
        if self.table is not None:
            return "hexadecimal"
        return self.files[0].reader.bytes_text if self.files else "base64"

    def compared(self, column: str) -> ComparedColumn | None:
        """A column as its database compares it, ``None`` without a database."""
        return None if self.table is None else self.table.compared.get(column)

    @property
    def keeps_texts(self) -> bool:
        """Whether rows of a file are kept as JSON texts."""
        return self.table is None and any(file.reader.keeps_texts(file) for file in self.files)

    @property
    def bytes(self) -> int:
        """About the size of all records, before compression."""
        return bytes_of(self.files)

    def parts(self) -> list[Part]:
        """The files in parts of about PART_BYTES; a compressed one cannot be cut."""
        return parts_of(self.files, self.first_part)

    def layouts(self) -> list[str]:
        """The remarks of the summary on CSV files: the types of their columns, once for files that have the same, and the values
        that alone make text of columns.
        """
        flag, layouts = self.columns.flag("schema"), dict.fromkeys(file.layout for file in self.files if file.layout)
        texts = [", ".join(f"{written_name(name)}:{kind}" for name, kind in layout) for layout in layouts]
        remarks = [f"the columns of {self.name} in CSV are read as {each} ({flag})" for each in texts]
        misfits = {each.column: (file, each) for file in reversed(self.files) for each in file.misfits}
        for file, each in itertools.islice(misfits.values(), _MISFITS):
            more = f", and in {counted(each.records - 1, 'more record')}" if each.records > 1 else ""
            where = f"{each.text[:_LONGEST]!r} in {file.shown}, line {each.line:,}{more}"
            named = f"{flag} {shlex.quote(f'{written_name(each.column)}:{each.kind}')}"
            remarks.append(f"column '{each.column}' is text because of {where} ({named} makes it a bad record)")
        if len(misfits) > _MISFITS:
            remarks.append(f"of {self.name} {counted(len(misfits) - _MISFITS, 'more column')} became text because of one value")
        return [*remarks, *self._readings()]

    def _readings(self) -> list[str]:
        """The remarks on columns whose texts may be numbers, times or truth in formats."""
        readings = {each.column: (each, dict(file.layout)) for file in reversed(self.files) for each in file.readings}
        flag, remarks = self.columns.flag("column_formats"), list[str]()
        for each, kinds in itertools.islice(readings.values(), _READINGS):
            is_kind = "text" if kinds[each.column] == "string" else kinds[each.column]
            ways = "reads it" if len(each.formats) == 1 else "says which"
            by = formats_by(flag, each.column, each.formats)
            two = "" if len(each.formats) == 1 else ", which means several things"
            remarks.append(f"column '{each.column}' of {self.name} is {is_kind}, such as {each.text[:_LONGEST]!r}{two} ({by} {ways})")
        if len(readings) > _READINGS:
            remarks.append(f"of {self.name} {counted(len(readings) - _READINGS, 'more column')} may be in a format ({flag})")
        return remarks

    def doubts(self) -> list[str]:
        """The remarks of the summary on snapshots, on rows that may lack columns, and on transactions that are not whole."""
        doubts = [sentence for sentence in (self.evidence.doubt, *(each.sentence for each in self.waiting)) if sentence]
        return [*self.snapshot_remarks, *doubts]

    def require_table(self) -> None:
        """Raise InputError if no event is of the table that is named, although there are events of others."""
        if self.absent:
            raise InputError(self.absent)

    def require(self, option: str, column: str) -> None:
        """Raise InputError if no record looked at has the column: :meth:`require_all` of one."""
        self.require_all([(option, column)])

    def require_all(
        self, named: Sequence[tuple[str, str]], *, in_runs: bool = False, is_first: bool = True, other: "Changelog | None" = None
    ) -> None:
        """Raise InputError, naming all of them, for columns that no record looked at has; each is beside the option
        that names it. ``in_runs``: also if none of these orders the records, as those of a later run would replace none then;
        ``is_first``: no earlier run has read the columns. ``other`` is the other side of a join.

        Envelopes without a whole row, such as deletes by key alone, do not say which columns
        there are: any may be, or those of an earlier run.
        """
        if self.table is not None:
            self._require_in_table(self.table, named)
            return
        columns = self.seen
        if self.columns.snapshots is not None:
            named = [each for each in named if each[1] not in self.columns.about_the_change()]
        missing = (
            dict.fromkeys(each for each in named if each[1] not in columns and each[1].partition(WITHIN)[0] not in columns)
            if columns
            else {}
        )
        if self.columns.enveloped:
            missing = {each: None for each in missing if self._shows_absent(each[1])}
        empty = {option: f"{self.columns.flag(option)}=" for option in ("apply_as_deletes", "timestamp_by", "sequence_by")}
        if other is not None and other.columns.sequence in other.seen and (in_runs or self.columns.timestamp in columns):
            empty["sequence_by"] += f" and {other.columns.flag('sequence_by')}="  # positions are compared
        order = self._order_remedy(columns, empty) if in_runs and is_first else ""
        if missing:
            options = [] if self.columns.side is None else ["apply_as_deletes"] if order else empty
            absent, remedy = absent_columns(missing, {self.columns.flag(option): empty[option] for option in options})
            remedy = f"{remedy}; {order}" if order else remedy
            if not is_first:
                state = "an empty state" if self.columns.side is None else "another --state-dir"
                remedy = f"earlier runs have read it: write it into the files, or begin with {state}"
            envelopes = [name for shown, name in SHOWN_BY.items() if shown <= columns.keys() and not self.columns.enveloped]
            if envelopes:
                of_command = f"give {self.columns.flag('format')} {envelopes[0]}"
                remedy = f"these are events of {envelopes[0]}: " + (
                    of_command if self.columns.side is not None else "read them with ReadChangeEvents"
                )
            remedy = next((NOT_READ[each] for each in columns if each in NOT_READ), remedy)
            if of_folder := next((column for _, column in missing if f"/{column}=" in self.files[0].path), None):
                remedy = f"'{of_folder}' stands in the name of a folder alone, which is not read: write it into the files as well"
            raise InputError(f"{self.name} have {absent}: {self.files[0].shown} has {', '.join(map(written_name, columns))}; {remedy}")
        if order:
            raise InputError(f"{self.name}: {order}")

    def _order_remedy(self, columns: Collection[str], empty: Mapping[str, str]) -> str:
        """The sentence on records of incremental runs that no column orders, with columns that may; empty if one does."""
        options = {"timestamp_by": self.columns.timestamp, "sequence_by": self.columns.sequence}
        if not columns or any(column in columns for column in options.values()) or self.columns.enveloped:
            return ""
        times, numbers = self.columns_of_times(), [name for name in columns if may_be_positions(self._values(name))]
        option, others = ("timestamp_by", times) if times else ("sequence_by", numbers)
        names = [name for name in others if name not in self.columns.key][:_EXAMPLES]
        if not names:
            reader = "read them with ReadSnapshots" if self.columns.side is None else f"give {self.columns.flag('snapshots')}"
            return f"{_ORDER_NEEDED}: where each file is the whole table, {reader}; else name a column with a time"
        flag = self.columns.flag(option)
        if self.columns.side is None:
            return f"{_ORDER_NEEDED}: give {' or '.join(f'{flag}{name!r}' for name in names)}"
        without = [empty[each] for each, column in options.items() if each != option and column is not None]
        return " with ".join([f"{_ORDER_NEEDED}: give {' or '.join(f'{flag}={shlex.quote(name)}' for name in names)}", *without])

    def columns_of_times(self) -> list[str]:
        """The columns that hold nothing but times, by their types or as text."""
        types = dict(self.types)
        return [name for name in self.seen if is_time(types.get(name, "")) or holds_times(self._values(name))]

    def _values(self, column: str) -> list[Any]:
        """The values of a column in the records looked at, without nulls."""
        return [value for row in self.first if (value := row.get(column)) is not None]

    def _require_in_table(self, table: DatabaseTable, named: Sequence[tuple[str, str]]) -> None:
        """Raise InputError for columns that the table in the database does not have now."""
        there = {*table.columns.names, *self.columns.about_the_change()}
        if gone := dict.fromkeys(each for each in named if each[1] not in there):
            absent, remedy = absent_columns(gone)
            if any(column in self.remembered for _, column in gone):
                gone_by = "renamed, dropped, or left out of the publication's columns since the last run"
                other = "" if self.columns.side is None else "give options without it with --read-again, or "
                remedy = f"{gone_by}: {other}begin with an empty state"
            raise InputError(f"{table.name} has {absent}: the table has {', '.join(table.columns.names)}; {remedy}")

    def _shows_absent(self, column: str) -> bool:
        """Whether the whole rows of envelopes do not have a column that rows of earlier runs had. Rows of
        tables have all of its columns; those of documents and JSON without a schema need not.
        """
        if self.evidence.whole is None or column not in self.remembered:
            return self.evidence.whole is not None
        has_all = bool(self.evidence.types) or any(file.reader.whole_rows for file in self.files)
        return has_all and column not in self.evidence.whole.names

    @property
    def seen(self) -> dict[str, None]:
        """The columns, as the files and their first records name them."""
        return dict.fromkeys([*(name for name, _ in self.types), *itertools.chain(*self.first)])

    def kind_of(self, column: str) -> str | None:
        """The kind of the column's values, in words, if the records looked at agree; else None."""
        kinds = self.kinds_of(column)
        return kinds[0] if len(kinds) == 1 else None

    def kinds_of(self, column: str) -> list[str]:
        """The kinds of the column's values in the records looked at, or in its table, in words; empty where it is
        null in all.
        """
        if self.table is not None:
            return [self.table.kinds[column]] if column in self.table.kinds else []
        return sorted({kind(value) for row in self.first if (value := reference_at(row, column)) is not None})

    def first_kind_of(self, column: str) -> str | None:
        """The kind of the column's values, in words, in the first record looked at that has a key in it, a document only where
        no other has one, or as the database says; None where there is none.
        """
        if self.table is not None:
            return self.table.kinds.get(column)
        values = sorted((reference_at(row, column) for row in self.first), key=lambda value: isinstance(value, dict))
        return next((held for value in values if (held := kind(value)) in KEY_TYPES), None)


def parts_of(files: Iterable[File], first: int = 0) -> list[Part]:
    """The files in parts of about PART_BYTES, numbered from ``first`` on; a compressed one cannot be cut."""
    cuts = [(file, cut) for file in files for cut in cuts_of(file)]
    return [Part(number, file, start, stop) for number, (file, (start, stop)) in enumerate(cuts, first)]


def cuts_of(file: File) -> list[tuple[int, int]]:
    """Where the parts of a file begin and end; a file of a snapshot has one also without rows, for its deletes."""
    return file.reader.cuts(file, PART_BYTES) or ([(0, 0)] if file.snapshot is not None else [])


def bytes_of(files: Iterable[File]) -> int:
    """About the size of the records of files, before compression."""
    return sum(file.bytes * (_COMPRESSION if packed_as(file.path) else file.reader.expansion) for file in files)
