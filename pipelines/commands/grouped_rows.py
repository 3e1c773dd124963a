"""The rows of a job whose result are groups with aggregates: their types, and how each output writes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins import AggregateTable, MapTable, vectorized, versioned
from beam_joins.errors import InputError
from beam_joins.functions.marked_functions import built_in
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.commands.computed_rows import ungrouped_rows
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.result_groups import ResultGroups
from beam_joins.pipelines.commands.result_rows import ResultRows
from beam_joins.pipelines.commands.summary import GROUPS
from beam_joins.pipelines.formats.output_records import Made
from beam_joins.pipelines.results.counts import TallyDropped
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.values.arrow_types import is_text


def result_rows(job: Job) -> ResultRows:
    """The rows of a job's result."""
    return ungrouped_rows(job) if job.groups is None else GroupedRows(job, job.groups)


@dataclass(frozen=True)
class GroupedRows(ResultRows):
    """The groups of a job's rows."""

    groups: ResultGroups
    in_texts = False

    @cached_property
    def table_type(self) -> TableType:
        """The types of the groups and of their aggregates, in typed columns. Raises InputError."""
        rows = self._before.table_type.value
        aggregated = [name for name in self.groups.read if name not in self.groups.by]
        for option, columns in (("--group-by", self.groups.by), ("--aggregate", aggregated)):
            if absent := [name for name in columns if rows.get_field_index(name) < 0]:
                raise InputError(f"{option}: the rows have no column '{absent[0]}': they have {', '.join(each.name for each in rows)}")
            if nested := [name for name in columns if pa.types.is_struct(rows.field(name).type)]:
                raise InputError(f"{option}: '{nested[0]}' is a row: take its columns in --select")
            if texts := [name for name in columns if is_text(rows.field(name).type) and self._has_numbers(name)]:
                declared = self._declared(texts[0], "decimal(18,2)")
                raise InputError(f"{option}: the numbers in '{texts[0]}' are of no one type and are kept as texts: {declared}")
        try:
            for name in self.groups.by:
                if (source := self._source(name)) is not None and (compared := source[0].compared(source[1])) is not None:
                    compared.compared_alone()
            return self._transform().result_type(TableType(value=rows))
        except ValueError as error:
            sentence = str(error).removeprefix("aggregates: ")
            texts = [name for name in aggregated if is_text(rows.field(name).type)]
            typed = f"; '{texts[0]}' is text: if it has numbers, {self._declared(texts[0], 'double')}" if texts else ""
            raise InputError(f"--aggregate: {sentence}{typed}") from error

    @cached_property
    def _before(self) -> ResultRows:
        """The rows that are grouped."""
        return ungrouped_rows(self.job)

    def _source(self, name: str) -> tuple[Changelog, str] | None:
        """The changelog of a column of the rows, and the column's name there; ``None`` for a computed one."""
        if self.job.computed is not None:
            return self.job.computed_of(name)
        for side, share in self.job.shares.items():
            named = {name: name} if share.columns is None else {of_result: column for column, of_result in share.columns}
            if name in named and (share.columns is not None or name in self.job.types(side).names):
                return self.job.changelogs[side], named[name]
        raise AssertionError(name)

    def _has_numbers(self, name: str) -> bool:
        """Whether a column of texts has numbers, as one of a database that says no scale for them."""
        if (source := self._source(name)) is None:
            return False
        changelog, column = source
        side = self.job.changelogs.index(changelog)
        if self.job.database_types(side).get(column, "").startswith("numeric"):
            return True
        return changelog.table is None and not {"whole numbers", "fractions"}.isdisjoint(changelog.kinds_of(column))

    def _declared(self, name: str, kind: str) -> str:
        source = self._source(name)
        if source is None:
            return f"cast it, as in --select 'cast({name} as {kind}) as {name}'"
        changelog, column = source
        return f"say its type, as in {changelog.columns.flag('schema')} '{column}:{kind}'"

    def _transform(self) -> AggregateTable:
        by: Any = self.groups.by[0] if len(self.groups.by) == 1 else list(self.groups.by) or None
        return AggregateTable(self.groups.aggregates, group_by=by, empty_groups=self.groups.empty, null_groups=self.groups.null)

    def made_of(self, rows: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any]]:
        """The table of the groups of these rows, and the counts of rows in no group."""
        if read := self.groups.read:
            columns = versioned(", ".join(read))(_columns_of(self._before.typed, read))
            rows |= "Columns of groups" >> MapTable(vectorized(built_in("columns of groups")(columns)))
        made = rows | "Groups" >> self._transform().with_outputs()
        return made.table, made.dropped | "Tally groups" >> beam.ParDo(TallyDropped(GROUPS))

    def plain_rows(self, option: str, as_: Made, *, in_json: bool = False, of_texts: bool = False) -> PlainRows:
        """The columns of the groups and of their aggregates. Raises InputError for columns that no file holds."""
        return self._in_columns(option, self.table_type, as_, self.groups.by, in_json=in_json)


def _columns_of(
    typed: Callable[[pa.StructArray], pa.StructArray], read: Sequence[str]
) -> Callable[[pa.RecordBatch], dict[str, pa.Array]]:
    """A function that gives the columns of rows in any form that groups are made of."""

    def columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        rows = typed(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))
        return {name: pc.struct_field(rows, name) for name in read}

    return columns
