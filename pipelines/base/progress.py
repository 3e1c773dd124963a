"""Shows the phase of a run and its seconds, in one line of a terminal or as log lines."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final, TextIO

LINE_SECONDS: Final = {True: 0.5, False: 30.0}
"""The seconds between two lines, by whether the stream is a terminal."""


class Progress:
    """Times the phases of a run and shows the current one.

    On a terminal one line shows the present one, its seconds, and what ``detail`` says; elsewhere there is a
    line of that every 30 seconds.

    A phase without ``detail`` has no thread for it, so that a process may be forked in it.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self.seconds: dict[str, float] = {}
        """The seconds of each phase, all its times together."""

    @contextmanager
    def phase(self, name: str, detail: Callable[[], str] | None = None) -> Iterator[None]:
        """Times the block as a phase."""
        begin = self._clock()
        done = threading.Event()
        shown = threading.Thread(target=self._show, args=(name, begin, detail, done), daemon=True)
        if detail:
            shown.start()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - begin
            done.set()
            if shown.ident is not None:
                shown.join()
                if self._stream.isatty():
                    self._say("\r\x1b[K")

    def _show(self, name: str, begin: float, detail: Callable[[], str], done: threading.Event) -> None:
        at_terminal = self._stream.isatty()
        while not done.wait(LINE_SECONDS[at_terminal]):
            details = detail()
            line = f"{name}: {self._clock() - begin:.0f} s{f', {details}' if details else ''}"
            self._say(f"\r\x1b[K{line[: get_terminal_size().columns - 1]}" if at_terminal else f"{line}\n")

    def _say(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def counted(count: int, what: str) -> str:
    """A count with its noun; ``what`` is the singular.

    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
