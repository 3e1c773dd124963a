"""Pickled values, which run code when they are read: refused unless a pipeline accepts them."""

import pickle
from typing import Any

from beam_joins.errors import CorruptData

OPTION = "--beam_joins_pickled_values"
_accepted: set[str] = set()


def accept() -> None:
    """Allow pickles in this process, and in the workers that get steps or coders from it."""
    _accepted.add(OPTION)


def are_accepted() -> bool:
    """Whether pickles are allowed."""
    return bool(_accepted)


def write(value: Any) -> bytes:
    """The pickled value."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def read(data: bytes | memoryview) -> Any:
    """The value; raises :class:`CorruptData` if pickles are not accepted."""
    if not _accepted:
        raise CorruptData(
            f"a value that is pickled, and pickles are not accepted: {OPTION} allows them, if you trust whoever has written it"
        )
    return pickle.loads(data)
