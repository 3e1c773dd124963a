"""ForeignKeyJoin: a table with the table that a field of its rows refers to (KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import apache_beam as beam
from apache_beam.coders import Coder, NullableCoder
from apache_beam.pvalue import PCollection

from beam_joins.change import Change, Dropped
from beam_joins.foreign_key import How, Reference, Response, ResponseJoiner, Subscription, SubscriptionStore, send, value_hash
from beam_joins.lookup_join import LookupHow
from beam_joins.record import Record
from coders.combined_key import CombinedKeyCoder, split
from coders.key import encode_key, value_coder
from coders.messages import read_response, read_subscription, write_response, write_subscription
from transforms.fields import of_row
from transforms.options import choice, function
from transforms.outputs import Outputs, WithOutputs
from transforms.reference_join import References, reference_join
from transforms.replay import DROPPED, MAIN, Operator, Outlet, Replay, Route, Rows, at, partition_count
from transforms.table_rows import table_rows
from transforms.table_type import as_table, common_order, not_a_change, table_key_coder, table_type, two_tables

LEFT, SUBSCRIPTIONS, RIGHT, RESPONSES = "left", "subscriptions", "right", "responses"


class ForeignKeyJoin(WithOutputs):
    """Each row of the left table with the row of the right table that it refers to.

    ``(PCollection[Change[K, V]], PCollection[Change[FK, W]]) -> PCollection[Change[K, R]]``, keyed by the left key. A change of the left row
    joins it anew; a change of a right row joins anew every left row that refers to it.

    * ``foreign_key(key, value)`` gives the right key that a left row refers to, or ``None``; or name the field of the left value.
    * ``foreign_keys``, instead of ``foreign_key``, gives a list of right keys: one left row refers to several right rows.
    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right row, ``joiner(left value, None)``; ``"right"`` keeps right rows that no
      left row refers to, ``joiner(None, right value)``; ``"outer"`` keeps both.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`transforms.replay`.

    With ``foreign_keys``, ``how="right"`` or ``how="outer"`` a left key does not name one row of the result: it is keyed by
    ``CombinedKey(foreign key, left key)``, the foreign key ``None`` for a left row that refers to nothing, the left key ``None`` for a right
    row that nothing refers to.

    At every position the content of the result is the join of the contents of both tables. A result has the larger timestamp of both
    rows if its left row changed, and the right row's if only that did; one keyed by a combined key has the larger in any case.

    Where left rows are not kept, a left change whose foreign key is ``None`` is dropped, as ``"null_foreign_key"``: counted, and an output of
    :meth:`with_outputs`. Foreign keys are compared by their bytes: 7 is not "7".

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed or unbounded input, to tables ordered by different
    things, or to keys whose coder is not deterministic; and in the run for a foreign key that is not of the right key's type.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
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
        joiner: Callable[[Any, Any], Any],
        foreign_key: str | Callable[[Any, Any], Any] | None = None,
        foreign_keys: str | Callable[[Any, Any], Any] | None = None,
        how: LookupHow = "inner",
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if (foreign_key is None) == (foreign_keys is None):
            raise ValueError("give one of foreign_key, for one reference, and foreign_keys, for a list of them")
        self._foreign_key = None if foreign_key is None else of_row("foreign_key", foreign_key)
        self._foreign_keys = None if foreign_keys is None else of_row("foreign_keys", foreign_keys)
        self._joiner = function("joiner", joiner, "of the left and the right value")
        self._how: LookupHow = choice("how", how, LookupHow)
        self._partitions = partition_count(partitions)

    def build(self, pvalue: Any) -> Outputs:
        """The joined table and the dropped records."""
        left, right = two_tables("ForeignKeyJoin", pvalue)
        keys = (
            table_key_coder(table_type(left), "the key of ForeignKeyJoin's left table"),
            table_key_coder(table_type(right), "the key of ForeignKeyJoin's right table"),
        )
        values = value_coder(table_type(left).value), value_coder(table_type(right).value)
        if self._foreign_key is not None and self._how in get_args(How):
            how: How = "left" if self._how == "left" else "inner"
            return self._by_protocol(left, right, self._foreign_key, how, keys, values)
        return reference_join(
            "ForeignKeyJoin",
            left,
            right,
            references=self._foreign_keys or _alone(self._foreign_key),
            joiner=self._joiner,
            how=self._how,
            coder=CombinedKeyCoder(NullableCoder(keys[1]), keys[0]),
            values=values,
            partitions=self._partitions,
        )

    def _by_protocol(
        self,
        left: PCollection[Any],
        right: PCollection[Any],
        foreign_key: Callable[[Any, Any], Any],
        how: How,
        keys: tuple[Coder, Coder],
        values: tuple[Coder, Coder],
    ) -> Outputs:
        left_type = table_type(left)
        order = common_order("ForeignKeyJoin", left_type, table_type(right))
        partitions = self._partitions
        sent = left | "Send" >> Route(
            _left_rows(how, foreign_key, keys[0], values[0], keys[1]), to=(LEFT, SUBSCRIPTIONS), partitions=partitions
        )
        rights = right | "Right" >> Route(table_rows(RIGHT, keys[1], values[1], input=1), to=(RIGHT,), partitions=partitions)
        answered = (sent[SUBSCRIPTIONS], rights[RIGHT]) | "Answer" >> Replay(_Answer(), to=(RESPONSES,), partitions=partitions)
        join = _Join(how, self._joiner, keys[0], *values)
        joined = (sent[LEFT], answered[RESPONSES]) | "Join" >> Replay(join, partitions=partitions, main_type=Change)
        dropped = (sent[DROPPED], joined[DROPPED]) | "Dropped" >> beam.Flatten()
        return Outputs(as_table(joined[MAIN], left_type._replace(value=Any, order=order)), dropped)


