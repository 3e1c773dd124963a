"""Ends a run in good order on Ctrl-C and SIGTERM."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_LOOK_SECONDS: Final = 0.1
_LEAVE_SECONDS: Final = 10.0


class Interrupted(KeyboardInterrupt):
    """Raised when a signal arrives.

    Not a plain KeyboardInterrupt: if one leaves ``exec`` of a text, which dataclasses use, CPython remembers
    it and exits by SIGINT, even if it was caught.
    """


class Interruption:
    """The signal that has arrived (``by``), if any; ``exit_code`` is then what a shell expects.

    ``at_second``: the first one is only remembered. ``sentence``: what to say where one has ended the
    program.
    """

    by: signal.Signals | None = None
    sentence = "interrupted; no results were written"
    at_second = False
    has_raised = False
    is_later = False

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until a signal arrives."""
        until = time.monotonic() + seconds
        while not self.by and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))  # a lock that the handler would have to open may be held when it is called

    @contextmanager
    def later(self, is_later: bool = True) -> Iterator[None]:
        """Defers signals until the block ends; with ``is_later=False`` it does not."""
        before, self.is_later = self.is_later, is_later
        try:
            yield
        finally:
            self.is_later = before

    @property
    def exit_code(self) -> int:
        """128 and the signal's number; 0 if none has come."""
        return 128 + self.by if self.by else 0


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Raises :class:`Interrupted`, a KeyboardInterrupt, in the block on SIGINT and SIGTERM, and remembers the
    signal.

    Beam turns whatever is raised in a function of the pipeline into another exception, so that the type does
    not tell.

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


def leave_threads_behind(code: int) -> None:
    """The process ends with the code ten seconds after its main thread, though other threads go on: one of
    them may wait for what a signal has cut short.
    """

    def leave() -> None:
        threading.main_thread().join()
        time.sleep(_LEAVE_SECONDS)
        sys.stdout.flush()
        os._exit(code)

    threading.Thread(target=leave, name="leave_threads_behind", daemon=True).start()
