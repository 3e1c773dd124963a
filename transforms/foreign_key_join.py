"""ForeignKeyJoin: a table with the table that a field of its rows refers to (KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins.fields import of_row
from beam_joins.functions import vectorized
from beam_joins.joiner import Joiner, columns_read, joiner_in_columns, values_joined
from beam_joins.matching import How, Shape
from beam_joins.transforms.engine.broadcast import broadcast_join, is_small
from beam_joins.transforms.engine.checked_table import checked_table, whole_table
from beam_joins.transforms.engine.joins import by_reference, combined_type, in_sides, joined_table, referring_rows
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import WithOutputs
from beam_joins.transforms.engine.referring import keys_like, listed_references, one_reference
from beam_joins.transforms.engine.replay_options import has_one_turn
from beam_joins.transforms.engine.table_type import TableType, as_table, common_key_type, common_order, table_type, two_tables
from beam_joins.transforms.engine.unbounded import require_bounded
from beam_joins.typed_rows import Schema


class ForeignKeyJoin(WithOutputs):
    """Each row of the left table with the row of the right table that it refers to: ``(left: Table[K, V], right: Table[FK, W]) -> Table[K, R]``.

    The result is keyed by the left key. A change of a left row updates its result; a change of a right row updates the results of all left rows that
    refer to it.

    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row. It may be
      :class:`~beam_joins.vectorized`; columns by name, as in ``{"amount": "left.amount", "name": "right.name"}``, or Arrow expressions; or
      ``with_key(fn)`` with ``fn(key, left value, right value)``.
    * ``foreign_key(key, value)`` gives the right key that a left row refers to, or ``None``; or name the field of the left value, or several
      fields for a compound key: ``["shop", "customer"]`` is the tuple of both, and refers to nothing where one of them is null. Or
      :class:`~beam_joins.vectorized`, of the values.
    * ``foreign_keys``, instead of ``foreign_key``, gives a list of right keys: one left row refers to several right rows.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right row, ``joiner(left value, None)``; ``"right"`` keeps right rows that no
      left row refers to, ``joiner(None, right value)``; ``"outer"`` keeps both. ``"semi"``: left rows that refer to a right row; ``"anti"``: left rows
      that do not. There the joiner is one of the left value, and may be left out: the left value itself.
    * ``schema``, a ``pyarrow.Schema`` or ``DataType``: what a joiner of one record gives. Without it the result's values are opaque.
    * ``broadcast=True`` copies the right table to every worker, which must have memory for it, and shuffles neither table for the join; the result is
      the same. With ``foreign_key`` and left, inner, semi and anti joins. By default that is done where the right table's reader says that it
      is at most ``--beam_joins_broadcast_bytes`` large, 32 MiB if not given otherwise; ``False``: never. A run that goes on, with ``--beam_joins_state``, never does.

    With ``foreign_keys``, ``how="right"`` or ``how="outer"`` a left key does not identify one row of the result: it is keyed by
    ``CombinedKey(foreign key, left key)``, the foreign key ``None`` for a left row that refers to nothing, the left key ``None`` for a right
    row that nothing refers to.

    At every position the content of the result is the join of the contents of both tables. A result has the larger timestamp of both
    rows if its left row changed, and the right row's if only that did; one keyed by a combined key has the larger in any case.

    Where left rows are not kept, a left change whose foreign key is ``None`` is dropped, as ``"null_foreign_key"``: counted, and an output of
    :meth:`with_outputs`. Keys that are equal in Python are equal here: 7 and 7.0, a list and a tuple. Where no right key
    is of the kind of any foreign key, as with text and numbers, ``ValueError`` names both.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to one table ordered by time and one by a
    sequence, to keys whose coder is not deterministic, and for columns that a table does not have; and for foreign keys that no right key can equal:
    when applied if both are typed columns, else in the run.

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
                "foreign_keys is vectorized: give a function of key and value that gives a list of keys, or the name of a field that has one;"
                " foreign_key, for one reference, may be vectorized"
            )
        if foreign_keys is not None and how in ("semi", "anti"):
            raise ValueError(f"how={how!r} asks for the one row that a left row refers to: give foreign_key instead of foreign_keys")
        if broadcast and (foreign_keys is not None or how in ("right", "outer")):
            raise ValueError(
                "broadcast=True joins left rows where they are, with foreign_key= and how='inner', 'left', 'semi' or 'anti': leave it out here"
            )
        self._broadcast = broadcast
        self._called = (
            of_row("foreign_key", foreign_key) if foreign_key is not None else of_row("foreign_keys", foreign_keys or "", one=True)
        )
        joiner_in_columns(joiner, schema=schema, of=values_joined(self._how))
        self._foreign_key, self._foreign_keys = foreign_key, foreign_keys
        self._joiner = joiner
        self._schema = schema

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined table and the dropped records."""
        left, right = two_tables("ForeignKeyJoin", pvalue)
        if self._broadcast:
            remedy = "leave broadcast= out, so that both tables are shuffled"
            require_bounded("ForeignKeyJoin(broadcast=True)", remedy, left, right)
        by_pair = self._foreign_keys is not None or self._how in ("right", "outer")
        broadcast = not by_pair and has_one_turn(left) and has_one_turn(right)
        broadcast = broadcast and (is_small(right, table_type(right)) if self._broadcast is None else self._broadcast)
        sides = in_sides(whole_table(left) if broadcast else checked_table(left), right)
        functions, known = self.handling.functions, sides.known
        order = common_order("ForeignKeyJoin", *known)
        join = joiner_in_columns(self._joiner, functions, self._schema, types=sides.value_types, of=values_joined(self._how))
        keys = keys_like(known[1], "the foreign key")
        if self._foreign_keys is not None:
            references = listed_references(self._foreign_keys, self._called, functions, known[0], keys)
        else:
            references = one_reference("foreign_key", self._foreign_key, self._called, functions, known[0], keys)
        common_key_type("ForeignKeyJoin", TableType(references.type), known[1], "foreign keys")
        if by_pair:
            shape = Shape(self._how, "both", "combined_key")
            result = TableType(combined_type(references, known), join.type, order, whole=True)
        else:
            shape = Shape(self._how, "foreign_key", "left_key", together=broadcast)
            result = TableType(known[0].key, join.type, order, known[0].windowed, whole=known[0].final or broadcast)
        columns = columns_read(self._joiner, values_joined(self._how))
        rows = referring_rows(references, shape, known[0], columns[0])
        given: dict[str, Any] = {
            "join": join,
            "shape": shape,
            "handling": self.handling,
            "keys": ("foreign keys", "right table's keys"),
            "dropping": self.dropping,
        }
        if broadcast:
            joined, lefts = broadcast_join("ForeignKeyJoin", sides, rows, columns[1], **given)
        else:
            joined, lefts = joined_table(
                "ForeignKeyJoin",
                sides,
                by_reference(rows),
                columns[1],
                looks_up=references.type,
                rejoin=known[0].final,  # rows that have one change never move
                **given,
            )
        return as_table(joined, result), self.all_dropped(lefts)
