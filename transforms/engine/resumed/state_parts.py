"""The state of a partition, in parts by the places of rows, so that a turn has only the part in memory that
its rows meet.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from beam_joins.coders.snapshot import NO_SNAPSHOT, Described, Snapshot, fields_of, files_of, tables_of
from beam_joins.keys.key_columns import Bools
from beam_joins.tables.arrangement import Arrangement
from beam_joins.transforms.engine.blocks.places import SPACE
from beam_joins.transforms.engine.turns.parts import ROUTED_BY, Held, places_of

_SHARE: Final = 4  # of the memory that a turn may take: merged with what is new, a part is in memory several times
_TOO_LARGE: Final = 2  # times that


class StateParts:
    """The parts of a partition's state, each with the place up to which its rows lie, read and written one after
    the other.

    ``memory`` is how many bytes a turn may take; ``read`` gives a part, ``write`` describes one in place of the
    snapshot that it was.
    """

    def __init__(
        self,
        described: Sequence[tuple[int, Described | None]],
        memory: int,
        read: Callable[[Described | None], Snapshot],
        write: Callable[[Any, Snapshot], Described | None],
    ) -> None:
        self._most_bytes = memory // _SHARE
        self._read, self._write = read, write
        self._left = [(end, part) for end, part in described or [(SPACE, None)]]
        self._written = list[tuple[int, Described | None]]()
        self._snapshot: Snapshot | None = None
        self._rest: Any = None
        self._pieces = list[tuple[int, Any]]()

    @property
    def held(self) -> list[Held]:
        """The parts before the first turn."""
        sizes = [(end, sum(file["bytes"] for file in files_of(part))) for end, part in self._left]
        return [Held(end, size, -(-size // self._most_bytes) if size > _TOO_LARGE * self._most_bytes else 1) for end, size in sizes]

    def up_to(self, end: int) -> Any:
        """The state of the places up to ``end``, from where the turn before ended, or its part began."""
        while self._left[0][0] < end:
            self._leave()
        if self._snapshot is None:
            self._snapshot = self._read(self._left[0][1])
            self._rest = self._snapshot.state
        if end == self._left[0][0]:
            return self._rest
        state, self._rest = split(self._rest, end)
        return state

    def remember(self, end: int, state: Any) -> None:
        """Keep the new state of these places."""
        if self._pieces and _bytes(self._pieces[-1][1]) + _bytes(state) <= self._most_bytes:
            state = joined(self._pieces.pop()[1], state)
        elif self._pieces:
            self._write_piece()
        self._pieces.append((end, state))
        if end == self._left[0][0]:
            self._leave()

    def all_written(self) -> list[tuple[int, Described | None]]:
        """The parts after the last turn."""
        while self._left:
            self._leave()
        return self._written

    def _leave(self) -> None:
        """Go on to the next part: the rest of this one, which had no turn, stays as it was."""
        end = self._left[0][0]
        if self._snapshot is not None and self._pieces[-1][0] < end:
            self.remember(end, self._rest)  # which leaves the part
            return
        part = self._left.pop(0)
        if self._snapshot is None:
            self._written.append(part)
        else:
            self._write_piece()
            self._snapshot = self._rest = None

    def _write_piece(self) -> None:
        end, state = self._pieces.pop()
        self._written.append((end, self._write(state, self._snapshot or NO_SNAPSHOT)))


def split(state: Any, place: int) -> tuple[Any, Any]:
    """The state of the rows before a place, and that of the others; fields without rows are in both.

    >>> rows = pa.table({"order": [b"a", b"b", b"c"], "key": ["a", "b", "c"]})
    >>> one, other = split(Arrangement().replaced(pa.array([], pa.binary()), rows), SPACE // 2)
    >>> len(one.rows()), len(other.rows()), split(None, 7)
    (2, 1, (None, None))
    """

    def is_before(rows: pa.Table) -> Bools:
        before: Bools = places_of(rows) < place
        return before

    return apart(state, is_before)


def apart(state: Any, is_chosen: Callable[[pa.Table], Bools]) -> tuple[Any, Any]:
    """The state of the rows for which a function of them is true, and that of the others; fields without rows are in both."""
    if state is None:
        return None, None
    fields = [_split(field, is_chosen) for field in fields_of(state)]
    one, other = (_like(state, [field[side] for field in fields]) for side in (0, 1))
    return one, other


def joined(one: Any, other: Any) -> Any:
    """One state of those of rows with different places.

    >>> rows = pa.table({"order": [b"a", b"b"], "key": ["a", "b"]})
    >>> halves = split(Arrangement().replaced(pa.array([], pa.binary()), rows), SPACE // 2)
    >>> [row["key"] for row in joined(*halves).rows()]
    ['a', 'b']
    """
    if one is None or other is None:
        return one if other is None else other
    return _like(one, [_joined(*fields) for fields in zip(fields_of(one), fields_of(other), strict=True)])


def _like(state: Any, fields: Sequence[Any]) -> Any:
    return fields[0] if isinstance(state, Arrangement) else type(state)(*fields)


def _split(field: Any, is_chosen: Callable[[pa.Table], Bools]) -> tuple[Any, Any]:
    if isinstance(field, Arrangement):
        return field.split(is_chosen)
    if not _is_of_rows(field):
        return field, field
    chosen = is_chosen(field)
    return field.filter(pa.array(chosen)), field.filter(pa.array(~chosen))


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, Arrangement):
        return one.joined(other)
    if _is_of_rows(one) and _is_of_rows(other):
        return pa.concat_tables([one, other], promote_options="default").combine_chunks()
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return other if one is None else one


def _is_of_rows(field: Any) -> bool:
    return isinstance(field, pa.Table) and any(name in field.column_names for name in ROUTED_BY)


def _bytes(state: Any) -> int:
    return sum(table.nbytes for table in tables_of(state))
