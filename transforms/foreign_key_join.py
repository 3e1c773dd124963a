"""ForeignKeyJoin: a table with the table that a field of its rows refers to (KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.change import Change, Dropped
from beam_joins.foreign_key import How, Reference, Response, ResponseJoiner, Subscription, SubscriptionStore, send, value_hash
from beam_joins.record import Record
from coders.combined_key import split
from coders.key import encode_key, key_coder, value_coder
from coders.messages import read_response, read_subscription, write_response, write_subscription
from transforms.fields import field
from transforms.outputs import Outputs, TableTransform
from transforms.replay import DROPPED, MAIN, Operator, Outlet, Replay, Route, Rows, at, partition_count
from transforms.table_rows import table_rows
from transforms.table_type import TableType, as_table, common_order, table_type, two_tables

LEFT, SUBSCRIPTIONS, RIGHT, RESPONSES = "left", "subscriptions", "right", "responses"


class ForeignKeyJoin(TableTransform):
    """Each row of the left table with the row of the right table that it refers to.

    ``(PCollection[Change[K, V]], PCollection[Change[FK, W]]) -> PCollection[Change[K, R]]``, keyed by the left key. A change of the left row
    joins it anew; a change of a right row joins anew every left row that refers to it.

    * ``foreign_key(key, value)`` gives the right key that a left row refers to, or ``None``; or name the field of the left value.
    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``how``: ``"inner"``, or ``"left"`` to keep left rows without a right row: ``joiner(left value, None)``.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`transforms.replay`.

    At every position the content of the result is the join of the contents of both tables. A result has the larger timestamp of both
    rows if its left row changed, and the right row's if only that did.

    In an inner join a left change whose foreign key is ``None`` is dropped, as ``"null_foreign_key"``: counted, and an output of
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
        foreign_key: str | Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any], Any],
        how: How = "inner",
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if how not in get_args(How):
            raise ValueError(f"how={how!r}: choose one of {', '.join(map(repr, get_args(How)))}")
        if not callable(joiner):
            raise ValueError(f"joiner={joiner!r}: give a function of the left and the right value")
        if not callable(foreign_key) and not (isinstance(foreign_key, str) and foreign_key):
            raise ValueError(
                f"foreign_key={foreign_key!r}: give a function of key and value, or the name of a field of the left value"
            )
        self._foreign_key = foreign_key
        self._joiner = joiner
        self._how: How = how
        self._partitions = partition_count(partitions)

    def build(self, pvalue: tuple[PCollection[Any], PCollection[Any]]) -> Outputs:
        """The joined table and the dropped records."""
        left, right = two_tables("ForeignKeyJoin", pvalue)
        left_type, right_type = table_type(left), table_type(right)
        order = common_order("ForeignKeyJoin", left_type, right_type)
        left_keys = key_coder(left_type.key, "the key of ForeignKeyJoin's left table")
        right_keys = key_coder(right_type.key, "the key of ForeignKeyJoin's right table")
        left_values, right_values = value_coder(left_type.value), value_coder(right_type.value)

        sent = left | "Send" >> Route(
            _left_rows(self._how, self._foreign_key, left_keys, left_values, right_keys),
            to=(LEFT, SUBSCRIPTIONS),
            partitions=self._partitions,
        )
        rights = right | "Right" >> Route(
            table_rows(RIGHT, right_keys, right_values, input=1), to=(RIGHT,), partitions=self._partitions
        )
        answered = (sent[SUBSCRIPTIONS], rights[RIGHT]) | "Answer" >> Replay(_Answer(), to=(RESPONSES,), partitions=self._partitions)
        joined = (sent[LEFT], answered[RESPONSES]) | "Join" >> Replay(
            _Join(self._how, self._joiner, left_keys, left_values, right_values), partitions=self._partitions, main_type=Change
        )
        dropped = (sent[DROPPED], joined[DROPPED]) | "Dropped" >> beam.Flatten()
        return Outputs(as_table(joined[MAIN], TableType(left_type.key, Any, order)), dropped)


def _left_rows(how: How, foreign_key: str | Callable[[Any, Any], Any], keys: Coder, values: Coder, right_keys: Coder) -> Rows:
    name = foreign_key if isinstance(foreign_key, str) else ""

    def reference(key: Any, value: Any) -> Reference | None:
        if value is None:
            return None
        extracted = field(value, name) if name else foreign_key(key, value)  # type: ignore[operator]
        return Reference(None if extracted is None else encode_key(right_keys, extracted, "the foreign key"))

    def rows(change: Change[Any, Any], arrival: int, outlet: Outlet) -> None:
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
