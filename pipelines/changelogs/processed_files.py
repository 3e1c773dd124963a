"""Decides which files of a changelog are new and complete: each is read once, and must not change afterwards."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import xxhash

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import is_local, matching
from beam_joins.pipelines.changelogs.snapshot_times import times_in_paths
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.transforms.connect.files import open_file

_AT_A_TIME: Final = 1 << 20
_DIGEST: Final = "digest:"


class Content(NamedTuple):
    """A file's content when it was read: its size, the time of its last write, the XXH3 checksum of its bytes or, behind
    ``digest:``, the digest that its store has of them, and when a local file was put there or changed, which no program sets
    (0: not known).
    """

    bytes: int
    written: int
    checksum: str
    changed: int = 0


class NewFiles:
    """Decides which files are whole: those whose size and time have not changed since the look before.

    >>> from dataclasses import replace
    >>> from beam_joins.pipelines.formats.changelog_columns import enveloped
    >>> from beam_joins.pipelines.formats.csv import CsvReader
    >>> growing, whole = (File(path=f"{n}.csv", bytes=n, shown="", reader=CsvReader(), written=7) for n in (1, 2))
    >>> arrivals = NewFiles()
    >>> arrivals.whole("orders", [growing, whole], enveloped("orders"))
    []
    >>> arrivals.next_look()
    >>> [file.path for file in arrivals.whole("orders", [replace(growing, bytes=9, written=8), whole], enveloped("orders"))]
    ['2.csv']
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}
        self._now: dict[str, tuple[int, int]] = {}

    def next_look(self) -> None:
        """The files of calls so far are those of the look before."""
        self._before, self._now = self._now, {}

    @property
    def has_unknown(self) -> bool:
        """Whether there are files that the look before has not seen."""
        return not self._now.keys() <= self._before.keys()

    def has_seen(self, files: Iterable[File]) -> bool:
        """Whether a call of this look had all these files."""
        return self._now.keys() >= {file.path for file in files}

    def whole(self, name: str, files: Sequence[File], columns: Columns) -> list[File]:
        """The files among all present ones of the changelog ``name`` that have not changed since the look before; of a snapshot of
        several files all, or none.
        """
        self._now |= {file.path: (file.bytes, file.written) for file in files}
        growing = [file for file in files if self._before.get(file.path) != self._now[file.path]]
        times, paths = times_in_paths(name, growing, columns), {file.path for file in growing}
        return [file for file in files if file.path not in paths and times.isdisjoint(times_in_paths(name, [file], columns))]


class SeenFiles:
    """The files of one changelog that runs have read, by their absolute paths; they may be deleted later.

    >>> seen = SeenFiles("orders", {"/in/1.csv": (3, 17, "78af5f94892f3950")})
    >>> from beam_joins.pipelines.formats.csv import CsvReader
    >>> files = [File(path=f"/in/{n}.csv", bytes=3, shown="", reader=CsvReader(), written=17) for n in (1, 2)]
    >>> [file.path for file in seen.unseen(files)]
    ['/in/2.csv']
    """

    def __init__(self, name: str, stored: dict[str, Any] | None = None) -> None:
        """``stored`` is the result of :meth:`stored` in the last run."""
        self._name = name
        self._contents = {path: Content(*content) for path, content in (stored or {}).items()}

    def __len__(self) -> int:
        return len(self._contents)

    def stored(self) -> dict[str, Any]:
        """All remembered files, as JSON values."""
        return {path: list(content) for path, content in self._contents.items()}

    def unseen(self, files: Sequence[File], replaceable: Collection[str] = ()) -> list[File]:
        """The files that no run has read, and those of the ``replaceable`` paths whose content has changed since.

        Only a file with another time, or a file that was put there since, is read again to be compared. Raises
        InputError for one of another path whose content has changed since a run has read it.
        """
        return [
            file for file in files if not self._is_known(file, may_change=file.path in replaceable, of_snapshots=bool(replaceable))
        ]

    def _is_known(self, file: File, *, may_change: bool, of_snapshots: bool) -> bool:
        earlier = self._contents.get(file.path)
        if earlier is not None and ((file.bytes, file.written) != earlier[:2] or earlier.changed not in (0, _changed(file.path))):
            if file.bytes != earlier.bytes or self._checksum(file, earlier) != earlier.checksum:
                if may_change:
                    return False
                again = "or read all snapshots again, in the order of their times (--read-again, in Python --beam_joins_read_again)"
                remedy = again if of_snapshots else "and new records into a new file"
                raise InputError(f"{self._name}: {file.shown} has changed since a run has read it: put it back as it was, {remedy}")
            self._contents[file.path] = earlier._replace(written=file.written, changed=_changed(file.path))
        return earlier is not None

    def add(self, files: Iterable[File]) -> None:
        """Remembers the content of files that are about to be read."""
        for file in files:
            changed = _changed(file.path)
            self._contents[file.path] = Content(file.bytes, file.written, self._checksum(file), changed)

    def require_unchanged(self, files: Iterable[File]) -> None:
        """Raise InputError for a file that was written or replaced while it was read."""
        for file in files:
            before, now = self._contents[file.path], next(iter(matching(file.path)), None)
            is_same = now is not None and (now.bytes, now.written, now.digest) == (*before[:2], file.digest)
            if not is_same or (before.changed not in (0, _changed(file.path)) and self._checksum(file) != before.checksum):
                raise InputError(
                    f"{self._name}: {file.shown} was written or removed while it was read: run again when it is whole, "
                    "and have files get"
                    " their names when they are"
                )

    def _checksum(self, file: File, as_of: Content | None = None) -> str:
        """The checksum of a file, of the same kind as an earlier one."""
        if file.digest and (as_of is None or as_of.checksum.startswith(_DIGEST)):
            return _DIGEST + file.digest
        return _read_checksum(self._name, file)


def _changed(path: str) -> int:
    """The time when a local file was put there or changed; 0 if it is gone or in an object store."""
    try:
        return os.stat(path).st_ctime_ns if is_local(path) else 0
    except OSError:
        return 0


def _read_checksum(name: str, file: File) -> str:
    digest = xxhash.xxh3_64()
    try:
        with open_file(file.path) as opened:
            while data := opened.read(_AT_A_TIME):
                digest.update(data)
    except OSError as error:
        raise InputError(f"{name}: cannot read {file.shown}: {error.strerror or error}") from error
    return digest.hexdigest()
