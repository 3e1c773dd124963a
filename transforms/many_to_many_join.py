"""ManyToManyJoin: joins two tables by any equality of their columns."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.functions.condition import condition_in_columns
from beam_joins.functions.fields import Fields, of_row
from beam_joins.functions.joiner import Joiner, columns_read, joiner_in_columns, values_joined
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.overlap_events import Shape
from beam_joins.keys.nested import CombinedKeyType
from beam_joins.options.join_types import How
from beam_joins.transforms.engine.construction.input_checks import common_key_type, common_order, two_tables
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.output_types import TwoTables
from beam_joins.transforms.engine.construction.table_type import CHECKED, TableType, as_table, table_type
from beam_joins.transforms.engine.joins import (
    Sides,
    compared_keys,
    options_compared,
    pairs_table,
    references_in_forms,
    referring_rows,
)
from beam_joins.transforms.engine.stages.foreign_keys import keys_like, one_reference
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.transform_outputs import MakesTable

_KEPT_RIGHTS: Final[dict[How, How]] = {"right": "left", "outer": "left"}
"""The joins that keep right rows without a match, from the side of these."""


class ManyToManyJoin(MakesTable[TwoTables]):
    """Joins the rows of two tables whose join keys are equal, by any columns:
    ``(left: Table[K, V], right: Table[L, W]) -> Table[CombinedKey[K, L], R]``.

    A row may match any number of rows of the other table. Each pair is a row of the result, keyed by the left and the
    right key. A change of a row updates all of its pairs; a row whose join key changes deletes its pairs and inserts others.
    Where the key of one of the tables is the join key, :class:`~beam_joins.ForeignKeyJoin` and
    :class:`~beam_joins.OneToManyJoin` give the same rows for less.

    * ``joiner``: the columns of the result or a function of both values, as in :class:`~beam_joins.ForeignKeyJoin`.
    * ``on``: the columns that are equal, with the same names in both tables: one, or several. A null is equal to nothing.
    * ``left_on``: in place of ``on``, the columns of the left table; or a function of key and value that returns the join key,
      ``None`` for no match; or a :class:`~beam_joins.vectorized` function of the values.
    * ``right_on``: the same of the right table.
    * ``condition``: what holds beside: a function of the left and the right value that returns a bool, a vectorized one, or an
      Arrow expression, ``pc.field("left", "from") <= pc.field("right", "at")``. A null is false. It is part of the join: in a
      left join a row all of whose pairs it excludes is unmatched.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a match, ``joiner(left value, None)`` under
      ``CombinedKey(left key, None)``; ``"right"`` right rows, ``joiner(None, right value)`` under
      ``CombinedKey(None, right key)``; ``"outer"`` both. ``"semi"`` keeps left rows with a match, ``"anti"`` left rows without,
      under the left key; their joiner gets the left value, and by default returns it.
    * ``schema``: the type of the results of a joiner of one record, a ``pyarrow.Schema`` or ``DataType``. Without it
      the result's values are opaque.

    At every position the content of the result is the join of the contents of both tables, with one change of a pair at
    most. A pair has the larger timestamp of its rows; a row without a match its own, or that of changes of the other
    table with its join key at the position, if that is larger.

    The cost is that of the matching pairs: two tables with n and m rows of one join key have n times m. All rows with
    one join key are in one partition.

    Rows whose join key is null, where they are not kept, are dropped as ``"null_join_key"``: counted, and an output of
    :meth:`with_outputs`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used; a pair for which ``condition`` raises does not match.

    Raises ``ValueError`` at construction for a wrong option; when applied to anything but two tables, to one table ordered
    by time and one by a sequence, and for columns that a table does not have; and for join keys that are never equal: when
    applied if both are typed columns, else in the run.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     shops = pipeline | "shops" >> beam.Create([Change(1, None, {"city": "Rom", "name": "Tea"}, timestamp=0, position=1)])
    ...     people = pipeline | "people" >> beam.Create([Change("ann", None, {"city": "Rom"}, timestamp=0, position=2)])
    ...     near = (shops, people) | ManyToManyJoin(lambda shop, person: shop["name"], on="city")
    ...     _ = near | beam.FlatMap(lambda batch: batch) | beam.Map(lambda change: print(change.key, change.new))
    CombinedKey(foreign_key=1, primary_key='ann') Tea
    """

    def __init__(
        self,
        joiner: Joiner | None = None,
        *,
        on: str | Sequence[str] | None = None,
        left_on: Fields | Callable[..., Any] | None = None,
        right_on: Fields | Callable[..., Any] | None = None,
        condition: Callable[..., Any] | pc.Expression | None = None,
        how: How = "inner",
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        if (on is None) == (left_on is None and right_on is None) or (left_on is None) != (right_on is None):
            raise ValueError("give the columns that are equal: on, with the same names in both tables, or left_on and right_on")
        if callable(on):
            raise ValueError(
                f"on={on!r}: give the names of columns of both tables; functions of one table each are left_on and right_on"
            )
        self._how: How = choice("how", how, How)
        self._options_on = ("on", "on") if on is not None else ("left_on", "right_on")
        self._on = tuple(map(_without_list, (on, on) if on is not None else (left_on, right_on)))
        self._called = [of_row(option, of_side) for option, of_side in zip(self._options_on, self._on, strict=True)]
        counts = {1 if isinstance(of_side, str) else len(of_side) for of_side in self._on if not callable(of_side)}
        if len(counts) > 1:
            raise ValueError(f"left_on={left_on!r} and right_on={right_on!r}: give as many columns of each table")
        joiner_in_columns(joiner, schema=schema, names=values_joined([self._how]))
        condition_in_columns(condition)
        self._joiner, self._condition, self._schema = joiner, condition, schema

    def options_of_state(self, inputs: Sequence[PCollection[Any]]) -> dict[str, Any]:
        """The options, and the forms in which join keys are compared."""
        return super().options_of_state(inputs) | options_compared(self._on[0], inputs, refers_to=self._on[1])

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined table and the dropped records."""
        left, right = two_tables("ManyToManyJoin", pvalue)
        left, right = prepared(left, "Left", needs="checked"), prepared(right, "Right", needs="checked")
        sides = Sides(left, right, (table_type(left), table_type(right)))
        functions, types, joined_values = self.handling.functions, sides.types, values_joined([self._how])
        order = common_order("ManyToManyJoin", *types)
        join = joiner_in_columns(self._joiner, functions, self._schema, types=sides.value_types, names=joined_values)
        condition = condition_in_columns(self._condition, functions, types=sides.value_types)
        compared = compared_keys("ManyToManyJoin", self._on[0], *types, refers_to=self._on[1])
        forms = [each.left for each in compared], [each.right for each in compared]
        references = [
            references_in_forms(
                one_reference(option, on, called, functions, of_table, keys_like(TableType(), "the join key")), of_side
            )
            for option, on, called, of_table, of_side in zip(self._options_on, self._on, self._called, types, forms, strict=True)
        ]
        left_keys, right_keys = (TableType(each.type) for each in references)
        common_key_type("ManyToManyJoin", left_keys, right_keys, "join keys")
        keeps_left_key = self._how in ("semi", "anti")
        shape = Shape(self._how, result="left_key" if keeps_left_key else "both_keys", many=True)
        shapes = shape, Shape(_KEPT_RIGHTS.get(self._how, "inner"), result="both_keys", many=True)
        columns = columns_read(self._joiner, joined_values) if self._condition is None else [None, None]
        rows = [referring_rows(*of_side, reason="null_join_key") for of_side in zip(references, shapes, types, columns, strict=True)]
        joined, routed = pairs_table(
            "ManyToManyJoin",
            sides,
            rows,
            columns,
            references,
            join=join,
            shape=shape,
            condition=condition,
            handling=self.handling,
            dropping=self.dropping,
        )
        if keeps_left_key:
            of_columns = types[0].compared.joined_with(types[1].compared, self._joiner)
            result = TableType(types[0].key, join.type, order, types[0].windowed, compared=of_columns)
        else:
            result = TableType(CombinedKeyType(*(of_table.key_column for of_table in types)), join.type, order)
        return as_table(joined, result, CHECKED), self.all_dropped(*routed)


def _without_list(columns: Any) -> Any:
    """The name of a column that is listed alone."""
    return columns[0] if isinstance(columns, list | tuple) and len(columns) == 1 else columns
