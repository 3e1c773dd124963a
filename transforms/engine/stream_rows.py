"""What a stream is to a join: ``(key, value)`` pairs, each a record at its event time or at the position that ``sequence_by`` gives.

The event time of a pair is its element's timestamp, cut to the millisecond (:func:`beam_joins.transforms.engine.replay.element_time`).
"""

from collections.abc import Callable
from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins.transforms.engine.element_types import pair_types
from beam_joins.transforms.engine.table_type import TableType, is_batches, is_changes, require_bounded

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
    if is_changes(stream) or is_batches(stream):
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


def pair(element: Any) -> tuple[Any, Any]:
    """The key and the value of a stream's element; raises ``ValueError`` if it is not such a pair."""
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"a stream is of (key, value) pairs, but has {element!r}: make pairs of it with beam.WithKeys or beam.Map")
    return element
