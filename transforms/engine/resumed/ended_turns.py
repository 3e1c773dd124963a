"""The records of turns that have ended, for the process that commits the run: in its memory where it had the turn itself, else
in files.
"""

import os
import weakref
from collections.abc import Collection
from uuid import uuid4

from beam_joins.transforms.engine.resumed.state_files import StateFiles

_here: dict[str, dict[str, bytes]] = {}
"""The records of the runs that this process commits."""


class EndedTurns:
    """The records of the turns of a run that this process commits, by names of files; copies of it go to workers."""

    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._pid, self._token = os.getpid(), uuid4().hex
        _here[self._token] = {}
        weakref.finalize(self, _here.pop, self._token, None)

    @property
    def are_here(self) -> bool:
        """Whether this process commits the run: it reaches all files, and needs no files for the records."""
        return os.getpid() == self._pid and self._token in _here

    def put(self, name: str, content: bytes) -> None:
        """Add a record, in place of another one of this name."""
        if self.are_here:
            _here[self._token][name] = content
        else:
            self._files.put(name, content)

    def clear(self) -> None:
        """Forget the records in memory, as the run begins again."""
        _here[self._token].clear()

    def names(self) -> Collection[str]:
        """The names of the records in memory."""
        return _here.get(self._token, {}).keys()

    def get(self, name: str) -> bytes:
        """A record; raises ``FileNotFoundError`` if it is gone."""
        here = _here.get(self._token, {}).get(name)
        return self._files.get(name).to_pybytes() if here is None else here
