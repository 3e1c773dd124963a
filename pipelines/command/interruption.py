"""Ctrl-C and SIGTERM end a run in good order, whatever code they meet."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_LOOK_SECONDS: Final = 0.1


class Interrupted(KeyboardInterrupt):
    """A signal has come.

    Not a plain KeyboardInterrupt: if one leaves ``exec`` of a text, which dataclasses use, CPython remembers it and exits by SIGINT, even if it was caught.
    """


class Interruption:
    """Which signal has come (``by``), if any; ``exit_code`` is then what a shell expects. ``at_second``: the first one is only remembered."""

    by: signal.Signals | None = None
    at_second = False
    has_raised = False
    is_later = False

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes."""
        until = time.monotonic() + seconds
        while not self.by and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))  # a lock that the handler would have to open may be held when it is called

    @contextmanager
    def later(self) -> Iterator[None]:
        """Within the block a signal is only remembered."""
        self.is_later = True
        try:
            yield
        finally:
            self.is_later = False

    @property
    def exit_code(self) -> int:
        """128 and the signal's number; 0 if none has come."""
        return 128 + self.by if self.by else 0


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within the block SIGINT and SIGTERM raise :class:`Interrupted`, a KeyboardInterrupt, and are remembered.

    Beam turns whatever is raised in a function of the pipeline into another exception, so that the type does not tell.

    >>> with interruptible() as interruption:
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except KeyboardInterrupt:
    ...         print(interruption.exit_code)
    143
    """
    interruption = Interruption()

    def interrupt(number: int, frame: FrameType | None) -> None:
        is_first = interruption.by is None
        interruption.by = signal.Signals(number)
        if not interruption.is_later and not (interruption.at_second and is_first):
            interruption.has_raised = True
            raise Interrupted

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
