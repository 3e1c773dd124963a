"""DistinctTable: the different rows of a table."""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import integers, valid
from beam_joins.kernels import measures
from beam_joins.kernels.filter import with_values
from beam_joins.kernels.measures import Measure, MeasuresState
from beam_joins.keys.opaque import is_opaque, opaque_values, python_keys
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.construction.option_checks import columns as names_of_columns
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import MEMBERS, Aggregation, GroupedTable, Grouping
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.turns.operator import Turn
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

_COUNT = {"rows": Measure("count")}


class DistinctTable(GroupedTable):
    """The different rows of a table, by some columns or all: ``Table[K, V] -> Table[tuple, V]``, as SQL's ``SELECT DISTINCT``.

    * ``columns``: the columns that a row of the result has, one or several; without it all columns, of a typed table.

    A row is keyed by the tuple of its columns, which may be null. It is there as long as a row of the table has these values:
    it changes once when the first one comes, and once when the last one has left.

    Raises ``ValueError`` at construction for a wrong option; when applied, without ``columns`` for opaque values, and for a column
    that the table does not have.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     orders = [Change(n, None, {"city": "Oslo", "n": n}, timestamp=n, position=n) for n in (1, 2)]
    ...     cities = pipeline | beam.Create(orders) | DistinctTable(columns="city")
    ...     _ = cities | beam.FlatMap(lambda batch: batch) | beam.Map(print)
    Change(key=('Oslo',), old=None, new={'city': 'Oslo'}, timestamp=1, position=1)
    """

    def __init__(self, *, columns: str | Sequence[str] | None = None) -> None:
        super().__init__(None)
        self._columns = None if columns is None else names_of_columns("columns", columns)

    def _names(self, of_table: TableType) -> list[str]:
        """The names of the columns; raises ``ValueError``."""
        if self._columns is not None:
            return self._columns
        kind = of_table.value_column
        if not pa.types.is_struct(kind):
            raise ValueError("DistinctTable: the columns of this table are not known: give columns=, or the table schema=")
        return [field.name for field in kind]

    def aggregation(self, of_table: TableType, functions: StageFunctions) -> Aggregation:
        """The rows of groups by the columns."""
        return _Distinct(of_table, functions, self._names(of_table))


class _Distinct(Aggregation):
    """Groups whose rows are their keys."""

    is_keyed = False

    def __init__(self, of_table: TableType, functions: StageFunctions, names: Sequence[str]) -> None:
        grouping = Grouping(of_table, functions, names, [], keeps_null=True)
        kind = of_table.value_column
        if not is_opaque(kind):
            kind = pa.struct([kind.field(name) for name in names])
        super().__init__(grouping, kind, pa.schema([("group", grouping.group_type)]))
        self._names = names

    def columns_sent(self, batch: ChangeBatch, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """No values."""
        return {}

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The rows that come and go."""
        batch, state = measures.step(turn.state or MeasuresState(), inputs[MEMBERS], _COUNT, keeps_empty=False)
        batch = batch.filter(pc.or_(batch.before.is_null(), batch.new.is_null()))
        if len(batch):
            yield self._with_rows(batch)
        return state

    def _with_rows(self, batch: ChangeBatch) -> ChangeBatch:
        before = integers(batch.before.fill_null(-1))
        owner = np.arange(len(batch.values))
        of_earlier = np.flatnonzero(before >= len(batch))
        owner[before[of_earlier]] = of_earlier
        keys = batch.key.take(pa.array(owner))
        if is_opaque(self.type):
            values = opaque_values([dict(zip(self._names, key, strict=True)) for key in python_keys(keys)])
        else:
            values = exact_cast(keys, self.type, ValuePlace("a row"))
        return with_values(batch, values, valid(batch.values), keeps_nothing=False)
