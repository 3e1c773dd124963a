"""The rows of a job with ``--where``, or with expressions in ``--select``: their types, and how each output writes them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins import MapTable, View, vectorized, versioned, views
from beam_joins.errors import InputError
from beam_joins.functions.marked_functions import built_in
from beam_joins.pipelines.commands.computed_columns import ROWS, ComputedColumns
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.result_rows import ResultRows
from beam_joins.pipelines.formats.output_records import Made
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.views.relations import Column, Relation, SelectNode, TableNode

_NAMED: Final = re.compile(rf'\b{ROWS}\.|"')
"""What the planner has beside the names of columns."""


def ungrouped_rows(job: Job) -> ResultRows:
    """The rows of a job's result before they are aggregated."""
    return ResultRows(job) if job.computed is None else ComputedRows(job, job.computed)


@dataclass(frozen=True)
class ComputedRows(ResultRows):
    """The rows for which a condition is true, with computed columns."""

    computed: ComputedColumns
    in_texts = False

    @cached_property
    def table_type(self) -> TableType:
        """The types of the keys and the rows. Raises InputError."""
        return self._before.table_type._replace(value=pa.struct(list(self._relation.schema)))

    @cached_property
    def _before(self) -> ResultRows:
        """The rows of an only input, or with the rows of both sides as columns."""
        return ResultRows(self.job)

    @cached_property
    def _names(self) -> list[list[str]]:
        """The columns of each input."""
        value = self._before.table_type.value
        return [value.names] if len(self.computed.sides) == 1 else [side.type.names for side in value]

    @cached_property
    def _relation(self) -> Relation:
        """The query over rows with the columns of inputs, and with their rows. Raises InputError."""
        fields = list(self._before.table_type.value)
        if len(self.computed.sides) > 1:
            fields = [*(field.with_name(f"{side.name}.{field.name}") for side in fields for field in side.type), *fields]
        rows = views.table(ROWS, pa.schema(fields), key=None)
        expressions = self._expressions(rows)
        if self.computed.where:
            condition = expressions.pop("")
            rows = rows.filter(pc.field(condition) if isinstance(condition, str) else condition)
        columns = self.computed.columns(self._names)
        if absent := [of for of in columns.values() if of not in expressions and of not in rows.schema.names]:
            raise InputError(f"--select: there is no column '{absent[0]}': there are {', '.join(rows.schema.names)}")
        return rows.select({name: expressions.get(of, of) for name, of in columns.items()})

    def _expressions(self, rows: Relation) -> dict[str, Column]:
        """The expressions by their names, and the condition by an empty one. Raises InputError."""
        texts = self.computed.expressions
        if not texts:
            return {}
        options = " and ".join([*(["--select"] if texts.keys() - {""} else []), *(["--where"] if "" in texts else [])])
        query = self.computed.query(rows.schema.names)
        try:
            planned = views.sql(query, {ROWS: rows})
        except ValueError as error:
            raise InputError(f"{options}: {_NAMED.sub('', str(error).removeprefix('query: '))}") from None
        if not isinstance(planned, SelectNode) or not isinstance(planned.of, TableNode):
            raise InputError(f"{options}: an expression is of the columns of one row; --aggregate is for many")
        if "" in texts and not pa.types.is_boolean(kind := planned.schema.field(len(texts) - 1).type):
            raise InputError(f"--where: {texts['']} is {kind}, and not true or false")
        return {name: planned.columns[f"{n}"] for n, name in enumerate(texts)}

    def made_of(self, rows: PCollection[Any]) -> PCollection[Any]:
        """The table of these rows."""
        made = versioned(", ".join(map(", ".join, self._names)))(_in_columns(self._before.typed, self.computed))
        typed = rows | "Columns of inputs" >> MapTable(vectorized(built_in("columns of inputs")(made)))
        result: PCollection[Any] = {ROWS: typed} | "Computed" >> View(self._relation)
        return result

    @property
    def typed(self) -> Callable[[pa.StructArray], pa.StructArray]:
        """Gives the rows of values in typed columns, which they are."""
        return lambda values: values

    def plain_rows(self, option: str, as_: Made, *, in_json: bool = False, of_texts: bool = False) -> PlainRows:
        """The columns of the rows. Raises InputError for columns that no file holds, and for one with the name of a key's."""
        has_key, key = as_ in ("upserts", "pairs"), None if self.job.has_combined_keys else self.job.key_names()
        if has_key and key is not None:
            columns = self.computed.columns(self._names)
            of_key = [self.computed.column(0, name) for name in self.job.changelogs[0].columns.key]
            for name, of in zip(key, of_key, strict=True):
                if columns.get(name, of) != of:
                    raise InputError(
                        f"{option}: '{name}' is a column of the key and another one of the result: {self.job.spec.rename}"
                    )
        return self._in_columns(option, self.table_type, as_, key if has_key else None, in_json=in_json, without_key=not has_key)


def _in_columns(
    typed: Callable[[pa.StructArray], pa.StructArray], computed: ComputedColumns
) -> Callable[[pa.RecordBatch], dict[str, pa.Array]]:
    """A function that gives the columns of rows in any form: those of an only input, or of both sides and the rows themselves."""

    def columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        rows = typed(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))
        made = dict(zip(rows.type.names, rows.flatten(), strict=True))
        if len(computed.sides) == 1:
            return made
        of_sides = {
            f"{side}.{name}": column for side, row in made.items() for name, column in zip(row.type.names, row.flatten(), strict=True)
        }
        return of_sides | made

    return columns
