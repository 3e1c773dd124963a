"""The metrics of the engine, in the namespace ``beam_joins``: docs/metrics.md lists these names.

Counted by blocks, batches and turns, never row by row.
"""

from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
from apache_beam.metrics import Metrics

from beam_joins.coders.snapshot import Described, files_of, tables_of
from beam_joins.tables.batch import ChangeBatch

NAMESPACE: Final = "beam_joins"
REASONS: Final = (
    "bad_record",
    "null_key",
    "null_value",
    "null_timestamp",
    "null_sequence",
    "null_foreign_key",
    "null_join_key",
    "null_group",
    "duplicate_position",
    "ambiguous_position",
    "late_applied",
    "late_stale",
    "no_earlier_row",
    "late",
    "late_left",
    "late_right",
)
"""Why a record is dropped, or reported as late."""


class Metric(NamedTuple):
    """The name and the kind of a metric."""

    name: str
    kind: Literal["counter", "distribution"]


ROWS_IN: Final = Metric("rows_in", "counter")
ROWS_OUT: Final = Metric("rows_out", "counter")
UNMATCHED: Final = Metric("unmatched", "counter")
ABSENT_DELETES: Final = Metric("absent_deletes", "counter")
SUPERSEDED_ROWS: Final = Metric("superseded_rows", "counter")
BLOCK_ROWS: Final = Metric("block_rows", "distribution")
BLOCK_BYTES: Final = Metric("block_bytes", "distribution")
STATE_ROWS: Final = Metric("state_rows", "distribution")
STATE_BYTES: Final = Metric("state_bytes", "distribution")
TURN_MICROS: Final = Metric("turn_micros", "distribution")
METRICS: Final = (
    *(ROWS_IN, ROWS_OUT, UNMATCHED, ABSENT_DELETES, SUPERSEDED_ROWS, BLOCK_ROWS, BLOCK_BYTES, STATE_ROWS, STATE_BYTES, TURN_MICROS),
    *(Metric(f"dropped_{reason}", "counter") for reason in REASONS),
)
_DROPPED: Final = {reason: Metric(f"dropped_{reason}", "counter") for reason in REASONS}
_MADE: Final[dict[Metric, Any]] = {metric: getattr(Metrics, metric.kind)(NAMESPACE, metric.name) for metric in METRICS}


def count(metric: Metric, value: int) -> None:
    """Count for the step that is being executed: add to a counter, or one more value of a distribution."""
    made = _MADE[metric]
    made.inc(value) if metric.kind == "counter" else made.update(value)


def dropped(reason: str) -> Metric:
    """The counter of records that are dropped for a reason.

    >>> dropped("null_key").name
    'dropped_null_key'
    """
    return _DROPPED[reason]


def count_state(state: Any, described: Described | None) -> None:
    """Count the rows and bytes of a partition's state after a turn, as described by
    :func:`beam_joins.coders.snapshot.write_snapshot`.
    """
    if described is not None:
        count(STATE_ROWS, sum(map(len, tables_of(state))))
        count(STATE_BYTES, sum(file["bytes"] for file in files_of(described)))


def rows_of(element: Any) -> int:
    """The number of rows in an element that a transform gives.

    >>> rows_of(("key", "value"))
    1
    """
    return len(element) if isinstance(element, ChangeBatch | pa.RecordBatch) else 1
