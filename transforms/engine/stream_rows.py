"""What a stream is to a join: ``(key, value)`` pairs, each a record at its event time or at the position that ``sequence_by`` gives.

The event time of a pair is its element's timestamp, cut to the millisecond (:func:`beam_joins.transforms.engine.replay.element_time`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.copied import copied
from beam_joins.fields import place
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.element_types import pair_types
from beam_joins.transforms.engine.outputs import Handling
from beam_joins.transforms.engine.replay import RowRouter, element_time
from beam_joins.transforms.engine.table_type import TableType, require_bounded

OfRow = Callable[[Any, Any], Any]
"""A function of key and value."""


def two_inputs(transform: str, pvalue: Any, what: str) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right input; raises ``ValueError`` for anything else, and for windowed or unbounded input."""
    if not isinstance(pvalue, tuple) or len(pvalue) != 2:
        raise ValueError(f"{transform} takes {what} | {transform}(...)")
    require_bounded(transform, *pvalue)
    left, right = pvalue
    return left, right


def stream_type(transform: str, stream: PCollection[Any], sequence: OfRow | None) -> TableType:
    """What is known of a stream's keys, values and order; raises ``ValueError`` for a table."""
    if stream.element_type in (Change, ChangeBatch):
        raise ValueError(f"{transform} takes a stream of (key, value) pairs here, not a table: apply TableToStream() to the table")
    return TableType(*pair_types(stream.element_type), "time" if sequence is None else "sequence")


def require_one_order(transform: str, stream: TableType, table: TableType) -> None:
    """Raise ``ValueError`` for a stream and a table that are known to be ordered by different things."""
    if table.order not in (stream.order, "unknown"):
        by = {"time": "event time", "sequence": "a sequence"}
        remedy = (
            "give the stream sequence_by= too, from the same sequence"
            if table.order == "sequence"
            else "leave sequence_by= out, or give it to the table too"
        )
        raise ValueError(
            f"{transform} looks up a table ordered by {by[table.order]} for a stream ordered by {by[stream.order]}, and their positions"
            f" say nothing of each other: {remedy}"
        )


def stream_rows(
    to: str,
    keys: Callable[[Any, Any], tuple[bytes, bytes] | None],
    values: beam.coders.Coder,
    *,
    input: int,
    sequence: OfRow | None,
    null: str,
    noted: Callable[[bytes], bytes] | None = None,
) -> RowRouter:
    """The records of a stream as ``input`` of the replay named ``to``.

    ``keys(key, value)`` gives the routing key and the record's key, or ``None`` for a record that meets nothing: it is dropped for the
    reason ``null``, or passed over if that is empty (see :func:`alone`). ``noted`` gives the canonical bytes whose kind is noted, of a routing
    key. Dropped are also a ``"null_value"`` and a ``"null_sequence"``.
    """

    def rows(element: Any, timestamp: int, writer: BlockWriter) -> None:
        key, value = pair(element)
        if value is None:
            return writer.drop("null_value", element, timestamp)
        encoded = keys(key, value)
        if encoded is None:
            return writer.drop(null, element, timestamp) if null else None
        position = timestamp
        if sequence is not None:
            placed = place("sequence_by", sequence(key, value))
            if placed is None:
                return writer.drop("null_sequence", element, timestamp)
            position, _ = placed
        route, record_key = encoded
        if noted is not None:
            writer.note_key(to, noted(route))
        return writer.send(to, route, Record(record_key, values.encode(value), timestamp, position, input))

    return rows


def alone(
    stream: PCollection[Any],
    label: str,
    handling: Handling,
    meets_nothing: Callable[[Any, Any], bool],
    joiner: Callable[[Any, Any], Any],
    side: int = 0,
) -> PCollection[Any]:
    """The results of the records of a stream that meet nothing, at once: they are not shuffled. The stream is the join's left or right ``side``."""
    functions = handling.functions

    def results(element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        key, value = pair(element)
        if value is None or not meets_nothing(key, value):
            return
        values, time = (None, value) if side else (value, None), element_time(timestamp)
        try:
            yield timestamped((key, copied(joiner(*map(copied, values)))), time)
        except Exception as error:
            functions.failed("joiner", error, values, time, key=key)
            yield from functions.take()

    given = handling.apply(label, beam.FlatMap(results), stream)
    given.element_type = beam.typehints.KV[Any, Any]
    return given


def pair(element: Any) -> tuple[Any, Any]:
    """The key and the value of a stream's element; raises ``ValueError`` if it is not such a pair."""
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"a stream is of (key, value) pairs, but has {element!r}: make pairs of it with beam.WithKeys or beam.Map")
    return element
