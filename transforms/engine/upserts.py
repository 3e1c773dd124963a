"""The replay that makes the changes of a table of its records."""

from collections.abc import Callable, Generator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.batch import ChangeBatch
from beam_joins.changelog import State, step, upsert
from beam_joins.content import Emit
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.operator import Operator, Turn
from beam_joins.transforms.engine.table_rows import records_of
from beam_joins.transforms.engine.table_type import TableType

ROWS = "rows"
LATE = ("late_applied", "late_stale")
REASONS = ("duplicate_position", "ambiguous_position", *LATE)


def upserts(emit: Emit, known: TableType, check: Callable[[pa.Table], None]) -> Operator:
    """The changes that the ``rows`` of a partition make; ``check`` sees the rows that are dropped, with their ``reason``."""

    def upserted(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, State | None]:
        state: State | None = None
        if turn.is_only:
            batch, lost = upsert(inputs[ROWS], emit)
        else:
            before = (turn.state or State())._replace(frontier=turn.frontier)
            batch, lost, state = step(before, inputs[ROWS], emit, horizon=turn.horizon)
        if len(lost):
            check(lost)
        for reason in REASONS:
            dropped = lost.filter(pc.equal(lost["reason"], reason))
            writer.drop_rows(reason, len(dropped), partial(records_of, dropped, known))
        if len(batch):
            yield batch
        return state

    return upserted
