"""The operator of a replay, which gets the rows of a partition whose turn has come, and the turn."""

from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.keys.key_columns import Ints
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter


class Turn(NamedTuple):
    """A turn of a partition: the only one of bounded input, or one of many.

    * ``state``: the state that the operator returned after the turn before, ``None`` if there was none.
    * ``frontier``: the largest position of earlier turns, of this and of other partitions; rows at or before
      it are late. ``None`` if there was no turn.
    * ``until``: all rows of later turns have timestamps after it, ``None`` if that is not known;
      :data:`~beam_joins.kernels.stream_time.ALWAYS` if there is no later turn, so that nothing needs to be
      remembered.
    * ``horizon``: deletes with earlier timestamps are not remembered any more; ``None``: all deletes are
      remembered.
    * ``closed``: ``until`` of the turn before, ``None`` if there was none or it had none: the rows
      that a stream's record up to it could meet may be gone.
    * ``came_at``: gives the positions that rows of tables had before they were moved behind the frontier,
      ``None`` if none was moved.
    * ``forgotten``: the largest position of a delete that earlier runs have forgotten, in any partition.
    """

    state: Any = None
    frontier: int | None = None
    until: int | None = ALWAYS
    horizon: int | None = None
    closed: int | None = None
    came_at: Callable[[Ints], Ints] | None = None
    forgotten: int | None = None

    @property
    def is_only(self) -> bool:
        """Whether all rows that there ever are have their turn at once."""
        return self.frontier is None and self.until == ALWAYS

    @property
    def passed(self) -> int | None:
        """The position up to which a record is late for a transform that remembers records for some time
        only.
        """
        return max((each for each in (self.frontier, self.closed) if each is not None), default=None)


Operator = Callable[[dict[str, pa.Table], BlockWriter, Turn], Generator[Any, None, Any]]
"""Gives the elements that follow from the rows of a partition, by the inputs that they are of; rows for
another replay go into the writer.

The generator returns the state for the next turn: a ``NamedTuple`` of
:class:`~beam_joins.tables.arrangement.Arrangement`, ``pyarrow.Table``, ``int`` or ``None``, or ``None`` for nothing.
"""


def in_time(rows: pa.Table, frontier: int | None, meets_by: str = "key") -> tuple[pa.Table, pa.Table]:
    """The records of a stream behind the frontier, and the late ones.

    Records without a key meet nothing; they have no position and are never late.

    >>> rows = pa.table({"key": ["a", "a", None], "position": [3, 7, 0]})
    >>> [part["position"].to_pylist() for part in in_time(rows, 5)]
    [[7, 0], [3]]
    """
    if frontier is None:
        return rows, rows.slice(0, 0)
    is_late = pc.and_(pc.less_equal(rows["position"], frontier), rows[meets_by].is_valid())
    return rows.filter(pc.invert(is_late)), rows.filter(is_late)


def largest_of(tables: Iterable[pa.Table], column: str) -> int | None:
    """The largest number in a column of the rows that meet others: rows without a key have no position."""
    maxima = []
    for rows in tables:
        if column in rows.column_names and len(rows):
            meets = [valid(combine_chunks(rows[by])) for by in ("key", "reference", "group") if by in rows.column_names]
            numbers = integers(rows[column])[np.logical_and.reduce(meets)]
            maxima += [int(numbers.max())] if len(numbers) else []
    return max(maxima, default=None)
