"""Truncates in changelogs: a truncate deletes all rows of the table at its place (PostgreSQL's TRUNCATE,
Debezium's operation ``t``, AUTO CDC's APPLY AS TRUNCATE WHEN).
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, ends, integers, record_order, valid
from beam_joins.keys.key_columns import Bools, factorize
from beam_joins.tables.arrangement import ORDER

_NEEDED = ("key", "value", "position", "within", "timestamp", "tie", ORDER)
Place: TypeAlias = tuple[int, bytes]
"""A position and the order within it."""


def places_of(truncates: pa.Table | None) -> list[Place]:
    """The places of truncates, in order.

    >>> places_of(pa.table({"position": [3, 2]})), places_of(None)
    ([(2, b''), (3, b'')], [])
    """
    return [place for place, _ in _in_order(truncates)]


def with_deletes(remembered: Sequence[pa.Table], rows: pa.Table, truncates: pa.Table, emptied: pa.Table | None = None) -> pa.Table:
    """Adds deletes to the rows of a step for every row that exists when a truncate empties the table.

    ``truncates`` have a ``timestamp``, a ``position`` and, perhaps, an order ``within`` it, as rows do. A row
    that comes at the place of a truncate or later stays; of one at the same position ``within`` decides. A
    truncate that comes late deletes what is known to be older. ``remembered`` are the last records of the steps
    before, and ``emptied`` their last truncate, as :func:`last_truncate` gives it.

    >>> given = {"key": [1, 2, 1], "value": ["a", "b", "c"], "timestamp": [1, 2, 4], "position": [1, 2, 4]}
    >>> made = with_deletes([], pa.table(given), pa.table({"timestamp": [3], "position": [3]}))
    >>> made.slice(3).select(["key", "value", "position"]).to_pylist()
    [{'key': 1, 'value': None, 'position': 3}, {'key': 2, 'value': None, 'position': 3}]
    """
    together = pa.concat_tables([_needed(table) for table in (*remembered, rows)], promote_options="default").combine_chunks()
    (code,) = factorize(combine_chunks(together["key"]))
    by = record_order(together, code)
    present, deletes, done = valid(combine_chunks(together["value"])), [], np.zeros(len(together), np.bool_)
    if emptied is not None:
        done |= earlier(together, *_last(emptied))
    for place, timestamp in _in_order(truncates):
        deleted = earlier(together, *place)
        before = by[deleted[by]]
        last = before[ends(code[before])]
        # a row at this very place stays, and rows that an earlier truncate has deleted are gone
        stays = np.isin(code[last], code[at_place(together, *place)])
        emptied_rows = together.take(pa.array(last[present[last] & ~done[last] & ~stays]))
        done |= deleted
        deletes.append(_deletes(emptied_rows, timestamp, *place))
    return pa.concat_tables([rows, *deletes], promote_options="default").combine_chunks()


def last_truncate(before: pa.Table | None, truncates: pa.Table | None) -> pa.Table | None:
    """The place of the last truncate, as a table of one row; ``before`` is that of earlier steps.

    >>> last_truncate(None, pa.table({"timestamp": [3], "position": [3]})).to_pylist()
    [{'position': 3, 'within': b''}]
    """
    if truncates is None or not len(truncates):
        return before
    position, within = max([*places_of(before), *places_of(truncates)])
    return pa.table({"position": pa.array([position], pa.int64()), "within": pa.array([within], pa.binary())})


def before_truncate(rows: pa.Table, emptied: pa.Table | None) -> Bools:
    """Which rows precede the last truncate."""
    nothing: Bools = np.zeros(len(rows), np.bool_)
    return nothing if emptied is None else earlier(rows, *_last(emptied))


def not_emptied(rows: pa.Table, emptied: pa.Table | None) -> pa.Table:
    """The rows without the deletes of the last truncate, at whose place a late row stays."""
    if emptied is None:
        return rows
    return rows.filter(pa.array(valid(combine_chunks(rows["value"])) | ~at_place(rows, *_last(emptied))))


def earlier(rows: pa.Table, position: int, within: bytes) -> Bools:
    """Which rows precede a place in the sequence: by position, or by ``within`` at the same position."""
    is_earlier: Bools = integers(rows["position"]) < position
    if "within" in rows.column_names and within:
        first = pc.less(rows["within"].fill_null(b""), within).to_numpy(zero_copy_only=False)
        is_earlier |= (integers(rows["position"]) == position) & first
    return is_earlier


def at_place(rows: pa.Table, position: int, within: bytes) -> Bools:
    """Which rows are exactly at a place in the sequence."""
    is_at: Bools = integers(rows["position"]) == position
    if "within" in rows.column_names:
        is_at &= pc.equal(rows["within"].fill_null(b""), within).to_numpy(zero_copy_only=False)
    return is_at if not within or "within" in rows.column_names else np.zeros(len(rows), np.bool_)


def _last(emptied: pa.Table) -> Place:
    return places_of(emptied)[-1]


def _in_order(truncates: pa.Table | None) -> list[tuple[Place, int]]:
    """The places of truncates with their timestamps."""
    rows = [] if truncates is None else truncates.to_pylist()
    return sorted(((row["position"], row.get("within") or b""), row.get("timestamp", 0)) for row in rows)


def _needed(table: pa.Table) -> pa.Table:
    return table.select([name for name in _NEEDED if name in table.column_names])


def _deletes(rows: pa.Table, timestamp: int, position: int, within: bytes) -> pa.Table:
    nothing = pa.array(np.zeros(len(rows), np.int64), mask=np.ones(len(rows), np.bool_))
    columns = {"key": rows["key"], "value": combine_chunks(rows["value"]).take(nothing)}
    columns |= {name: pa.array(np.full(len(rows), at)) for name, at in (("timestamp", timestamp), ("position", position))}
    if within:
        columns["within"] = pa.array([within] * len(rows), pa.binary())
    if ORDER in rows.column_names:
        columns[ORDER] = rows[ORDER]
    return pa.table(columns)
