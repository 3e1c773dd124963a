"""Generated changelogs: few keys, few positions and few values, so that everything meets everything."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.columns.positions import order_bytes
from beam_joins.elements.content import Emit
from tests.reference.operators import changes_of, upsert_table
from tests.reference.record import Record

HOW = st.sampled_from(["inner", "left"])
EMIT: st.SearchStrategy[Emit] = st.sampled_from(["updates", "changes", "records"])
POSITIONS = range(6)
PRIMARY_KEYS = (b"A", b"")

ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("position", pa.int64()),
        ("within", pa.binary()),
        ("tie", pa.binary()),
    ]
)
"""The rows of a raw changelog as a kernel takes them; of a table's rows the last two are empty."""

_FOREIGN_KEYS = st.sampled_from([b"Y", b"Z", b"Y", b"null"])
_LEFT_VALUES = st.builds(lambda fk, n: fk + b"|%d" % n, _FOREIGN_KEYS, st.integers(0, 1))
_RIGHT_VALUES = st.sampled_from([b"bar", b"baz"])


def _changelogs(keys: Sequence[bytes], values: st.SearchStrategy[bytes], duplicates: bool) -> st.SearchStrategy[list[Record]]:
    """A record, a tombstone or nothing for each key and position; with ``duplicates`` up to four, ordered or
    not; in any order.
    """
    order = st.sampled_from([b"", order_bytes([1]), order_bytes([2])]) if duplicates else st.just(b"")
    row = st.tuples(st.none() | values, st.integers(0, 9), order, order)
    cell = st.lists(row, max_size=4 if duplicates else 1)
    places = [(key, position) for position in POSITIONS for key in keys]

    def records(cells: Sequence[list[tuple[bytes | None, int, bytes, bytes]]]) -> list[Record]:
        return [
            Record(key, value, timestamp, position, within=within, tie=tie)
            for (key, position), rows in zip(places, cells, strict=True)
            for value, timestamp, within, tie in rows
        ]

    return st.tuples(*(cell for _ in places)).map(records).flatmap(st.permutations)


def left_changelogs(*, duplicates: bool = False) -> st.SearchStrategy[list[Record]]:
    """Changelogs whose values are ``foreign key|number``."""
    return _changelogs(PRIMARY_KEYS, _LEFT_VALUES, duplicates)


def right_changelogs(*, duplicates: bool = False) -> st.SearchStrategy[list[Record]]:
    """Changelogs whose keys are foreign keys."""
    return _changelogs((b"Y", b"Z"), _RIGHT_VALUES, duplicates)


def _table(records: list[Record], emit: Emit) -> list[Change[bytes, bytes]]:
    return changes_of(upsert_table(records, emit))


def left_tables() -> st.SearchStrategy[list[Change[bytes, bytes]]]:
    """Tables with such values, in any flavour that TableFromChangelog gives."""
    return st.builds(_table, left_changelogs(), EMIT)


def right_tables() -> st.SearchStrategy[list[Change[bytes, bytes]]]:
    """Tables with such keys, in any flavour that TableFromChangelog gives."""
    return st.builds(_table, right_changelogs(), EMIT)


def rows_of(records: Iterable[Record | Change[bytes, bytes]]) -> pa.Table:
    """Records or changes as the rows that a kernel takes."""
    columns: dict[str, list[Any]] = {name: [] for name in ROWS.names}
    for record in records:
        value, order = (record.value, record[5:]) if isinstance(record, Record) else (record.new, (b"", b""))
        for name, field in zip(ROWS.names, (record.key, value, record.timestamp, record.position, *order), strict=True):
            columns[name].append(field)
    return pa.table(columns, schema=ROWS)


def cuts(positions: Iterable[int] = POSITIONS) -> st.SearchStrategy[list[int]]:
    """Where a history is cut into runs: sorted positions, each the last one of its run; none, several, the
    same one twice (a run without rows).
    """
    return st.lists(st.sampled_from([min(positions) - 1, *positions]), max_size=4).map(sorted)


def split(rows: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """The rows of each run, ``len(cuts) + 1`` of them: those with positions up to and including its cut and
    behind the one before.
    """
    run = [sum(position > cut for cut in cuts) for position in rows["position"].to_pylist()]
    return [rows.filter(pc.equal(pa.array(run, pa.int64()), number)) for number in range(len(cuts) + 1)]
