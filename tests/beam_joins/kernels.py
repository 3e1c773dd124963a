"""Whole operators put together from the kernels on columns, beside the same put together from the pure cores."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins import Change, Dropped
from beam_joins.elements.content import Emit
from beam_joins.functions.joiner import Join, joiner_in_columns, values_joined
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.key_join import key_join
from beam_joins.kernels.overlap import PART_ROWS, Joined, OverlapState, overlap, step
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import listed_subscriptions, rejoined, subscriptions
from beam_joins.keys.key_columns import comparable
from beam_joins.options.join_types import How
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.changelog import upsert
from beam_joins.tables.versions import FOREVER
from tests.examples import examples
from tests.reference.lookup_join import LookupHow, LookupJoin
from tests.reference.record import Record
from tests.reference.upsert_table import UpsertTable

Table = list[Change[Any, Any]]
Joiner = Callable[[Any, Any], Any]
HOWS: tuple[How, ...] = ("inner", "left", "right", "outer", "semi", "anti")

modest = examples(80)
"""For kernels: an example costs some milliseconds of small Arrow calls."""


def rows_of(records: Iterable[Any], key: Any = None, value: Any = None) -> pa.Table:
    """The rows that changes or records are to a kernel; of the given types, or those that Arrow finds.

    No records are of no known type.
    """
    records = list(records)
    values = [record.value if isinstance(record, Record) else record.new for record in records]
    columns = {
        "key": pa.array([record.key for record in records], key),
        "value": pa.array(values, value),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "position": pa.array([record.position for record in records], pa.int64()),
    }
    for name in ("within", "tie"):
        if any(getattr(record, name, b"") for record in records):
            columns[name] = pa.array([getattr(record, name) for record in records], pa.binary())
    return pa.table(columns)


def together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Several batches as one table; of one kind of columns, or of none where there is no row."""
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")


def changes_in(batch: ChangeBatch) -> Table:
    """The changes of a batch."""
    return list(batch)


def table_of(rows: pa.Table, emit: Emit = "updates") -> ChangeBatch:
    """The table that rows stand for."""
    return upsert(rows, emit)[0]


def with_core(records: Iterable[Record], emit: Emit) -> tuple[Table, list[Dropped]]:
    """The changes of a raw changelog, and the records that were dropped, by :class:`UpsertTable`."""
    cores: dict[Any, UpsertTable] = defaultdict(lambda: UpsertTable(emit))
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.position, record.key].append(record)
    outputs = [out for (position, key) in sorted(groups) for out in cores[key].advance(position, groups[position, key])]
    if emit == "latest":
        outputs += [out for core in cores.values() for out in core.finish()]
    return [o for o in outputs if isinstance(o, Change)], [o for o in outputs if isinstance(o, Dropped)]


def in_order(changes: Iterable[Change[Any, Any]]) -> Table:
    """Changes by key and position."""
    return sorted(changes, key=lambda change: (repr(change.key), change.position))


def foreign_key_join(
    left: ChangeBatch | Sequence[ChangeBatch],
    right: pa.Table,
    *,
    how: How,
    foreign_key: Callable[[Any], Any],
    joiner: Any,
    key_type: Any = None,
) -> Table:
    """Left changes, in one batch or several, with right rows: re-keyed, joined, and re-keyed back."""
    shape = Shape(how, times="foreign_key")
    asked = []
    for batch in [left] if isinstance(left, ChangeBatch) else left:
        references = [None if value is None else foreign_key(value) for value in batch.values.to_pylist()]
        keys = comparable(pa.array(references, key_type), "the foreign key")
        asked.append(subscriptions(batch, keys, shape))
    joined = overlap(together(asked), right, joiner_in_columns(joiner, names=values_joined([how])), shape)
    return changes_of(joined)


def table_join(left: pa.Table, right: pa.Table, *, how: How, joiner: Any) -> Table:
    """Both tables' rows through the join on the same key."""
    return in_order(key_join([left, right], joiner_in_columns(joiner, names=values_joined([how])), [how]).changes)


def table_join_with_core(left: Iterable[Any], right: Iterable[Any], *, how: LookupHow, joiner: Any) -> Table:
    """The same by :class:`LookupJoin`; ``left`` and ``right`` are changes."""
    joins: dict[Any, LookupJoin[Any]] = defaultdict(lambda: LookupJoin(joiner, how, lambda row: row.key, shared_keys=True))
    groups: dict[Any, list[Record]] = defaultdict(list)
    for side, table in enumerate((left, right)):
        for change in table:
            groups[change.position, change.key].append(Record(change.key, change.new, change.timestamp, change.position, side))
    return [
        change._replace(key=change.key.key)
        for (position, key) in sorted(groups)
        for change in joins[key].advance(position, groups[position, key])
    ]


