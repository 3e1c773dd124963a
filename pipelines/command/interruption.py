"""Ctrl-C and SIGTERM end a run in good order, whatever code they meet."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Which signal has come (``by``), if any; ``exit_code`` is then what a shell expects."""

    by: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """128 and the signal's number; 0 if none has come."""
        return 128 + self.by if self.by else 0


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within the block SIGINT and SIGTERM raise KeyboardInterrupt, and are remembered.

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
        interruption.by = signal.Signals(number)
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
