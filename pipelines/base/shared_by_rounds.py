"""Things that the rounds of ``--follow`` share, as making them anew takes longer than a small round."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Protocol, TypeVar


class Shared(Protocol):
    """A thing that rounds share."""

    def close(self) -> None:
        """Give back what it holds, behind the last round."""


T = TypeVar("T", bound=Shared)
_rounds: Final = list[tuple[int, dict[type[Any], Any]]]()
"""The process whose rounds are under way, and what they share; at most one at a time."""


@contextmanager
def rounds_share() -> Iterator[None]:
    """The block has the rounds of this process."""
    shared = dict[type[Any], Any]()
    _rounds.append((os.getpid(), shared))
    try:
        yield
    finally:
        _rounds.pop()
        with ExitStack() as closing:
            for each in shared.values():
                closing.callback(each.close)


def shared_by_rounds(kind: type[T]) -> T | None:
    """The instance of a class that the rounds of this process share, which is made when it is asked for first; ``None`` where a run
    stands alone, and in a fork, which has no use for what another process holds.

    >>> class Held:
    ...     def close(self) -> None:
    ...         print("closed")
    >>> with rounds_share():
    ...     shared_by_rounds(Held) is shared_by_rounds(Held)
    True
    closed
    >>> shared_by_rounds(Held)
    """
    if not _rounds or _rounds[-1][0] != os.getpid():
        return None
    shared = _rounds[-1][1]
    if kind not in shared:
        shared[kind] = kind()
    made: T = shared[kind]
    return made
