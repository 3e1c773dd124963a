"""TableTableJoin: two tables on the same key (KIP-77)."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.changelog import upsert
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import value_coder
from beam_joins.joiner import Join, Joiner, Schema, columns_read, joiner_in_columns, of_records
from beam_joins.table_join import joined_rows
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.checked_table import naming_keys
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_form import InColumns, InRecords, TableForm, encoded_joiner, no_rows
from beam_joins.transforms.engine.table_rows import batch_rows, table_rows
from beam_joins.transforms.engine.table_type import (
    TableType,
    as_table,
    common_key_type,
    common_order,
    common_windowing,
    table_key_coder,
    table_type,
    two_tables,
)
from beam_joins.transforms.table_to_records import in_records

LEFT, RIGHT = "left", "right"
How = Literal["inner", "left", "outer"]


class TableTableJoin(HandlesExceptions):
    """The rows of two tables with the same key: ``(PCollection[Change[K, V]], PCollection[Change[K, W]]) -> PCollection[Change[K, R]]``.

    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right one, ``joiner(left value, None)``; ``"outer"`` keeps all rows,
      ``joiner(None, right value)`` too. The joiner is never called with both sides ``None``.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    Two tables in columns are joined in columns, ``PCollection[ChangeBatch]``; there the joiner may be one of columns, and ``schema`` says what
    columns a joiner of one record gives, as in :class:`~beam_joins.ForeignKeyJoin`.

    Two windowed tables join on the same key and window. A change of either side updates the joined row, and a tombstone comes out only for a
    row that existed. A result has the larger timestamp of both sides. More tables are joined in a chain:
    ``((a, b) | TableTableJoin(...), c) | TableTableJoin(...)``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option, and when applied to windowed or unbounded input, to tables ordered by
    different things, or to keys of different types or without a deterministic coder.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     stock = pipeline | "stock" >> beam.Create([Change("apple", None, 7, timestamp=1, position=1)])
    ...     price = pipeline | "price" >> beam.Create([Change("apple", None, 0.5, timestamp=2, position=2)])
    ...     _ = (stock, price) | TableTableJoin(lambda count, euros: count * (euros or 0), how="left") | beam.Map(print)
    Change(key='apple', old=None, new=0, timestamp=1, position=1)
    Change(key='apple', old=0, new=3.5, timestamp=2, position=2)
    """

    def __init__(self, joiner: Joiner, *, how: How = "inner", schema: Schema | None = None, partitions: int | None = None) -> None:
        super().__init__()
        joiner_in_columns(joiner, schema=schema)
        self._schema = schema
        self._joiner = joiner
        self._how: How = choice("how", how, How)
        self._partitions = partition_count(partitions)

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The joined table."""
        left, right = two_tables("TableTableJoin", pvalue)
        if left.element_type is ChangeBatch and right.element_type is ChangeBatch:
            return self._in_columns(left, right)
        left, right = in_records(left, "Left in records"), in_records(right, "Right in records")
        result_type = self._result_type(left, right)
        keys = table_key_coder(result_type, "the key of TableTableJoin")
        values, results = (value_coder(table_type(left).value), value_coder(table_type(right).value)), value_coder(Any)
        join = encoded_joiner(
            of_records("TableTableJoin", self._joiner, self._schema), self.handling.functions, keys, *values, results
        )
        return self._joined(
            left | "Left" >> Route(table_rows(LEFT, keys, values[0]), to=(LEFT,), partitions=self._partitions),
            right | "Right" >> Route(table_rows(RIGHT, keys, values[1]), to=(RIGHT,), partitions=self._partitions),
            _Join(join, self._how, InRecords(keys, results)),
            result_type,
        )

    def _in_columns(self, left: PCollection[Any], right: PCollection[Any]) -> PCollection[Any]:
        needed = columns_read(self._joiner)
        return self._joined(
            left | "Left" >> Route(batch_rows(LEFT, needed[0]), to=(LEFT,), partitions=self._partitions),
            right | "Right" >> Route(batch_rows(RIGHT, needed[1]), to=(RIGHT,), partitions=self._partitions),
            _Join(joiner_in_columns(self._joiner, self.handling.functions, self._schema), self._how, InColumns()),
            self._result_type(left, right),
        )

    def _result_type(self, left: PCollection[Any], right: PCollection[Any]) -> TableType:
        types = table_type(left), table_type(right)
        key_type = common_key_type("TableTableJoin", *types)
        return TableType(key_type, Any, common_order("TableTableJoin", *types), common_windowing("TableTableJoin", *types))

    def _joined(self, lefts: Any, rights: Any, operator: "_Join", result_type: TableType) -> PCollection[Any]:
        joined = (lefts[LEFT], rights[RIGHT]) | "Join" >> Replay(
            self.handling.functions.replay(operator),
            to=(MAIN, *self.handling.tags),
            partitions=self._partitions,
            main_type=operator.form.element_type,
            check=keys_may_meet("TableTableJoin", LEFT, RIGHT, "left table's keys", "right table's keys"),
        )
        self.handling.collect(joined)
        return as_table(joined[MAIN], result_type)


class _Join:
    def __init__(self, join: Join, how: How, form: TableForm) -> None:
        self._join = join
        self._how: How = how
        self.form = form

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        inputs = read_blocks(blocks)
        with naming_keys(self.form):
            rows = joined_rows(inputs.get(LEFT, no_rows()), inputs.get(RIGHT, no_rows()), self._join, self._how)
        batch, _ = upsert(pa.Table.from_batches([rows]), "updates", self.form.encode)
        return self.form.elements(batch)
