"""ForeignKeyJoin: joins two tables by a foreign key (KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins.functions.fields import of_row
from beam_joins.functions.joiner import Joiner, columns_read, joiner_in_columns, values_joined
from beam_joins.functions.marked_functions import vectorized
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.overlap_events import Shape
from beam_joins.options.join_types import How
from beam_joins.transforms.engine.broadcast import broadcast_join, is_small, waits_for
from beam_joins.transforms.engine.construction.input_checks import common_key_type, common_order, require_bounded, two_tables
from beam_joins.transforms.engine.construction.option_checks import choice, flag
from beam_joins.transforms.engine.construction.output_types import TwoTables
from beam_joins.transforms.engine.construction.table_type import CHECKED, WHOLE, TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.joins import (
    by_reference,
    combined_type,
    compared_keys,
    in_one_text,
    in_sides,
    joined_table,
    options_compared,
    referring_rows,
)
from beam_joins.transforms.engine.stages.foreign_keys import keys_like, listed_references, one_reference
from beam_joins.transforms.engine.stages.replay_options import has_one_turn
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.transform_outputs import MakesTable


class ForeignKeyJoin(MakesTable[TwoTables]):
    """Joins each row of the left table with the row of the right table that its foreign key refers to:
    ``(left: Table[K, V], right: Table[FK, W]) -> Table[K, R]``.

    The result is keyed by the left key. A change of a left row updates its result; a change of a right row
    updates the results of all left rows that refer to it.

    * ``joiner``: the columns of the result, ``{"amount": "left.amount", "name": "right.name"}``, also Arrow
      expressions, and ``{"customer": "right"}`` for the whole right value, null where there is none; or a function of
      the left and the right value that returns the result's value, ``None`` for no row. The function may be
      :class:`~beam_joins.vectorized`, or ``with_key(fn)`` with ``fn(key, left value, right value)``.
    * ``foreign_key``: the field of the left value with the key of the right row, or several fields for a
      compound key: ``["shop", "customer"]`` is the tuple of both, and null where one of them is null. Or a
      function of the left key and value, ``None`` for no right row; or a :class:`~beam_joins.vectorized`
      function of the values.
    * ``foreign_keys``: in place of ``foreign_key``, a field with a list of right keys, or a function that
      returns one: a left row refers to several right rows.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right row, ``joiner(left value, None)``;
      ``"right"`` keeps right rows without a left row, ``joiner(None, right value)``; ``"outer"`` keeps both.
      ``"semi"`` keeps left rows with a right row, ``"anti"`` left rows without; their joiner gets the left
      value, and by default returns it.
    * ``schema``: the type of the results of a joiner of one record, a ``pyarrow.Schema`` or ``DataType``.
      Without it the result's values are opaque.
    * ``broadcast``: ``True`` copies the right table to every worker, which must have memory for it, and
      shuffles neither table for the join; the result is the same. It needs ``foreign_key`` and a left, inner,
      semi or anti join. By default a right table is broadcast if its reader reports at most
      ``--beam_joins_broadcast_bytes`` (32 MiB); ``False``: never. That default does not apply with
      ``--beam_joins_state``, nor to a right table that is derived from the left table's source.

    With ``foreign_keys``, ``how="right"`` or ``how="outer"`` a left key does not identify one row of the
    result. The result is then keyed by ``CombinedKey(foreign key, left key)``; the foreign key is ``None``
    for a left row without one, the left key ``None`` for a right row without a left row.

    At every position the content of the result is the join of the contents of both tables. The timestamp of a
    result is the larger of both rows' if its left row changed, and the right row's if only the right row
    changed; with a combined key it is always the larger.

    Where left rows are not kept, a left change whose foreign key is ``None`` is dropped as
    ``"null_foreign_key"``: counted, and an output of :meth:`with_outputs`. Keys that are equal in Python are
    equal here: 7 and 7.0, a list and a tuple. If all foreign keys are of another kind than the right keys,
    such as text and numbers, ``ValueError`` names both kinds.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to one table
    ordered by time and one by a sequence, to keys whose coder is not deterministic, and for columns that a
    table does not have; and for foreign keys that no right key can equal: when applied if both are typed
    columns, else in the run.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     orders = pipeline | "orders" >> beam.Create([Change(1, None, {"by": "ann", "amount": 5}, timestamp=0, position=1)])
    ...     customers = pipeline | "customers" >> beam.Create([Change("ann", None, "Ann Lee", timestamp=0, position=2)])
    ...     enriched = (orders, customers) | ForeignKeyJoin(lambda order, name: f"{order['amount']} by {name}", foreign_key="by")
    ...     _ = enriched | beam.FlatMap(lambda batch: batch) | beam.Map(print)
    Change(key=1, old=None, new='5 by Ann Lee', timestamp=0, position=2)
    """

    def __init__(
        self,
        joiner: Joiner | None = None,
        *,
        foreign_key: str | Sequence[str] | Callable[..., Any] | None = None,
        foreign_keys: str | Callable[[Any, Any], Any] | None = None,
        how: How = "inner",
        schema: Schema | None = None,
        broadcast: bool | None = None,
    ) -> None:
        super().__init__()
        if (foreign_key is None) == (foreign_keys is None):
            raise ValueError("give one of foreign_key, for one reference, and foreign_keys, for a list of them")
        self._how: How = choice("how", how, How)
        if isinstance(foreign_keys, vectorized):
            raise ValueError(
                "foreign_keys is vectorized: give a function of key and value that gives a list of keys, or the name "
                "of a field that has one;"
                " foreign_key, for one reference, may be vectorized"
            )
        if foreign_keys is not None and how in ("semi", "anti"):
            raise ValueError(f"how={how!r} asks for the one row that a left row refers to: give foreign_key instead of foreign_keys")
        if broadcast is not None:
            flag("broadcast", broadcast)
        if broadcast and (foreign_keys is not None or how in ("right", "outer")):
            raise ValueError(
                "broadcast=True joins left rows where they are, with foreign_key= and how='inner', 'left', 'semi' or "
                "'anti': leave it out here"
            )
        self._broadcast = broadcast
        self._called = (
            of_row("foreign_key", foreign_key) if foreign_key is not None else of_row("foreign_keys", foreign_keys or "", one=True)
        )
        joiner_in_columns(joiner, schema=schema, names=values_joined([self._how]))
        self._foreign_key, self._foreign_keys = foreign_key, foreign_keys
        self._joiner = joiner
        self._schema = schema

    def options_of_state(self, inputs: Sequence[PCollection[Any]]) -> dict[str, Any]:
        """The options, and the forms in which keys are compared."""
        return super().options_of_state(inputs) | options_compared(self._foreign_key, inputs)

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined table and the dropped records."""
        left, right = two_tables("ForeignKeyJoin", pvalue)
        if self._broadcast:
            remedy = "leave broadcast= out, so that both tables are shuffled"
            require_bounded("ForeignKeyJoin(broadcast=True)", remedy, left, right)
        by_pair = self._foreign_keys is not None or self._how in ("right", "outer")
        broadcast = not by_pair and has_one_turn(left) and has_one_turn(right)
        broadcast = broadcast and (is_small(right) if self._broadcast is None else self._broadcast)
        broadcast = broadcast and not waits_for(right, left)
        compared = compared_keys("ForeignKeyJoin", self._foreign_key, table_type(left), table_type(right))
        broadcast = broadcast and not any(each.right for each in compared)
        sides = in_sides(prepared(left, needs="whole" if broadcast else "checked"), right)
        functions, types = self.handling.functions, sides.types
        is_final = physical_of(sides.left).is_in("final")
        order = common_order("ForeignKeyJoin", *types)
        join = joiner_in_columns(self._joiner, functions, self._schema, types=sides.value_types, names=values_joined([self._how]))
        keys = keys_like(types[1], "the foreign key")
        if self._foreign_keys is not None:
            references = listed_references(self._foreign_keys, self._called, functions, types[0], keys)
        else:
            references = one_reference("foreign_key", self._foreign_key, self._called, functions, types[0], keys)
        sides, references = in_one_text(sides, references, compared)
        types = sides.types
        common_key_type("ForeignKeyJoin", TableType(references.type), types[1], "foreign keys")
        if by_pair:
            shape = Shape(self._how, "both", "combined_key")
            result = TableType(combined_type(references, types), join.type, order)
        else:
            shape = Shape(self._how, "foreign_key", "left_key", together=broadcast)
            joined_columns = types[0].compared.joined_with(types[1].compared, self._joiner)
            result = TableType(types[0].key, join.type, order, types[0].windowed, compared=joined_columns)
        columns = columns_read(self._joiner, values_joined([self._how]))
        rows = referring_rows(references, shape, types[0], columns[0])
        arguments: dict[str, Any] = {
            "join": join,
            "shape": shape,
            "handling": self.handling,
            "keys": ("foreign keys", "right table's keys"),
            "dropping": self.dropping,
        }
        if broadcast:
            joined, lefts = broadcast_join("ForeignKeyJoin", sides, rows, columns[1], **arguments)
        else:
            joined, lefts = joined_table(
                "ForeignKeyJoin",
                sides,
                by_reference(rows),
                (columns[0], columns[1]),
                looks_up=references.type,
                rejoin=is_final,  # rows that have one change never move
                **arguments,
            )
        return as_table(joined, result, WHOLE if by_pair or broadcast or is_final else CHECKED), self.all_dropped(lefts)
