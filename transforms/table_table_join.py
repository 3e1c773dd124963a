"""TableTableJoin: joins two tables by their common key (KIP-77)."""

from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins.how import How
from beam_joins.joiner import Joiner, columns_read, joiner_in_columns, values_joined
from beam_joins.overlap_events import Shape
from beam_joins.transforms.engine.input_checks import common_key_type, common_order, common_windowing, two_tables
from beam_joins.transforms.engine.joins import LEFT, in_sides, joined_table
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.output_types import Handled, Table, TwoTables
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.table_rows import batch_rows
from beam_joins.transforms.engine.table_type import WHOLE, TableType, as_table
from beam_joins.typed_rows import Schema


class TableTableJoin(HandlesExceptions[TwoTables, Table, Handled[Table]]):
    """Joins the rows of two tables that have the same key: ``(left: Table[K, V], right: Table[K, W]) ->
    Table[K, R]``.

    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row. It
      may be :class:`~beam_joins.vectorized`; columns by name, as in ``{"amount": "left.amount", "name":
      "right.name"}``, or Arrow expressions; or ``with_key(fn)`` with ``fn(key, left value, right value)``.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right one, ``joiner(left value, None)``;
      ``"right"`` right rows without a left one, ``joiner(None, right value)``; ``"outer"`` both. The joiner
      is never called with both sides ``None``. ``"semi"``: left rows that have a right row; ``"anti"``: left
      rows that have none. There the joiner is one of the left value, and may be left out: the left value
      itself.
    * ``schema``, a ``pyarrow.Schema`` or ``DataType``: what a joiner of one record gives. Without it the
      result's values are opaque.

    Two windowed tables join on the same key and window. A change of either side updates the joined row, and a
    tombstone comes out only for a row that existed. A result has the larger timestamp of both sides. More
    tables are joined in a chain: ``((a, b) | TableTableJoin(...), c) | TableTableJoin(...)``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to one table
    ordered by time and one by a sequence, to keys of types that are never equal or without a deterministic
    coder, and for columns that a table does not have.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     stock = pipeline | "stock" >> beam.Create([Change("apple", None, 7, timestamp=1, position=1)])
    ...     price = pipeline | "price" >> beam.Create([Change("apple", None, 0.5, timestamp=2, position=2)])
    ...     worth = (stock, price) | TableTableJoin(lambda count, euros: count * (euros or 0), how="left")
    ...     _ = worth | beam.FlatMap(lambda batch: batch) | beam.Map(print)
    Change(key='apple', old=None, new=0, timestamp=1, position=1)
    Change(key='apple', old=0, new=3.5, timestamp=2, position=2)
    """

    def __init__(self, joiner: Joiner | None = None, *, how: How = "inner", schema: Schema | None = None) -> None:
        super().__init__()
        self._how: How = choice("how", how, How)
        joiner_in_columns(joiner, schema=schema, of=values_joined(self._how))
        self._joiner = joiner
        self._schema = schema

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The joined table."""
        sides = in_sides(*two_tables("TableTableJoin", pvalue))
        functions, types = self.handling.functions, sides.types
        join = joiner_in_columns(self._joiner, functions, self._schema, types=sides.value_types, of=values_joined(self._how))
        result = TableType(
            common_key_type("TableTableJoin", *types),
            join.type,
            common_order("TableTableJoin", *types),
            common_windowing("TableTableJoin", *types),
        )
        columns = columns_read(self._joiner, values_joined(self._how))
        joined, _ = joined_table(
            "TableTableJoin",
            sides,
            batch_rows(LEFT, columns[0]),
            columns[1],
            join=join,
            shape=Shape(self._how, result="same_key"),
            handling=self.handling,
            looks_up=lambda keys: keys,
        )
        return as_table(joined, result, WHOLE)
