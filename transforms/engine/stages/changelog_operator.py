"""The replay that makes the changes of a table of its records."""

from collections.abc import Callable, Generator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.elements.content import Emit
from beam_joins.tables.arrangement import ORDER
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.changelog import ABSENT_DELETE, SUPERSEDED, ChangelogState, step, upsert
from beam_joins.tables.unchanged import Complete
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.metrics import ABSENT_DELETES, SUPERSEDED_ROWS, count
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.resumed.manifest import largest
from beam_joins.transforms.engine.stages.table_rows import records_of
from beam_joins.transforms.engine.turns.operator import Operator, Turn

ROWS, TRUNCATES = "rows", "truncates"
LATE = ("late_applied", "late_stale")
NO_EARLIER_ROW = "no_earlier_row"
_COUNTED = {ABSENT_DELETE: ABSENT_DELETES, SUPERSEDED: SUPERSEDED_ROWS}
"""The metrics of rows that make no change, and are not dropped."""
REASONS = ("duplicate_position", "ambiguous_position", *LATE, NO_EARLIER_ROW)


def upserts(emit: Emit, table: TableType, check: Callable[[pa.Table], None], complete: Complete | None = None) -> Operator:
    """The changes that the ``rows`` of a partition make; ``check`` sees the rows that are dropped, with their
    ``reason``.

    ``complete`` gives the value of a row that leaves columns out, by default its fields or members with those
    of the row before.
    """
    return partial(_upserted, emit, table, check, complete)


def _upserted(
    emit: Emit,
    table: TableType,
    check: Callable[[pa.Table], None],
    complete: Complete | None,
    inputs: dict[str, pa.Table],
    writer: BlockWriter,
    turn: Turn,
) -> Generator[ChangeBatch, None, ChangelogState | None]:
    state: ChangelogState | None = None
    remembered: ChangelogState | None = turn.state
    before = remembered or ChangelogState()
    before = before._replace(frontier=turn.frontier, forgotten=largest(before.forgotten, turn.forgotten))
    rows, truncates = _rows(inputs, before), inputs.get(TRUNCATES)
    if rows is None:  # a truncate of a table without rows
        return remembered if truncates is None or turn.is_only else before.truncated(truncates)
    if turn.is_only:
        batch, lost = upsert(rows, emit, complete, truncates=truncates)
    else:
        batch, lost, state = step(before, rows, emit, complete, horizon=turn.horizon, truncates=truncates)
    for reason, metric in _COUNTED.items():
        of_reason = pc.equal(lost["reason"], reason)
        if rows_of_reason := pc.sum(of_reason).as_py():
            count(metric, rows_of_reason)
            lost = lost.filter(pc.invert(of_reason))
    if len(lost):
        check(lost)
    for reason in REASONS:
        dropped = lost.filter(pc.equal(lost["reason"], reason))
        writer.drop_rows(reason, len(dropped), partial(records_of, dropped, table))
    if len(batch):
        yield batch
    return state


def _rows(inputs: dict[str, pa.Table], before: ChangelogState) -> pa.Table | None:
    """The rows of a turn, none of what is known if there are truncates alone; ``None`` if nothing is known."""
    if ROWS in inputs:
        return inputs[ROWS]
    remembered = before.rows.table()
    return None if remembered is None else remembered.slice(0, 0).drop_columns([ORDER])
