"""The files of a folder, on any filesystem that Beam knows: local ones are mapped into memory, and replaced
atomically.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from xxhash import xxh3_64_hexdigest

from beam_joins.errors import CorruptData, OutputError, StateRefused, Unavailable
from beam_joins.transforms.engine.files.claim import Claim, claim_at, end_lease, new_claim, take_lease
from beam_joins.transforms.engine.files.file_lock import FileLock
from beam_joins.transforms.engine.files.reachability import unreachable
from beam_joins.transforms.engine.files.stored_files import (
    PART,
    cause,
    exists,
    files_below,
    is_remote,
    read_version,
    read_whole,
    remove_files,
    write_over,
    write_whole,
)

_CHECKSUMS = 1 << 14
_AT_ONCE = 8
"""The number of files that are read or written side by side, where each takes its time."""
_BYTES_AT_ONCE = 64 << 20
"""The bytes that wait to be written to a store, unless a file has more."""
_LOCK = "lock"
_T = TypeVar("_T")
_R = TypeVar("_R")


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {cause(error)}") from error


class StateFiles:
    """Files by their names, paths relative to the folder.

    A lock keeps other processes and pipelines away; in a store it is a lease.
    """

    def __init__(self, root: str) -> None:
        self.is_local = not is_remote(root)
        self.root = os.path.abspath(root) if self.is_local else root.rstrip("/")
        self._lock: FileLock | None = None
        self._lease: Claim | None = None

    def __reduce__(self) -> Any:
        return StateFiles, (self.root,)

    def path(self, name: str) -> str:
        """The path of a file."""
        path: str = os.path.join(self.root, name) if self.is_local else FileSystems.join(self.root, *name.split("/"))
        return path

    def put(self, name: str, content: Any) -> None:
        """Write a file; see :func:`write_whole`. Raises :class:`OutputError`."""
        with _writing(self.path(name)):
            write_whole(self.path(name), content)

    def put_over(self, name: str, content: bytes, version: str | None) -> bool:
        """Write a file whose version is still this one, as :meth:`text_version` gives it; gives whether it was. Raises
        :class:`OutputError`.
        """
        if self.is_local:  # under the lock nobody else writes
            self.put(name, content)
            return True
        with _writing(self.path(name)):
            return write_over(self.path(name), content, version)

    @contextmanager
    def putting(self) -> Iterator[Callable[[str, pa.Buffer], None]]:
        """Within the block, a function that writes files, in a store side by side: all are there at the end of the block.

        Raises :class:`OutputError`.
        """
        if self.is_local:
            yield self.put
            return
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            under_way = deque[tuple[Future[None], int]]()

            def put(name: str, content: pa.Buffer) -> None:
                while under_way and content.size + sum(size for _, size in under_way) > _BYTES_AT_ONCE:
                    under_way.popleft()[0].result()
                under_way.append((threads.submit(self.put, name, content), content.size))

            yield put
            for each, _ in under_way:
                each.result()

    def parts(self) -> list[str]:
        """The names of partly written files of the folder itself, left by processes that were killed."""
        return [name for name in os.listdir(self.root) if name.endswith(PART)] if self.is_local else []

    def sync(self, names: Iterable[str]) -> None:
        """Have local files, and the folders that they are in, survive a loss of power."""
        if self.is_local:
            paths = {path for name in names for path in (self.path(name), os.path.dirname(self.path(name)))}
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                for _ in threads.map(_sync, paths):
                    pass

    def get(self, name: str) -> pa.Buffer:
        """The content of a file; raises ``OSError`` if it does not exist."""
        path = self.path(name)
        if not self.is_local:
            if (content := read_whole(path)) is None:
                raise FileNotFoundError(errno.ENOENT, "it is gone", path)
            return pa.py_buffer(content)
        if not os.path.getsize(path):  # cannot be mapped
            return pa.py_buffer(b"")
        with pa.memory_map(path) as file:
            return file.read_buffer()

    def get_all(self, names: Sequence[str]) -> Iterator[pa.Buffer]:
        """The contents of files, in their order, those of a store read side by side; raises ``OSError``."""
        return self.side_by_side(self.get, names)

    def side_by_side(self, read: Callable[[_T], _R], each: Sequence[_T]) -> Iterator[_R]:
        """What a function that reads files gives for each of several, in their order; in a store it is called side by side."""
        if self.is_local or len(each) <= 1:
            yield from map(read, each)
            return
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            yield from threads.map(read, each)

    def checksum(self, name: str, content: pa.Buffer) -> str:
        """The xxh3 of a file's content. A process reads the whole of a local file for it once, as long as the
        file is the same: later rounds in one process read only the state that they look up.
        """
        if not self.is_local:
            return xxh3_64_hexdigest(content)
        path = self.path(name)
        now = os.stat(path)
        return _checksum(path, now.st_ino, now.st_mtime_ns, now.st_size)

    def text(self, name: str) -> str | None:
        """The content of a file as text; ``None`` if it does not exist.

        Raises :class:`CorruptData` for content that is no text.
        """
        return self.text_version(name)[0]

    def text_version(self, name: str) -> tuple[str | None, str | None]:
        """The content of a file as text, and its version in a store; ``None`` if it does not exist.

        Raises :class:`CorruptData` for content that is no text.
        """
        path = self.path(name)
        content, version = (read_whole(path), None) if self.is_local else read_version(path) or (None, None)
        try:
            return None if content is None else content.decode(), version
        except UnicodeDecodeError as error:
            raise CorruptData(f"{path} has changed since it was written: it is no text") from error

    def exists(self, name: str) -> bool:
        """Whether a file of this name exists. Raises :class:`OutputError` if the filesystem does not say it."""
        try:
            return exists(self.path(name))
        except OSError as error:
            raise OutputError(f"cannot look for {self.path(name)}: {cause(error)}") from error

    def names(self, folder: str) -> list[str]:
        """The names of all files in a folder below this one."""
        root = self.path(folder)
        if not self.is_local:
            return [folder + path.removeprefix(root) for path in files_below(root)]
        return sorted(os.path.relpath(os.path.join(parent, name), self.root) for parent, _, files in os.walk(root) for name in files)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, and the local folders that are empty then."""
        paths = [self.path(name) for name in names]
        if not self.is_local:
            remove_files(paths)
            return
        for path in paths:
            with suppress(FileNotFoundError):  # of a disk that several machines share
                os.remove(path)
            folder = os.path.dirname(path)
            with suppress(OSError):  # there are others in it
                while os.path.dirname(folder).startswith(f"{self.root}{os.sep}"):
                    os.rmdir(folder)
                    folder = os.path.dirname(folder)

    def lock(self) -> None:
        """Keep other runs away; raises :class:`StateRefused` if another run holds the lock, if anybody may write there, or if the
        filesystem does not answer.
        """
        if not self.is_local:
            self._take_lease()
        if not self.is_local or self._lock is not None:
            return
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StateRefused(f"{self.root} cannot be the folder of a state ({cause(error)}): name another one") from error
        if os.stat(self.root).st_mode & stat.S_IWOTH:
            raise StateRefused(f"anybody may write into {self.root}, and what is there is trusted: chmod o-w {self.root}")
        lock = FileLock(self.path(_LOCK))
        try:
            lock.take(wait=False)
        except OSError:
            lock.close()
            raise StateRefused(f"{self.root} is in use by another run: wait for its end, or give each its own folder") from None
        self._lock = lock

    def require_reachable(self) -> None:
        """Raise :class:`StateRefused` if nothing can be there, and :class:`Unavailable` if the filesystem does not answer."""
        if not self.is_local and (reason := unreachable(self.root)):
            kind = Unavailable if reason.kind is Unavailable else StateRefused
            raise kind(f"{self.root} cannot be reached: {reason}")

    def _take_lease(self) -> None:
        self.require_reachable()
        if self._lease is not None:
            return
        mine, path = new_claim(), self.path(_LOCK)
        with _writing(path):
            other, version = claim_at(path)
            if other is not None and not other.is_dead:
                raise StateRefused(
                    f"{self.root} is in use by another run, process {other.pid} on {other.host}: wait for its end, or give each its "
                    "own folder (a run that was killed is given up after minutes)"
                )
            if not take_lease(path, mine, version):
                raise StateRefused(f"{self.root} is in use by another run, which began in the same moment")
        self._lease = mine

    def unlock(self) -> None:
        """Let other runs begin."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._lease is not None:
            with suppress(OSError):  # it ends by itself
                end_lease(self.path(_LOCK), self._lease)
            self._lease = None


def _sync(path: str) -> None:
    with _writing(path):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@lru_cache(_CHECKSUMS)
def _checksum(path: str, inode: int, changed: int, size: int) -> str:
    if not size:  # cannot be mapped
        return xxh3_64_hexdigest(b"")
    with pa.memory_map(path) as file:
        return xxh3_64_hexdigest(file.read_buffer())


class Handed(NamedTuple):
    """A file by which a worker hands on a text to the commit of its run; it is gone after it."""

    files: StateFiles
    name: str

    def put(self, text: str) -> None:
        """Hand on the text; the last one counts."""
        self.files.put(self.name, text.encode())

    def text(self) -> str | None:
        """The text, if one was handed on."""
        return self.files.text(self.name)
