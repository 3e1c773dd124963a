"""The files of a folder, on any filesystem that Beam knows: local ones are mapped into memory, and replaced
atomically.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from uuid import uuid4

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from xxhash import xxh3_64_hexdigest

from beam_joins.corrupt import CorruptData
from beam_joins.transforms.engine.resumed.file_lock import FileLock

_PART = ".part"
_CHECKSUMS = 1 << 14


class StateRefused(ValueError):
    """A run that cannot go on with a folder: the message is one sentence that says why and what to do."""


class StateNotWritten(ValueError):
    """A file of a folder that cannot be written: a full disk, a missing permission.

    The message is one sentence.
    """


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateNotWritten(f"cannot write {path}: {error.strerror or error}") from error


class StateFiles:
    """Files by their names, paths relative to the folder.

    A lock, on local filesystems, keeps other processes and pipelines away.
    """

    def __init__(self, root: str) -> None:
        self.is_local = FileSystems.get_scheme(root) is None
        self.root = os.path.abspath(root) if self.is_local else root
        self._lock: FileLock | None = None

    def __reduce__(self) -> Any:
        return StateFiles, (self.root,)

    def path(self, name: str) -> str:
        """The path of a file."""
        path: str = os.path.join(self.root, name) if self.is_local else FileSystems.join(self.root, *name.split("/"))
        return path

    def put(self, name: str, content: Any) -> None:
        """Write a file; see :func:`write_whole`. Raises :class:`StateNotWritten`."""
        with _writing(self.path(name)):
            write_whole(self.path(name), content)

    def remove_parts(self) -> None:
        """Remove what processes that were killed have left of files of the folder itself."""
        if self.is_local:
            self.remove(name for name in os.listdir(self.root) if name.endswith(_PART))

    def sync(self, names: Iterable[str]) -> None:
        """Have local files, and the folders that they are in, survive a loss of power."""
        if self.is_local:
            paths = {path for name in names for path in (self.path(name), os.path.dirname(self.path(name)))}
            with ThreadPoolExecutor(8) as threads:
                for _ in threads.map(_sync, paths):
                    pass

    def get(self, name: str) -> pa.Buffer:
        """The content of a file; raises ``OSError`` if there is none."""
        path = self.path(name)
        if not self.is_local:
            with FileSystems.open(path) as file:
                return pa.py_buffer(file.read())
        if not os.path.getsize(path):  # cannot be mapped
            return pa.py_buffer(b"")
        with pa.memory_map(path) as file:
            return file.read_buffer()

    def checksum(self, name: str, content: pa.Buffer) -> str:
        """The xxh3 of a file's content. A process reads the whole of a local file for it once, as long as the file
        is the same: so a round of many, in one process, reads of the state what it looks up.
        """
        if not self.is_local:
            return xxh3_64_hexdigest(content)
        path = self.path(name)
        now = os.stat(path)
        return _checksum(path, now.st_ino, now.st_mtime_ns, now.st_size)

    def text(self, name: str) -> str | None:
        """The content of a file as text; ``None`` if there is none.

        Raises :class:`CorruptData` for what is no text.
        """
        try:
            return self.get(name).to_pybytes().decode() if self.exists(name) else None
        except UnicodeDecodeError as error:
            raise CorruptData(f"{self.path(name)} has changed since it was written: it is no text") from error

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return _exists(self.path(name))

    def names(self, folder: str) -> list[str]:
        """The names of all files in a folder below this one."""
        root = self.path(folder)
        if not self.is_local:
            files = FileSystems.match([FileSystems.join(root, "**")])[0].metadata_list
            return sorted(folder + file.path.removeprefix(root) for file in files)
        return sorted(os.path.relpath(os.path.join(parent, name), self.root) for parent, _, files in os.walk(root) for name in files)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, and the local folders that are empty then."""
        for name in names:
            path = self.path(name)
            if not self.is_local:
                FileSystems.delete([path])
                continue
            os.remove(path)
            if not os.listdir(os.path.dirname(path)):
                os.rmdir(os.path.dirname(path))

    def lock(self) -> None:
        """Keep other runs away; raises :class:`StateRefused` if there is one, or if anybody may write there.

        On filesystems that are not local nothing is locked.
        """
        if not self.is_local or self._lock is not None:
            return
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        if os.stat(self.root).st_mode & stat.S_IWOTH:
            raise StateRefused(f"anybody may write into {self.root}, and what is there is trusted: chmod o-w {self.root}")
        lock = FileLock(self.path("lock"))
        try:
            lock.take(wait=False)
        except OSError:
            lock.close()
            raise StateRefused(f"{self.root} is in use by another run: wait for its end, or give each its own folder") from None
        self._lock = lock

    def unlock(self) -> None:
        """Let other runs begin."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _sync(path: str) -> None:
    with _writing(path):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def move(source: str, target: str) -> None:
    """Rename a file, in place of one that is there; raises ``FileNotFoundError`` if it is under neither name."""
    if _exists(source):
        if FileSystems.get_scheme(target) is None:
            os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        rename(source, target)
    elif not _exists(target):
        raise FileNotFoundError(f"neither {source} nor {target} is there")


@lru_cache(_CHECKSUMS)
def _checksum(path: str, inode: int, changed: int, size: int) -> str:
    if not size:  # cannot be mapped
        return xxh3_64_hexdigest(b"")
    with pa.memory_map(path) as file:
        return xxh3_64_hexdigest(file.read_buffer())


def write_whole(path: str, content: Any) -> None:
    """Write a file; whoever reads it under its name gets it whole, or the one that was there before."""
    if FileSystems.get_scheme(path) is not None:
        with FileSystems.create(path) as file:
            file.write(bytes(content))
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{uuid4().hex[:8]}{_PART}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.remove(part)
        raise


def rename(source: str, target: str) -> None:
    """Rename a file, in place of one that is there; atomically on local filesystems."""
    if FileSystems.get_scheme(target) is None:
        os.replace(source, target)
        return
    if FileSystems.exists(target):  # some filesystems do not replace
        FileSystems.delete([target])
    FileSystems.rename([source], [target])


def _exists(path: str) -> bool:
    return os.path.exists(path) if FileSystems.get_scheme(path) is None else bool(FileSystems.exists(path))
