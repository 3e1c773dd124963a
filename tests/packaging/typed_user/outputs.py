"""What transforms with several outputs give, known without a declaration where two inputs are joined."""

from typing import Any

from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    Change,
    ChangeBatch,
    Dropped,
    ForeignKeyJoin,
    ManyToManyJoin,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableToChanges,
    WindowedAggregate,
    WindowedStreamJoin,
)
from beam_joins.outputs import HandledTableOutputs, TableOutputs, WindowedTableOutputs

Table = PCollection[ChangeBatch]
Pairs = PCollection[tuple[str, int]]


def of_one_input(log: PCollection[dict[str, Any]], clicks: Pairs) -> tuple[Table, Table]:
    made: TableOutputs = log | TableFromChangelog(key="id", sequence_by="lsn").with_outputs()
    counted: WindowedTableOutputs = clicks | WindowedAggregate(FixedWindows(60), initial=0, add=max).with_outputs()
    reasons: list[PCollection[Dropped]] = [made.dropped, counted.dropped, counted.late]
    return made.table, counted.table if reasons else made.table


def of_two_inputs(orders: Table, customers: PCollection[Change[str, str]], clicks: Pairs) -> Table:
    join = ForeignKeyJoin(print, foreign_key="by")
    joined = (orders, customers) | "joined" >> join
    outputs = (orders, customers) | join.with_outputs()
    both = (orders, customers) | join.with_exception_handling().with_outputs()
    same: HandledTableOutputs = (orders, customers) | "same" >> join.with_outputs().with_exception_handling()
    pairs, bad = (orders, orders) | OneToManyJoin(print, foreign_key="by").with_exception_handling()
    equal = (orders, orders) | ManyToManyJoin(print, on="by", condition=lambda left, right: bool(left)).with_outputs()
    looked_up = (clicks, orders) | StreamTableJoin(print).with_outputs()
    close = (clicks, clicks) | WindowedStreamJoin(print, before=1, after=1, grace=0).with_outputs().with_exception_handling()
    lost: list[PCollection[Dropped]] = [
        outputs.dropped,
        equal.dropped,
        both.dropped,
        same.dropped,
        looked_up.dropped,
        close.dropped,
        close.late,
    ]
    assert lost, (both.bad, close.bad, close.stream, looked_up.stream, pairs, bad)
    _ = joined | TableToChanges()
    return joined
