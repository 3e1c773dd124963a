"""Generated changelogs: few keys, few positions and few values, so that everything meets everything."""

from collections.abc import Sequence

from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.record import Record, order_bytes
from beam_joins.table import Emit
from tests.properties.cores import changes_of, upsert_table

HOW = st.sampled_from(["inner", "left"])
EMIT: st.SearchStrategy[Emit] = st.sampled_from(["updates", "changes", "records"])
POSITIONS = range(6)
PRIMARY_KEYS = (b"A", b"")

_FOREIGN_KEYS = st.sampled_from([b"Y", b"Z", b"Y", b"null"])
_LEFT_VALUES = st.builds(lambda fk, n: fk + b"|%d" % n, _FOREIGN_KEYS, st.integers(0, 1))
_RIGHT_VALUES = st.sampled_from([b"bar", b"baz"])


def _changelogs(keys: Sequence[bytes], values: st.SearchStrategy[bytes], duplicates: bool) -> st.SearchStrategy[list[Record]]:
    """A record, a tombstone or nothing for each key and position; with ``duplicates`` up to four, ordered or not; in any order."""
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
