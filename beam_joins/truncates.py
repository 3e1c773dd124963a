"""What a truncate does: it deletes all rows that a table has at that place (PostgreSQL's TRUNCATE, Debezium's operation ``t``, AUTO CDC's APPLY AS TRUNCATE WHEN)."""

from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.changelog import State, earlier
from beam_joins.keys.columns import factorize
from beam_joins.sorting import combine_chunks, ends, record_order, valid

_NEEDED = ("key", "value", "position", "within", "timestamp", "tie")


def with_deletes(state: State, rows: pa.Table, truncates: pa.Table) -> pa.Table:
    """The rows of a step, with a delete for every row that is there when a truncate empties the table.

    ``truncates`` have a ``timestamp``, a ``position`` and, perhaps, an order ``within`` it, as rows do. A row that comes at the place of a truncate or later stays; of
    one at the same position ``within`` decides. A truncate that comes late deletes what is known to be older. :func:`emptied` gives the state after the step.

    >>> given = {"key": [1, 2, 1], "value": ["a", "b", "c"], "timestamp": [1, 2, 4], "position": [1, 2, 4]}
    >>> made = with_deletes(State(), pa.table(given), pa.table({"timestamp": [3], "position": [3]}))
    >>> made.slice(3).select(["key", "value", "position"]).to_pylist()
    [{'key': 1, 'value': None, 'position': 3}, {'key': 2, 'value': None, 'position': 3}]
    """
    known = state.rows.table()
    tables = [rows] if known is None else [known, rows]
    together = pa.concat_tables([_needed(table) for table in tables], promote_options="default").combine_chunks()
    (code,) = factorize(combine_chunks(together["key"]))
    by = record_order(together, code)
    there, deletes, done = valid(combine_chunks(together["value"])), [], np.zeros(len(together), np.bool_)
    if state.emptied is not None:
        done |= earlier(together, **state.emptied.to_pylist()[0])
    for truncate in sorted(truncates.to_pylist(), key=_place):
        deleted = earlier(together, *_place(truncate))
        before = by[deleted[by]]
        last = before[ends(code[before])]
        # what an earlier truncate has deleted is not there
        found = together.take(pa.array(last[there[last] & ~done[last]]))
        done |= deleted
        deletes.append(_deletes(found, truncate))
    return pa.concat_tables([rows, *deletes], promote_options="default").combine_chunks()


def emptied(state: State, truncates: pa.Table) -> State:
    """The state after truncates: it remembers the last one, so that a row from before it that comes later is stale.

    >>> state = emptied(State(), pa.table({"timestamp": [3], "position": [3]}))
    >>> state.frontier, state.emptied.to_pylist()
    (3, [{'position': 3, 'within': b''}])
    """
    known = [] if state.emptied is None else state.emptied.to_pylist()
    position, within = max(map(_place, [*known, *truncates.to_pylist()]))
    last = pa.table({"position": pa.array([position], pa.int64()), "within": pa.array([within], pa.binary())})
    return state._replace(frontier=max(position, position if state.frontier is None else state.frontier), emptied=last)


def _needed(table: pa.Table) -> pa.Table:
    return table.select([name for name in _NEEDED if name in table.column_names])


def _place(truncate: dict[str, Any]) -> tuple[int, bytes]:
    return truncate["position"], truncate.get("within") or b""


def _deletes(found: pa.Table, truncate: dict[str, Any]) -> pa.Table:
    nothing = pa.array(np.zeros(len(found), np.int64), mask=np.ones(len(found), np.bool_))
    columns = {"key": found["key"], "value": combine_chunks(found["value"]).take(nothing)}
    columns |= {name: pa.array(np.full(len(found), truncate[name])) for name in ("timestamp", "position")}
    if truncate.get("within"):
        columns["within"] = pa.array([truncate["within"]] * len(found), pa.binary())
    return pa.table(columns)
