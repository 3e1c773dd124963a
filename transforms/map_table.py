"""MapTable: replaces the values of a table, and its keys."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.columns.sorting import valid
from beam_joins.elements.change import Dropped
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.fields import of_row
from beam_joins.functions.joiner import joiner_in_columns
from beam_joins.functions.marked_functions import by_row, vectorized
from beam_joins.functions.pairs import Pairs
from beam_joins.functions.typed_rows import Schema, column_writer, type_of_schema
from beam_joins.kernels import rekeyed
from beam_joins.kernels.aggregate import members
from beam_joins.kernels.filter import with_values
from beam_joins.keys.hashes import hashes
from beam_joins.keys.nested import stored_key_type, stored_keys
from beam_joins.keys.opaque import is_opaque
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.construction.input_checks import require_tables
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.option_checks import function
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.table_type import WHOLE, TableType, as_table, key_names_of, physical_of, table_type
from beam_joins.transforms.engine.stages.each_value import each_value, refusing, rows_of_values
from beam_joins.transforms.engine.stages.foreign_keys import keys_like, one_reference
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.replay import Replay, Route
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import changes_in_python
from beam_joins.transforms.engine.transform_outputs import MakesTable
from beam_joins.transforms.engine.turns.operator import Turn
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

_MEMBERS = "members"
_SIDES = ("key", "value")
"""What columns are of."""


class MapTable(MakesTable[TableInput]):
    """Replaces each value of a table with the result of a function, and each key with another one.

    * ``fn``: a function of key and value that returns the new value, ``None`` for no row; or, for typed columns, the columns
      of the new values, as joiners have them, ``{"name": "value.name", "id": "key"}``, also Arrow expressions,
      ``pc.field("value", "price") * 2``; or a :class:`~beam_joins.vectorized` function of the columns of values, which is called
      with no rows when the pipeline is built.
    * ``schema``: the type of the results of a function of one record: a ``pyarrow.Schema`` of the columns,
      where it returns dicts, or a ``pyarrow.DataType``. A value that the type cannot hold exactly fails the
      run. Without it the results are Python objects (opaque).
    * ``key``: the columns of the new values that are the key of the result: one, or several; or a function of the old key and
      the new value. A row with a null key is dropped as ``"null_key"``: counted, and an output of :meth:`with_outputs`. Without it
      keys stay.

    Timestamps and positions stay. If ``fn`` raises under :meth:`with_exception_handling`, the row is
    absent. ``fn`` must be deterministic, since old values may be mapped again. It may change its argument, a
    copy.

    Raises ``ValueError`` at construction for a ``fn`` that is not a function and for ``schema`` with a
    vectorized one; when applied, for a vectorized function of opaque values and for a column that the values do not have;
    and in the run for two rows with one new key at one position.

    >>> from beam_joins import Change, TableToChanges
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", None, 5, timestamp=0, position=0)])
    ...         | MapTable(lambda key, value: value * 10)
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='k', old=None, new=50, timestamp=0, position=0)
    """

    def __init__(
        self,
        fn: Callable[..., Any] | Mapping[str, str | pc.Expression] | None = None,
        *,
        schema: Schema | None = None,
        key: str | Sequence[str] | Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        if fn is None and key is None:
            raise ValueError("give fn, a function of key and value, or key=, or both")
        self._fn = fn if fn is None or isinstance(fn, Mapping) else function("fn", fn, "of key and value")
        if isinstance(fn, Mapping):
            joiner_in_columns(fn, names=_SIDES, option="fn")
        if schema is not None and (fn is None or isinstance(fn, vectorized | Mapping)):
            raise ValueError("schema= says what a function of one record gives: leave schema= out without one")
        type_of_schema(schema)
        self._key_of = None if key is None else of_row("key", key)
        self._schema, self._key = schema, key

    def build(self, pvalue: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The mapped table and the dropped records."""
        require_tables("MapTable", pvalue)
        if self._key_of is None:
            none = pvalue | "None" >> beam.ParDo(ForEach(_nothing)).with_output_types(Dropped) if self._all_outputs else None
            return self._mapped(pvalue), none
        table = pvalue if self._fn is None else self._mapped(pvalue)
        return self._rekeyed(prepared(table, needs="checked"), self._key_of)

    def _mapped(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        of_table, functions = table_type(pvalue), self.handling.functions
        if isinstance(self._fn, Mapping):
            return self._with_columns(pvalue, self._fn)
        called, write = functions.function("fn", self._fn, fresh=True), column_writer("fn", self._schema)
        if isinstance(called, vectorized):
            value: Any = _type_given(called, of_table.value_column)
            return self._with_values(pvalue, partial(_in_columns, called, value), value)
        value = Any if self._schema is None else type_of_schema(self._schema)

        def mapped_values(batch: ChangeBatch) -> pa.Array:
            refused = refusing(batch, of_table, functions, "fn") if functions.handles_any else None
            return write(each_value(batch, of_table, functions, called), refused)

        return self._with_values(pvalue, mapped_values, value)

    def _with_columns(self, pvalue: PCollection[Any], columns: Mapping[str, Any]) -> PCollection[Any]:
        of_table = table_type(pvalue)
        types = pa.null() if is_opaque(of_table.key_column) else stored_key_type(of_table.key_column), of_table.value_column
        made = joiner_in_columns(columns, self.handling.functions, types=types, names=_SIDES, option="fn")

        def mapped_values(batch: ChangeBatch) -> pa.Array:
            values, row = batch.values, rows_of_values(batch)
            index = np.where(valid(values) & (row >= 0), np.arange(len(values)), -1)
            keys = pa.nulls(len(batch)) if is_opaque(batch.key.type) else stored_keys(batch.key)
            return made(Pairs(keys, np.where(index >= 0, row, -1), values, index))

        return self._with_values(pvalue, mapped_values, made.type)

    def _with_values(self, pvalue: PCollection[Any], values_of: Callable[[ChangeBatch], pa.Array], value: Any) -> PCollection[Any]:
        of_table, mapped = table_type(pvalue), partial(_mapped, values_of, self.handling.functions)
        run = beam.ParDo(ForEach(mapped)).with_output_types(ChangeBatch)
        table = self.handling.apply("Map", run, in_batches(pvalue))
        table.element_type = ChangeBatch
        compared = of_table.compared._replace(values=())  # the function may have given values that are equal one text
        made = of_table._replace(value=value, compared=compared, key_names=self._names_of_key(of_table))
        return as_table(table, made, physical_of(pvalue)._replace(bytes=None))

    def _names_of_key(self, of_table: TableType) -> tuple[str, ...]:
        """The names of the columns of the key, if no other columns have them now."""
        if not isinstance(self._fn, Mapping):
            return ()
        columns = {name: self._fn[name] for name in of_table.key_names if name in self._fn}
        is_kept = all(isinstance(column, str) and column == f"value.{name}" for name, column in columns.items())
        return of_table.key_names if is_kept else ()

    def _rekeyed(self, table: PCollection[Any], key_of: Callable[[Any, Any], Any]) -> tuple[PCollection[Any], PCollection[Any] | None]:
        of_table, functions = table_type(table), self.handling.functions
        keys = one_reference("key", self._key, key_of, functions, of_table, keys_like(TableType(), "the key"))

        def rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
            new, failed = keys.of(batch)
            changes = batch.filter(pa.array(valid(batch.new) & ~valid(new)[: len(batch)] & ~failed))
            writer.drop_rows("null_key", len(changes), lambda: ((c, c.timestamp) for c in changes_in_python(changes, of_table)))
            functions.give(writer)
            sent = members(batch, new, {"value": batch.values})
            writer.send(_MEMBERS, hashes(sent["group"]), sent)

        def operator(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
            batch, state = rekeyed.step(turn.state or Arrangement(), inputs[_MEMBERS])
            if len(batch):
                yield batch
            return state

        stored = {_MEMBERS: pa.schema([("group", keys.type), ("key", of_table.key_column), ("value", of_table.value_column)])}
        routed = table | "Key" >> Route(rows, to=(_MEMBERS, *self.dropping, *self.handling.tags), size=physical_of(table).bytes)
        replayed = (routed[_MEMBERS],) | "Under keys" >> Replay(operator, main_type=ChangeBatch, tables=(_MEMBERS,), stored=stored)
        self.handling.collect(routed)
        key = Any if is_opaque(keys.type) else keys.type
        made = TableType(key, of_table.value, of_table.order, key_names=key_names_of(self._key))
        return as_table(replayed[MAIN], made, WHOLE), self.all_dropped(routed)


def _in_columns(called: Any, value: pa.DataType, batch: ChangeBatch) -> pa.Array:
    return exact_cast(by_row("fn", called, batch.values), value, ValuePlace("fn"))


def _mapped(values_of: Callable[[ChangeBatch], pa.Array], functions: StageFunctions, batch: ChangeBatch) -> Iterator[Any]:
    values = values_of(batch)
    result = with_values(batch, values, valid(values), keeps_nothing=True)
    if len(result):
        yield result
    yield from functions.take()


def _nothing(batch: Any) -> tuple[Dropped, ...]:
    return ()


def _type_given(fn: Any, kind: pa.DataType) -> pa.DataType:
    with called_with_no_rows():
        return by_row("fn", fn, pa.nulls(0, kind)).type
