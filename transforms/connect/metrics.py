"""The names of the metrics that the engine counts."""

from beam_joins.transforms.engine.blocks.metrics import (
    ABSENT_DELETES,
    BLOCK_BYTES,
    BLOCK_ROWS,
    NAMESPACE,
    ROWS_IN,
    ROWS_OUT,
    STATE_BYTES,
    STATE_ROWS,
    SUPERSEDED_ROWS,
    TURN_MICROS,
    UNMATCHED,
)

__all__ = [
    "ABSENT_DELETES",
    "BLOCK_BYTES",
    "BLOCK_ROWS",
    "NAMESPACE",
    "ROWS_IN",
    "ROWS_OUT",
    "STATE_BYTES",
    "STATE_ROWS",
    "SUPERSEDED_ROWS",
    "TURN_MICROS",
    "UNMATCHED",
]
