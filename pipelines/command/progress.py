"""What a run is doing and for how long: seconds per phase, and a line on the terminal while it lasts."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Times phases; on a terminal it shows the present one, its seconds, and what ``detail`` says, twice a second.

    A phase without ``detail`` has no thread for it, so that a process may be forked in it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.seconds: dict[str, float] = {}
        """How long each phase took, all its times together."""

    @contextmanager
    def phase(self, name: str, detail: Callable[[], str] | None = None) -> Iterator[None]:
        """The phase lasts as long as the block."""
        begin = time.monotonic()
        done = threading.Event()
        shown = threading.Thread(target=self._show, args=(name, begin, detail, done), daemon=True)
        if detail and self._stream.isatty():
            shown.start()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin
            done.set()
            if shown.ident is not None:
                shown.join()
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def _show(self, name: str, begin: float, detail: Callable[[], str], done: threading.Event) -> None:
        while not done.wait(0.5):
            said = detail()
            self._stream.write(f"\r\x1b[K{name}: {time.monotonic() - begin:.0f} s{f', {said}' if said else ''}")
            self._stream.flush()