def _alone(foreign_key: Callable[[Any, Any], Any] | None) -> References:
    assert foreign_key is not None
    return lambda key, value: (foreign_key(key, value),)


def _left_rows(how: How, foreign_key: Callable[[Any, Any], Any], keys: Coder, values: Coder, right_keys: Coder) -> Rows:
    def reference(key: Any, value: Any) -> Reference | None:
        if value is None:
            return None
        extracted = foreign_key(key, value)
        return Reference(None if extracted is None else encode_key(right_keys, extracted, "the foreign key"))

    def rows(change: Change[Any, Any], arrival: int, outlet: Outlet) -> None:
        if type(change) is not Change:
            raise not_a_change(change)
        key, old, new, timestamp, position = change
        primary_key = encode_key(keys, key, "the key")
        encoded = None if new is None else values.encode(new)
        before, after = reference(key, old), reference(key, new)
        if how == "inner" and after is not None and after.foreign_key is None:
            outlet.drop("null_foreign_key", change, timestamp)
        outlet.send(LEFT, primary_key, Record(primary_key, encoded, timestamp, position))
        new_hash = value_hash(encoded, position)
        for message in send(how, primary_key, before, after, new_hash=new_hash, timestamp=timestamp, position=position):
            if isinstance(message, Subscription):
                outlet.send(SUBSCRIPTIONS, message.foreign_key, write_subscription(message, input=0))
            else:
                outlet.send(LEFT, primary_key, write_response(message, input=1))

    return rows


class _Answer(Operator):
    """At the side of the foreign key; input 0 are subscriptions, input 1 the right rows."""

    def core(self) -> SubscriptionStore:
        return SubscriptionStore()

    def routes(self, records: Sequence[Record]) -> list[bytes]:
        return [record.key if record.input else split(record.key).foreign_key for record in records]

    def read(self, records: Sequence[Record]) -> list[Subscription | Record]:
        return [record if record.input else read_subscription(record) for record in records]

    def write(self, output: Response, outlet: Outlet) -> None:
        outlet.send(RESPONSES, output.primary_key, write_response(output, input=1))


class _Join(Operator):
    """Back at the left row; input 0 are the left rows, input 1 the responses."""

    def __init__(self, how: How, joiner: Callable[[Any, Any], Any], keys: Coder, values: Coder, right_values: Coder) -> None:
        self._how: How = how
        self._joiner = joiner
        self._keys = keys
        self._values = values
        self._right_values = right_values

    def core(self) -> ResponseJoiner[Any]:
        return ResponseJoiner(self._join, self._how)

    def _join(self, left: bytes, right: bytes | None) -> Any:
        return self._joiner(self._values.decode(left), None if right is None else self._right_values.decode(right))

    def read(self, records: Sequence[Record]) -> list[Record | Response]:
        return [read_response(record) if record.input else record for record in records]

    def write(self, output: Change[bytes, Any] | Dropped, outlet: Outlet) -> Any:
        if isinstance(output, Dropped):
            return outlet.drop(*output)
        key, old, new, timestamp, position = output
        return at(Change(self._keys.decode(key), old, new, timestamp, position), timestamp)
