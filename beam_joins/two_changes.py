"""What is wrong with a collection of changes that is no table: two changes of one row at one position."""

from collections.abc import Iterable
from typing import Any

from beam_joins.record import Record


class TwoChanges(ValueError):
    """A table has two changes of ``key`` at ``position``; ``input`` numbers the operator's input that it is.

    A core or a kernel raises it with the key as it has it, encoded; the transform around it with the key as the user has it.

    >>> str(TwoChanges("k", 5))
    "the table has two changes of key 'k' at position 5: make it with TableFromChangelog, which keeps one"
    """

    def __init__(self, key: Any, position: int, input: int = 0) -> None:
        super().__init__(key, position, input)
        self.key = key
        self.position = position
        self.input = input

    def __str__(self) -> str:
        return f"the table has two changes of key {self.key!r} at position {self.position}: make it with TableFromChangelog, which keeps one"


def require_one_change(records: Iterable[Record]) -> None:
    """Raise :class:`TwoChanges` if tables' records of one position have two of one row.

    >>> require_one_change([Record(b"k", b"v", 1, 5), Record(b"k", b"v", 1, 5, input=1)])
    """
    seen: set[tuple[int, bytes]] = set()
    for record in records:
        row = record.input, record.key
        if row in seen:
            raise TwoChanges(record.key, record.position, record.input)
        seen.add(row)
