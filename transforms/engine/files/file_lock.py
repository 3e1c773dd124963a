"""The operating system's lock on a file or a folder of this machine, for state folders and for the claims on
outputs.
"""

import fcntl
import os


class FileLock:
    """A lock on a folder, or on a file, which is made; it ends with the process, and a process that is forked
    does not have it.

    Raises ``OSError`` if the file cannot be opened; with ``is_folder`` nothing is made.
    """

    def __init__(self, path: str, *, is_folder: bool = False) -> None:
        of_folder = is_folder or os.path.isdir(path)
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY if of_folder else os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        _open.add(self)

    def take(self, *, wait: bool) -> None:
        """Keep other holders away; raises ``OSError`` if the lock is held and ``wait`` is false, or if the
        filesystem has no locks.
        """
        fcntl.flock(self._handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Let others take it."""
        if self in _open:
            _open.discard(self)
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)


_open: set[FileLock] = set()
"""The locks that this process has opened."""


def _leave_locks() -> None:
    # a worker may live on for seconds when the process that forked it has been killed
    while _open:
        os.close(_open.pop()._handle)  # which does not take it from its holder


os.register_at_fork(after_in_child=_leave_locks)
