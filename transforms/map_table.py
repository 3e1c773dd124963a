"""MapTable: replaces the values of a table."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.columns.sorting import valid
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.marked_functions import by_row, vectorized
from beam_joins.functions.typed_rows import Schema, column_writer, type_of_schema
from beam_joins.kernels.filter import with_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import require_tables
from beam_joins.transforms.engine.construction.option_checks import function
from beam_joins.transforms.engine.construction.output_types import Handled, Table, TableInput
from beam_joins.transforms.engine.construction.table_type import as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.each_value import each_value, refusing
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace


class MapTable(HandlesExceptions[TableInput, Table, Handled[Table]]):
    """Replaces each value of a table with the result of a function.

    * ``fn``: a function of key and value that returns the new value, ``None`` for no row; or a
      :class:`~beam_joins.vectorized` function of the columns of values, which gives typed columns and is
      called with no rows when the pipeline is built.
    * ``schema``: the type of the results of a function of one record: a ``pyarrow.Schema`` of the columns,
      where it returns dicts, or a ``pyarrow.DataType``. A value that the type cannot hold exactly fails the
      run. Without it the results are Python objects (opaque).

    Keys, timestamps and positions stay. If ``fn`` raises under :meth:`with_exception_handling`, the row is
    absent. ``fn`` must be deterministic, since old values may be mapped again. It may change its argument, a
    copy.

    Raises ``ValueError`` at construction for a ``fn`` that is not a function and for ``schema`` with a
    vectorized one; when applied, for a vectorized function of opaque values.

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

    def __init__(self, fn: Callable[..., Any], *, schema: Schema | None = None) -> None:
        super().__init__()
        self._fn = function("fn", fn, "of key and value")
        if schema is not None and isinstance(fn, vectorized):
            raise ValueError(
                "schema= says what a function of one record gives, and this one gives columns by itself: leave schema= out"
            )
        type_of_schema(schema)
        self._schema = schema

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The mapped table."""
        require_tables("MapTable", pvalue)
        of_table, functions = table_type(pvalue), self.handling.functions
        called, write = functions.function("fn", self._fn, fresh=True), column_writer("fn", self._schema)
        if isinstance(called, vectorized):
            value: Any = _type_given(called, of_table.value_column)

            def mapped_values(batch: ChangeBatch) -> pa.Array:
                return exact_cast(by_row("fn", called, batch.values), value, ValuePlace("fn"))
        else:
            value = Any if self._schema is None else type_of_schema(self._schema)

            def mapped_values(batch: ChangeBatch) -> pa.Array:
                refused = refusing(batch, of_table, functions, "fn") if functions.handles_any else None
                return write(each_value(batch, of_table, functions, called), refused)

        def mapped(batch: ChangeBatch) -> Iterator[Any]:
            values = mapped_values(batch)
            result = with_values(batch, values, valid(values), keeps_nothing=True)
            if len(result):
                yield result
            yield from functions.take()

        run = beam.FlatMap(mapped).with_output_types(ChangeBatch)
        table = self.handling.apply("Map", run, in_batches(pvalue))
        table.element_type = ChangeBatch
        compared = of_table.compared._replace(values=())  # the function may have given values that are equal one text
        return as_table(table, of_table._replace(value=value, compared=compared), physical_of(pvalue)._replace(bytes=None))


def _type_given(fn: Any, kind: pa.DataType) -> pa.DataType:
    with called_with_no_rows():
        return by_row("fn", fn, pa.nulls(0, kind)).type
