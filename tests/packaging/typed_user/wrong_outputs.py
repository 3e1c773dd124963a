"""Outputs that there are not, each an error of the type checker in the line that asks for one."""

from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch, ForeignKeyJoin, StreamTableJoin, TableFromChangelog, WindowedStreamJoin
from beam_joins.outputs import TableOutputs

Pairs = PCollection[tuple[str, int]]


def mistakes(log: PCollection[dict[str, Any]], orders: PCollection[ChangeBatch], words: PCollection[str], clicks: Pairs) -> None:
    made: TableOutputs = log | TableFromChangelog(key="id").with_outputs()
    join = ForeignKeyJoin(print, foreign_key="by")
    _ = made.droped  # wrong: attr-defined
    _ = ((orders, orders) | join.with_outputs()).droped  # wrong: attr-defined
    _ = ((orders, orders) | "with a label" >> join.with_outputs()).droped  # wrong: attr-defined
    _ = ((orders, orders) | join.with_outputs()).bad  # wrong: attr-defined
    _ = ((orders, orders) | join.with_exception_handling().with_outputs()).good  # wrong: attr-defined
    _ = ((orders, orders) | join).dropped  # wrong: attr-defined
    _ = ((clicks, orders) | StreamTableJoin(print).with_outputs()).table  # wrong: attr-defined
    _ = ((clicks, clicks) | WindowedStreamJoin(print, before=1, after=1, grace=0).with_outputs()).table  # wrong: attr-defined
    (orders, words) | join  # wrong: operator
    pairs: Pairs = (orders, orders) | join  # wrong: assignment
    assert pairs
