"""Pickles, which run code when they are read: nothing is written or read so, unless a pipeline has been told to."""

import pickle
from typing import Any

from beam_joins.corrupt import CorruptData

OPTION = "--beam_joins_pickled_values"
_said: set[str] = set()


def accept() -> None:
    """Write and read pickles in this process from now on; the workers that get steps or coders from here do so, too."""
    _said.add(OPTION)


def are_accepted() -> bool:
    """Whether somebody has said so."""
    return bool(_said)


def write(value: Any) -> bytes:
    """The pickled value."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def read(data: bytes | memoryview) -> Any:
    """The value; raises :class:`CorruptData` if pickles are not accepted."""
    if not _said:
        raise CorruptData(
            f"a value that is pickled, and pickles are not accepted: {OPTION} allows them, if you trust whoever has written it"
        )
    return pickle.loads(data)
