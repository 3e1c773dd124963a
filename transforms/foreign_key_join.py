"""ForeignKeyJoin: a table with the table that a field of its rows refers to (KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from apache_beam.coders import Coder, NullableCoder
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.coders.combined_key import CombinedKeyCoder
from beam_joins.coders.key import value_coder
from beam_joins.fields import of_row, place_of_row
from beam_joins.joiner import Join, Joiner, Schema, columns_read, joiner_in_columns, of_records
from beam_joins.transforms.engine.checked_table import checked_table
from beam_joins.transforms.engine.foreign_key_protocol import (
    LEFT,
    RIGHT,
    SUBSCRIPTIONS,
    Subscribe,
    by_protocol,
    references_in_columns,
    references_in_records,
)
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import Outputs, WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.reference_join import reference_join
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_form import InColumns, InRecords, TableForm, encoded_joiner
from beam_joins.transforms.engine.table_rows import batch_rows, table_rows
from beam_joins.transforms.engine.table_type import as_table, common_order, table_key_coder, table_type, two_tables
from beam_joins.transforms.table_to_records import in_records
from tests.reference.foreign_key import How
from tests.reference.lookup_join import LookupHow


class ForeignKeyJoin(WithOutputs):
    """Each row of the left table with the row of the right table that it refers to.

    ``(PCollection[Change[K, V]], PCollection[Change[FK, W]]) -> PCollection[Change[K, R]]``, keyed by the left key. A change of a left row
    updates its result; a change of a right row updates the results of all left rows that refer to it.

    * ``foreign_key(key, value)`` gives the right key that a left row refers to, or ``None``; or name the field of the left value, or several
      fields for a compound key: ``["shop", "customer"]`` is the tuple of both, and refers to nothing where one of them is null.
    * ``foreign_keys``, instead of ``foreign_key``, gives a list of right keys: one left row refers to several right rows.
    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right row, ``joiner(left value, None)``; ``"right"`` keeps right rows that no
      left row refers to, ``joiner(None, right value)``; ``"outer"`` keeps both.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    With ``foreign_keys``, ``how="right"`` or ``how="outer"`` a left key does not name one row of the result: it is keyed by
    ``CombinedKey(foreign key, left key)``, the foreign key ``None`` for a left row that refers to nothing, the left key ``None`` for a right
    row that nothing refers to.

    Two tables in columns are joined in columns, ``PCollection[ChangeBatch]``, if ``foreign_key`` is given and ``how`` is ``"inner"`` or
    ``"left"``. There ``foreign_key`` may be :class:`~beam_joins.vectorized`, and so may ``joiner``, or columns by name, as in
    ``{"amount": "left.amount", "name": "right.name"}``, or Arrow expressions. What a joiner of one record gives stays a Python object
    there, unless ``schema``, a ``pyarrow.Schema``, says what columns it has: no type is inferred from the rows of one partition.

    At every position the content of the result is the join of the contents of both tables. A result has the larger timestamp of both
    rows if its left row changed, and the right row's if only that did; one keyed by a combined key has the larger in any case.

    Where left rows are not kept, a left change whose foreign key is ``None`` is dropped, as ``"null_foreign_key"``: counted, and an output of
    :meth:`with_outputs`. Keys that are equal in Python are equal here: 7 and 7.0, a list and a tuple. Where the foreign
    keys are of kinds that no right key is of, as text and numbers are, the run raises ``ValueError`` that names both.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed or unbounded input, to tables ordered by different
    things, or to keys whose coder is not deterministic; and in the run for foreign keys that no right key can equal.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     orders = pipeline | "orders" >> beam.Create([Change(1, None, {"by": "ann", "amount": 5}, timestamp=0, position=1)])
    ...     customers = pipeline | "customers" >> beam.Create([Change("ann", None, "Ann Lee", timestamp=0, position=2)])
    ...     enriched = (orders, customers) | ForeignKeyJoin(foreign_key="by", joiner=lambda order, name: f"{order['amount']} by {name}")
    ...     _ = enriched | beam.Map(print)
    Change(key=1, old=None, new='5 by Ann Lee', timestamp=0, position=2)
    """

    def __init__(
        self,
        *,
        joiner: Joiner,
        foreign_key: str | Sequence[str] | Callable[[Any, Any], Any] | None = None,
        foreign_keys: str | Callable[[Any, Any], Any] | None = None,
        how: LookupHow = "inner",
        schema: Schema | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if (foreign_key is None) == (foreign_keys is None):
            raise ValueError("give one of foreign_key, for one reference, and foreign_keys, for a list of them")
        if foreign_key is not None:
            self._references = place_of_row("foreign_key", foreign_key)
        elif foreign_keys is not None:
            self._references = of_row("foreign_keys", foreign_keys)
        joiner_in_columns(joiner, schema=schema)
        self._foreign_key, self._foreign_keys = foreign_key, foreign_keys
        self._joiner = joiner
        self._schema = schema
        self._how: LookupHow = choice("how", how, LookupHow)
        self._partitions = partition_count(partitions)

    def build(self, pvalue: Any) -> Outputs:
        """The joined table and the dropped records."""
        left, right = two_tables("ForeignKeyJoin", pvalue)
        protocol = self._foreign_key is not None and self._how in get_args(How)
        if protocol and left.element_type is ChangeBatch and right.element_type is ChangeBatch:
            return self._in_columns(left, right)
        left, right = in_records(left, "Left in records"), in_records(right, "Right in records")
        joiner = of_records("ForeignKeyJoin", self._joiner, self._schema)
        if protocol:
            return self._in_records(left, right, joiner)
        keys, one = (_key_coder("left", left), _key_coder("right", right)), self._called_references
        return reference_join(
            "ForeignKeyJoin",
            left,
            right,
            handling=self.handling,
            references=one if self._foreign_key is None else lambda key, value: (one(key, value),),
            joiner=joiner,
            how=self._how,
            coder=CombinedKeyCoder(NullableCoder(keys[1]), keys[0]),
            values=(value_coder(table_type(left).value), value_coder(table_type(right).value)),
            partitions=self._partitions,
            dropping=self.dropping,
        )

    def _in_columns(self, left: PCollection[Any], right: PCollection[Any]) -> Outputs:
        left = checked_table(left, "the key of ForeignKeyJoin's left table", self._partitions)
        form, needed, functions = InColumns(), columns_read(self._joiner), self.handling.functions
        foreign_key = self._references_of(fresh=True) if callable(self._foreign_key) else self._foreign_key
        references = references_in_columns(foreign_key, form, functions)
        send = functions.route(Subscribe(form, self._protocol_how, references, functions, needed[0]).send)
        asked = left | "Subscribe" >> Route(send, to=(SUBSCRIPTIONS, *self.dropping, *self.handling.tags), partitions=self._partitions)
        rights = right | "Right" >> Route(batch_rows(RIGHT, needed[1]), to=(RIGHT,), partitions=self._partitions)
        return self._outputs(left, right, asked, rights, joiner_in_columns(self._joiner, functions, self._schema), form, form)

    def _in_records(self, left: PCollection[Any], right: PCollection[Any], joiner: Callable[[Any, Any], Any]) -> Outputs:
        keys, right_keys = _key_coder("left", left), _key_coder("right", right)
        values, right_values, results = value_coder(table_type(left).value), value_coder(table_type(right).value), value_coder(Any)
        form, functions = InRecords(keys, values), self.handling.functions
        references = references_in_records(self._references_of(fresh=True), form, right_keys, functions)
        subscribe = functions.replay(Subscribe(form, self._protocol_how, references, functions, None))
        lefts = left | "Left" >> Route(table_rows(LEFT, keys, values), to=(LEFT,), partitions=self._partitions)
        asked = (lefts[LEFT],) | "Subscribe" >> Replay(
            subscribe, to=(SUBSCRIPTIONS, *self.dropping, *self.handling.tags), partitions=self._partitions
        )
        rights = right | "Right" >> Route(table_rows(RIGHT, right_keys, right_values), to=(RIGHT,), partitions=self._partitions)
        join = encoded_joiner(joiner, functions, keys, values, right_values, results)
        return self._outputs(left, right, asked, rights, join, InRecords(keys, results), InRecords(right_keys, right_values))

    def _outputs(
        self,
        left: PCollection[Any],
        right: PCollection[Any],
        asked: Any,
        rights: Any,
        join: Join,
        form: TableForm,
        right_form: TableForm,
    ) -> Outputs:
        left_type = table_type(left)
        order = common_order("ForeignKeyJoin", left_type, table_type(right))
        blocks = asked[SUBSCRIPTIONS], rights[RIGHT]
        self.handling.collect(asked)
        joined = by_protocol(
            *blocks,
            join=join,
            how=self._protocol_how,
            form=form,
            right_form=right_form,
            handling=self.handling,
            partitions=self._partitions,
        )
        return Outputs(as_table(joined, left_type._replace(value=Any, order=order)), self.all_dropped(asked))

    @property
    def _called_references(self) -> Any:
        return self._references_of(fresh=False)

    def _references_of(self, *, fresh: bool) -> Any:
        option, given = ("foreign_keys", self._foreign_keys) if self._foreign_key is None else ("foreign_key", self._foreign_key)
        return self.handling.functions.function(option, given, self._references, fresh=fresh)

    @property
    def _protocol_how(self) -> How:
        return "left" if self._how == "left" else "inner"


def _key_coder(side: str, table: PCollection[Any]) -> Coder:
    return table_key_coder(table_type(table), f"the key of ForeignKeyJoin's {side} table")
