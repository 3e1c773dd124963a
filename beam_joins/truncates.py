"""Truncates in changelogs: a truncate deletes all rows of the table at its place (PostgreSQL's TRUNCATE,
Debezium's operation ``t``, AUTO CDC's APPLY AS TRUNCATE WHEN).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.changelog import State, at_place, earlier
from beam_joins.keys.columns import factorize
from beam_joins.sorting import combine_chunks, ends, record_order, valid

_NEEDED = ("key", "value", "position", "within", "timestamp", "tie")


def with_deletes(state: State, rows: pa.Table, truncates: pa.Table) -> pa.Table:
    """Adds deletes to the rows of a step for every row that exists when a truncate empties the table.

    ``truncates`` have a ``timestamp``, a ``position`` and, perhaps, an order ``within`` it, as rows do. A row
    that comes at the place of a truncate or later stays; of one at the same position ``within`` decides. A
    truncate that comes late deletes what is known to be older. :func:`emptied` gives the state after the
    step.

    >>> given = {"key": [1, 2, 1], "value": ["a", "b", "c"], "timestamp": [1, 2, 4], "position": [1, 2, 4]}
    >>> made = with_deletes(State(), pa.table(given), pa.table({"timestamp": [3], "position": [3]}))
    >>> made.slice(3).select(["key", "value", "position"]).to_pylist()
    [{'key': 1, 'value': None, 'position': 3}, {'key': 2, 'value': None, 'position': 3}]
    """
    remembered = state.rows.table()
    tables = [rows] if remembered is None else [remembered, rows]
    together = pa.concat_tables([_needed(table) for table in tables], promote_options="default").combine_chunks()
    (code,) = factorize(combine_chunks(together["key"]))
    by = record_order(together, code)
    present, deletes, done = valid(combine_chunks(together["value"])), [], np.zeros(len(together), np.bool_)
    if state.emptied is not None:
        done |= earlier(together, **state.emptied.to_pylist()[0])
    for truncate in sorted(truncates.to_pylist(), key=_place):
        deleted = earlier(together, *_place(truncate))
        before = by[deleted[by]]
        last = before[ends(code[before])]
        # a row at this very place stays, and what an earlier truncate has deleted is not there
        stays = np.isin(code[last], code[at_place(together, *_place(truncate))])
        emptied_rows = together.take(pa.array(last[present[last] & ~done[last] & ~stays]))
        done |= deleted
        deletes.append(_deletes(emptied_rows, truncate))
    return pa.concat_tables([rows, *deletes], promote_options="default").combine_chunks()


def emptied(state: State, truncates: pa.Table) -> State:
    """The state after truncates. It keeps the last one, so that an earlier row that arrives later is stale.

    >>> state = emptied(State(), pa.table({"timestamp": [3], "position": [3]}))
    >>> state.frontier, state.emptied.to_pylist()
    (3, [{'position': 3, 'within': b''}])
    """
    earlier = [] if state.emptied is None else state.emptied.to_pylist()
    position, within = max(map(_place, [*earlier, *truncates.to_pylist()]))
    last = pa.table({"position": pa.array([position], pa.int64()), "within": pa.array([within], pa.binary())})
    return state._replace(frontier=max(position, position if state.frontier is None else state.frontier), emptied=last)


def _needed(table: pa.Table) -> pa.Table:
    return table.select([name for name in _NEEDED if name in table.column_names])


def _place(truncate: dict[str, Any]) -> tuple[int, bytes]:
    return truncate["position"], truncate.get("within") or b""


def _deletes(rows: pa.Table, truncate: dict[str, Any]) -> pa.Table:
    nothing = pa.array(np.zeros(len(rows), np.int64), mask=np.ones(len(rows), np.bool_))
    columns = {"key": rows["key"], "value": combine_chunks(rows["value"]).take(nothing)}
    columns |= {name: pa.array(np.full(len(rows), truncate[name])) for name in ("timestamp", "position")}
    if truncate.get("within"):
        columns["within"] = pa.array([truncate["within"]] * len(rows), pa.binary())
    return pa.table(columns)
