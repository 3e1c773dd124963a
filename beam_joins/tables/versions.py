"""The versions of rows, looked up by key and position."""

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, integers, ordered, search, starts, valid
from beam_joins.elements.change import two_changes
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.keys.opaque import python_keys

FOREVER = np.iinfo(np.int64).max


class Places:
    """Rows sorted by a code and a position, to be searched by both."""

    def __init__(self, code: Ints, position: Ints) -> None:
        self._low, self._high = (int(position.min()), int(position.max())) if len(position) else (0, 0)
        # (code, position) as one number: of positions themselves if 64 bits have room for them, of their
        # ranks if not
        self._codes = 1 + int(code.max(initial=0))
        room = (self._codes + 1) * (self._high - self._low + 2) < FOREVER and self._low > -FOREVER
        self._positions = None if room else np.unique(position)
        self._places = self._place(code, position)

    def until(self, code: Ints, position: Ints) -> Ints:
        """The index after the last row of a code at or before a position."""
        bounded = np.minimum(code, self._codes)
        return search(self._places, self._place(bounded, position), side="right")

    def before(self, code: Ints, position: Ints) -> Ints:
        """The index after the last row of a code before a position."""
        is_behind = position > self._low
        return self.until(np.where(is_behind, code, code - 1), np.where(is_behind, position - is_behind, FOREVER))

    def _place(self, code: Ints, position: Ints) -> Ints:
        if self._positions is None:
            return code * (self._high - self._low + 2) + (np.clip(position, self._low - 1, self._high) - (self._low - 1))
        return code * (len(self._positions) + 1) + search(self._positions, position, side="right")


class Versions:
    """The versions of right rows, sorted by key and position; index -1 stands for a missing row."""

    def __init__(self, code: Ints, rows: pa.Table) -> None:
        position = integers(rows["position"])
        by = ordered(code, position)
        require_one_change(code[by], position[by], rows["key"], by)
        self.index = np.append(by, -1)
        self.code = np.append(code[by], -1)
        self.position = np.append(position[by], 0)
        self.timestamp = np.append(integers(rows["timestamp"])[by], 0)
        self.exists = np.append(valid(combine_chunks(rows["value"]))[by], False)
        self.until = Places(code[by], position[by]).until
        """The index after the last change of a key at or before a position."""

    def now(self, code: Ints, position: Ints) -> tuple[Ints, Ints]:
        """The index of the last change of a key at or before a position (-1: none), and the index after it."""
        behind = self.until(code, position)
        return np.where(self.code[behind - 1] == code, behind - 1, -1), behind

    def toggles(self, index: Ints) -> Bools:
        """Whether a change inserts or deletes the row."""
        before = np.maximum(index, 0) - 1
        toggled: Bools = self.exists[index] != (self.exists[before] & (self.code[before] == self.code[index]))
        return toggled


def as_of(left: pa.Table, right: pa.Table) -> Ints:
    """For rows with a ``reference`` and a ``position`` the index of the right row as of that position; -1 if
    there is none.

    A change of the right row at the same position is seen.
    """
    left_code, right_code = factorize(combine_chunks(left["reference"]), combine_chunks(right["key"]))
    rights = Versions(right_code, right)
    now = rights.now(left_code, integers(left["position"]))[0]
    return np.where(rights.exists[now], rights.index[now], -1)


def require_one_change(code: Ints, position: Ints, keys: pa.Array, by: Ints) -> None:
    """Raise ``ValueError`` if two ordered rows have one code and one position; ``by`` are their indices among
    the ``keys``.
    """
    alone = starts(code, position)
    if not alone.all():
        again = int(np.argmin(alone))
        key = combine_chunks(keys).slice(int(by[again]), 1)
        raise two_changes(python_keys(key)[0], int(position[again]))
