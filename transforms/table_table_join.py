"""TableTableJoin: joins two tables, or more, by their common key (KIP-77)."""

from collections.abc import Sequence
from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins.columns.compared import ComparedTable, comparisons
from beam_joins.functions.joiner import SIDES, Joiner, columns_read, joiner_in_columns, values_joined
from beam_joins.functions.typed_rows import Schema
from beam_joins.options.join_types import How
from beam_joins.transforms.engine.construction.input_checks import common_key_type, common_order, common_windowing, tables_by_name
from beam_joins.transforms.engine.construction.option_checks import choice, columns
from beam_joins.transforms.engine.construction.output_types import Handled, Table, Tables
from beam_joins.transforms.engine.construction.table_type import WHOLE, TableType, as_table, table_type
from beam_joins.transforms.engine.joins import key_joined_table
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions

_NAME = "TableTableJoin"


class TableTableJoin(HandlesExceptions[Tables, Table, Handled[Table]]):
    """Joins the rows of two or more tables with the same key: ``(left: Table[K, V], right: Table[K, W]) ->
    Table[K, R]``.

    * ``joiner``: the columns of the result, ``{"amount": "left.amount", "name": "right.name"}``, also whole values,
      ``{"customer": "right"}``, and Arrow expressions; or a function of the left and the right value that returns the
      result's value, ``None`` for no row. The function may be :class:`~beam_joins.vectorized`, or ``with_key(fn)`` with
      ``fn(key, left value, right value)``.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right row, ``joiner(left value, None)``;
      ``"right"`` keeps right rows without a left row, ``joiner(None, right value)``; ``"outer"`` keeps both.
      The joiner is never called with both sides ``None``. ``"semi"`` keeps left rows with a right row,
      ``"anti"`` left rows without; their joiner gets the left value, and by default returns it.
    * ``tables``: the names of the tables, two or more. They are joined from the left, in one step: the joiner
      gets a value of each table, and no intermediate rows are made. ``how`` is for all tables, or a list with
      an entry for each table but the first; a ``"semi"`` or ``"anti"`` table gives the joiner no value. The
      input is a tuple of tables in this order, or a dict of tables by these names.
    * ``schema``: the type of the results of a joiner of one record, a ``pyarrow.Schema`` or ``DataType``.
      Without it the result's values are opaque.

    Windowed tables join on the same key and window. A change of any table updates the joined row, and only
    rows that existed get a tombstone. The timestamp of a result is the largest among the rows that it joins
    and the rows that changed.

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

    Three tables:

    >>> three = TableTableJoin(
    ...     {"count": "stock.value", "price": "price.value", "shelf": "place.value"},
    ...     tables=["stock", "price", "place"],
    ...     how=["inner", "left"],
    ... )
    """

    def __init__(
        self,
        joiner: Joiner | None = None,
        *,
        how: How | Sequence[How] = "inner",
        tables: Sequence[str] = SIDES,
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        self._names = columns("tables", tables)
        if isinstance(tables, str) or len(set(self._names)) < max(2, len(self._names)):
            raise ValueError(f"tables={tables!r}: give the names of two tables or more, each another one")
        hows = [how] * (len(self._names) - 1) if isinstance(how, str) else how
        if not isinstance(hows, Sequence) or len(hows) != len(self._names) - 1:
            raise ValueError(f"how={how!r}: give one for all tables, or a list of {len(self._names) - 1}, for each but the first")
        self._hows: list[How] = [choice("how", each, How) for each in hows]
        self._joined = values_joined(self._hows, self._names)
        joiner_in_columns(joiner, schema=schema, names=self._joined)
        self._joiner = joiner
        self._schema = schema

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The joined table."""
        incoming = tables_by_name(_NAME, pvalue, self._names)
        tables = {name: prepared(table, name, needs="turns") for name, table in incoming.items()}
        types = {name: table_type(table) for name, table in tables.items()}
        values = [types[name].value_column for name in self._joined]
        join = joiner_in_columns(self._joiner, self.handling.functions, self._schema, types=values, names=self._joined)
        first, *others = types.values()
        key = first.key
        for other in others:
            _require_equal_texts(first, other)
            key = common_key_type(_NAME, TableType(key), other)
            common_windowing(_NAME, first, other)
        joined = key_joined_table(
            _NAME,
            tables,
            columns_read(self._joiner, self._joined, self._names),
            join=join,
            hows=self._hows,
            handling=self.handling,
        )
        order, compared = common_order(_NAME, *types.values()), ComparedTable(first.compared.key)
        return as_table(joined, TableType(key, join.type, order, first.windowed, compared=compared), WHOLE)


def _require_equal_texts(one: TableType, other: TableType) -> None:
    """Raise ``ValueError`` for keys that their database has equal where their texts differ."""
    try:
        forms = [form for each in comparisons(one.compared.key, other.compared.key) for form in (each.left, each.right)]
    except ValueError as error:
        raise ValueError(f"{_NAME}: {error}") from None
    if any(forms):
        words = " and ".join(column.words for key in (one.compared.key, other.compared.key) for column in key if column)
        raise ValueError(
            f"{_NAME}: {words}, of which equal values may have unlike texts: join them by ForeignKeyJoin, with the key of the left "
            "table as its foreign_key"
        )