def parts(batch: ChangeBatch, count: int) -> list[ChangeBatch]:
    """A table in several batches, all changes of a row in one of them."""
    of_key: dict[str, int] = {}
    part = np.array([of_key.setdefault(repr(key), len(of_key)) % count for key in batch.key.to_pylist()], np.int64)
    batches = []
    for number in range(count):
        chosen = np.flatnonzero(part == number)
        place = np.full(len(batch) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        before = place[batch.before.fill_null(-1).to_numpy(zero_copy_only=False)[chosen]]
        at = pa.array(chosen)
        batches.append(
            ChangeBatch(
                key=batch.key.take(at),
                new=batch.new.take(at),
                before=pa.array(before, pa.int64(), mask=before < 0),
                timestamp=batch.timestamp.take(at),
                position=batch.position.take(at),
            )
        )
    return batches


def batch(table: Iterable[Change[Any, Any]]) -> ChangeBatch:
    """Changes with binary keys and values as a batch; an old value is an earlier one if no change of the
    table gave it.
    """
    rows = sorted(table, key=lambda change: (change.key, change.position))
    inputs = [n > 0 and rows[n - 1].key == change.key for n, change in enumerate(rows)]
    before = [None if change.old is None else n - 1 if inputs[n] else len(rows) + n for n, change in enumerate(rows)]
    return ChangeBatch(
        key=pa.array([change.key for change in rows], pa.binary()),
        new=pa.array([change.new for change in rows], pa.binary()),
        before=pa.array(before, pa.int64()),
        timestamp=pa.array([change.timestamp for change in rows], pa.int64()),
        position=pa.array([change.position for change in rows], pa.int64()),
        earlier=pa.array([change.old for change in rows], pa.binary()),
    )


def rows(changes: ChangeBatch) -> pa.Table:
    """The right rows of a join."""
    columns = {"key": changes.key, "value": changes.new, "timestamp": changes.timestamp, "position": changes.position}
    return pa.table(columns)


def of_pairs(joiner: Joiner) -> Join:
    """A joiner of bytes, ``None`` for an absent side, as a kernel calls it."""

    def join(pairs: Pairs) -> pa.Array:
        left, right = [*pairs.left.to_pylist(), None], [*pairs.right.to_pylist(), None]
        indices = zip(pairs.left_index.tolist(), pairs.right_index.tolist(), strict=True)
        return pa.array([None if i < 0 and j < 0 else joiner(left[i], right[j]) for i, j in indices], pa.string())

    return join


def left_rows(left: Table, shape: Shape, references: Callable[[bytes], Any], *, lists: bool = False) -> pa.RecordBatch:
    """The left rows of a join under what ``references`` gives for a value."""
    changes = batch(left)
    inputs = [None if value is None else references(value) for value in changes.values.to_pylist()]
    if lists:
        return listed_subscriptions(changes, inputs, keep_unmatched=shape.keeps_left)
    return subscriptions(changes, pa.array(inputs, pa.binary()), shape)


def changes_of(joined: Joined) -> Table:
    """All changes of a join, by key and position."""
    return in_order([*joined.changes, *rejoined(joined.halves)])


def join(left: Table, right: Table, joiner: Joiner, shape: Shape, references: Any, *, lists: bool = False) -> Table:
    """The changes of a join."""
    return changes_of(overlap(left_rows(left, shape, references, lists=lists), rows(batch(right)), of_pairs(joiner), shape))


def join_in_steps(
    left: Table,
    right: Table,
    joiner: Joiner,
    shape: Shape,
    references: Any,
    cuts: list[int],
    *,
    lists: bool = False,
    most: int = PART_ROWS,
) -> tuple[Table, OverlapState]:
    """The changes of a join whose history is cut behind each position of ``cuts``, and what is remembered at
    the end; so many left rows are joined at a time.
    """
    changes, state = [], OverlapState()
    for low, high in zip([-FOREVER, *cuts], [*cuts, FOREVER], strict=True):
        parts, state = step(
            state,
            left_rows(between(left, low, high), shape, references, lists=lists),
            rows(batch(between(right, low, high))),
            of_pairs(joiner),
            shape,
            most=most,
        )
        actual = [change for joined in parts for change in changes_of(joined)]
        assert all(low < change.position <= high for change in actual)
        changes += actual
    return in_order(changes), state


def between(table: Table, low: int, high: int) -> Table:
    return [change for change in table if low < change.position <= high]
