"""The replay that makes the changes of a table of its records."""

from collections.abc import Callable, Generator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.arrangement import ORDER
from beam_joins.batch import ChangeBatch
from beam_joins.changelog import State, step, upsert
from beam_joins.content import Emit
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.operator import Operator, Turn
from beam_joins.transforms.engine.table_rows import records_of
from beam_joins.transforms.engine.table_type import TableType
from beam_joins.truncates import emptied, with_deletes

ROWS, TRUNCATES = "rows", "truncates"
LATE = ("late_applied", "late_stale")
REASONS = ("duplicate_position", "ambiguous_position", *LATE)


def upserts(emit: Emit, table: TableType, check: Callable[[pa.Table], None]) -> Operator:
    """The changes that the ``rows`` of a partition make; ``check`` sees the rows that are dropped, with their ``reason``."""

    def upserted(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, State | None]:
        state: State | None = None
        known: State | None = turn.state
        before = (known or State())._replace(frontier=turn.frontier)
        rows, truncates = _rows(inputs, before), inputs.get(TRUNCATES)
        if rows is None:  # a truncate of a table without rows
            return known if truncates is None or turn.is_only else emptied(before, truncates)
        if truncates is not None:
            rows = with_deletes(before, rows, truncates)
        if turn.is_only:
            batch, lost = upsert(rows, emit)
        else:
            batch, lost, state = step(before, rows, emit, horizon=turn.horizon)
            state = state if truncates is None else emptied(state, truncates)
        if len(lost):
            check(lost)
        for reason in REASONS:
            dropped = lost.filter(pc.equal(lost["reason"], reason))
            writer.drop_rows(reason, len(dropped), partial(records_of, dropped, table))
        if len(batch):
            yield batch
        return state

    return upserted


def _rows(inputs: dict[str, pa.Table], before: State) -> pa.Table | None:
    """The rows of a turn, none of what is known if there are truncates alone; ``None`` if nothing is known."""
    if ROWS in inputs:
        return inputs[ROWS]
    known = before.rows.table()
    return None if known is None else known.slice(0, 0).drop_columns([ORDER])
