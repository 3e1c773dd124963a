"""The naive reference: a table's content and its joins, computed anew from scratch.

Nothing here is shared with the code under test.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from beam_joins import Change
from tests.reference.record import Record


def null_fk(text: str) -> str | None:
    """The foreign key that a value's first part says: empty and ``null`` are none."""
    return None if text in ("", "null") else text


def fk_of(value: str) -> str | None:
    """The foreign key of a left value ``fk|rest``."""
    return null_fk(value.partition("|")[0])


def pair(left: str, right: str | None) -> str:
    """A joined value as the recorded answers print it."""
    return f"({left},{'null' if right is None else right})"


def rows_of_records(records: Iterable[Record], position: int) -> dict[bytes, bytes]:
    """The content of the table that a raw changelog stands for, at a position."""
    last: dict[bytes, tuple[Any, bytes | None]] = {}
    for record in records:
        rank = (record.position, record.within, record.timestamp, record.tie, record.value is not None, record.value or b"")
        if record.position <= position and (record.key not in last or last[record.key][0] < rank):
            last[record.key] = (rank, record.value)
    return {key: value for key, (_, value) in last.items() if value is not None}


def rows_of_changes(changes: Iterable[Change[Any, Any]], position: int) -> dict[Any, Any]:
    """The content of a table at a position; fails if the changes are not a table."""
    by_row: dict[Any, list[Change[Any, Any]]] = {}
    for change in changes:
        by_row.setdefault(change.key, []).append(change)
    rows = {}
    for key, history in by_row.items():
        history.sort(key=lambda change: change.position)
        positions = [change.position for change in history]
        assert len(set(positions)) == len(positions), f"two changes of {key!r} at one position: {history}"
        value = None
        for change in history:
            assert change.old == value, f"{change} follows on {value!r}"
            value = change.new
            if change.position <= position:
                rows[key] = value
    return {key: value for key, value in rows.items() if value is not None}


def foreign_key_join(
    left: Mapping[Any, Any],
    right: Mapping[Any, Any],
    *,
    how: str,
    foreign_key: Callable[[Any], Any],
    joiner: Callable[[Any, Any], Any],
) -> dict[Any, Any]:
    """The rows of a foreign-key join of two contents."""
    result = {}
    for key, value in left.items():
        reference = foreign_key(value)
        match = None if reference is None else right.get(reference)
        if match is not None or how == "left":
            result[key] = joiner(value, match)
    return result
