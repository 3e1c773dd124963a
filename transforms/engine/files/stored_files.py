"""Whole files on any filesystem that Beam knows; errors of a cloud's library become an ``OSError`` of one
line.

A store of objects has no folders: names begin alike. Its rename is a copy that replaces, and a delete.
"""

import errno
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError, CompressedFile, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.errors import http_status
from beam_joins.transforms.engine.files.object_clients import objects_at
from beam_joins.transforms.engine.files.object_streams import IN_ONE
from beam_joins.transforms.engine.files.objects import MISSING, ListedFile

PART: Final = ".part"
_OURS: Final = {"builtins", "beam_joins", "pyarrow"}


def is_remote(path: str) -> bool:
    """Whether a path is of another filesystem than that of this machine."""
    return FileSystems.get_scheme(path) is not None


def cause(error: BaseException) -> str:
    """The cause of an error, in one line; for an error of Beam's filesystems, the first of the errors within.

    >>> cause(BeamIOError("exists() operation failed", {"s3://a/b": PermissionError("Forbidden")}))
    'Forbidden'
    """
    error = _first(error)
    says = getattr(error, "strerror", None) or getattr(error, "message", None)
    return (says if isinstance(says, str) and says else str(error) or type(error).__name__).splitlines()[0]


def code_of(error: BaseException) -> Any:
    """The HTTP status of an error, also of one within an error of Beam's filesystems; ``None`` without one."""
    return http_status(_first(error))


def _first(error: BaseException) -> BaseException:
    details = getattr(error, "exception_details", None)
    within = next(iter(details.values()), None) if isinstance(error, BeamIOError) and isinstance(details, dict) else None
    return _first(within) if isinstance(within, BaseException) else error


@contextmanager
def calling(path: str) -> Iterator[None]:
    """Raises ``OSError`` where a cloud's library raises an error of its own."""
    try:
        yield
    except Exception as error:
        if not is_remote(path) or not _is_foreign(error):
            raise
        raise OSError(errno.EIO, cause(error), path) from error


def _is_foreign(error: Exception) -> bool:
    return isinstance(error, BeamIOError) or type(error).__module__.partition(".")[0] not in _OURS


def exists(path: str) -> bool:
    """Whether a file exists at a path."""
    if not is_remote(path):
        return os.path.exists(path)
    with calling(path):
        return objects_at(path).exists(path)


def open_file(path: str) -> Any:
    """A file as it is stored, to be read: compressed ones are not unpacked. All errors of the file system, also while it is read, are
    ``OSError``.
    """
    return io.BufferedReader(_StoredFile(path), IN_ONE) if is_remote(path) else open(path, "rb")


class _StoredFile(io.RawIOBase):
    """A file of another file system."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        with calling(path):
            self._file = objects_at(path).open(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readall(self) -> bytes:
        with calling(self._path):
            return bytes(self._file.read())

    def readinto(self, into: Any) -> int:
        with calling(self._path):
            data = self._file.read(len(into))
        into[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with calling(self._path):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()


def read_whole(path: str) -> bytes | None:
    """The content of a file; ``None`` if it does not exist. Raises ``OSError``."""
    with calling(path):
        try:
            if is_remote(path):
                return objects_at(path).read(path)
            with open(path, "rb") as file:
                return file.read()
        except Exception as error:
            if _is_missing(error) or (is_remote(path) and not objects_at(path).exists(path)):
                return None
            raise


def read_range(path: str, start: int, length: int) -> bytes:
    """The bytes of a file from a place on, fewer at its end. Raises ``OSError``, ``FileNotFoundError`` if it does not exist."""
    if not is_remote(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.pread(handle, length, start)
        finally:
            os.close(handle)
    with calling(path):
        try:
            return objects_at(path).read_range(path, start, start + length).content
        except Exception as error:
            if _is_missing(error) or not objects_at(path).exists(path):
                raise FileNotFoundError(errno.ENOENT, "it is gone", path) from error
            raise


def read_version(path: str) -> tuple[bytes, str] | None:
    """The content of a file in a store, and its version; ``None`` if it does not exist. Raises ``OSError``."""
    with calling(path):
        try:
            return objects_at(path).read_version(path)
        except Exception as error:
            if _is_missing(error) or not objects_at(path).exists(path):
                return None
            raise


def write_over(path: str, content: bytes, version: str | None) -> bool:
    """Write a file in a store if its version is still this one, ``None`` for a file that does not exist; gives whether it was.
    Raises ``OSError``.
    """
    with calling(path):
        return objects_at(path).write_over(path, content, version)


def _is_missing(error: BaseException) -> bool:
    return isinstance(_first(error), FileNotFoundError) or code_of(error) == MISSING


def create_file(path: str, compression: str = CompressionTypes.AUTO) -> Any:
    """A new file, which is there when it is closed; it may stay empty, also where Beam cannot write such files."""
    if compression == CompressionTypes.AUTO:
        compression = CompressionTypes.detect_compression_type(path)
    if is_remote(path):
        file = objects_at(path).create(path)
        return file if compression == CompressionTypes.UNCOMPRESSED else CompressedFile(file, compression)
    return FileSystems.create(path, compression_type=compression)


def write_whole(path: str, content: Any) -> None:
    """Write a file; its readers get either the whole new file or the file that was there before. A link stays, and a device or a pipe
    is written into.
    """
    if is_remote(path):
        with calling(path):
            objects_at(path).write(path, bytes(content))
        return
    path = os.path.realpath(path) if os.path.islink(path) else path
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(content)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{uuid4().hex[:8]}{PART}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.remove(part)
        raise


def rename(source: str, target: str) -> None:
    """Rename a file, replacing an existing one; atomically on local filesystems."""
    if not is_remote(target):
        os.replace(source, target)
        return
    with calling(target):
        objects_at(target).rename(source, target)


def move(source: str, target: str) -> None:
    """Rename a file, replacing an existing one; raises ``FileNotFoundError`` if it is under neither name."""
    if exists(source):
        if not is_remote(target):
            os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        try:
            rename(source, target)
        except OSError:
            if exists(source) or not exists(target):  # else another process that finishes the commit has renamed it
                raise
    elif not exists(target):
        raise FileNotFoundError(f"neither {source} nor {target} is there")


def files_below(folder: str, beginning: str = "") -> list[str]:
    """The paths of all files in a folder of another filesystem, however deep, whose names there begin so.

    Raises ``OSError``.
    """
    below = f"{folder.rstrip('/')}/{beginning}"
    with calling(folder):
        return sorted(file.path for file in objects_at(folder).below(below) if not file.path.endswith("/"))


def folders_in(folder: str, beginning: str = "") -> list[str]:
    """The paths of the folders with files in a folder of another filesystem, whose names begin so. Raises ``OSError``."""
    within = folder.rstrip("/") + "/"
    names = {path.removeprefix(within).partition("/") for path in files_below(folder, beginning)}
    return sorted(within + name for name, slash, _ in names if slash)


def matching_files(pattern: str) -> list[ListedFile]:
    """The files of another filesystem whose paths match a pattern; the file of exactly this name if it exists. Raises
    ``OSError``.
    """
    with calling(pattern):
        return list(objects_at(pattern).matching(pattern))


def remove_files(paths: Iterable[str]) -> None:
    """Remove files of another filesystem, where others may remove some of them too. Raises ``OSError``."""
    if listed := list(paths):
        try:
            with calling(listed[0]):
                objects_at(listed[0]).delete(listed)
        except OSError:
            left = [path for path in listed if exists(path)]
            if len(left) == len(listed):
                raise
            remove_files(left)


def remove_folder(folder: str) -> None:
    """Remove a folder of another filesystem with all that is in it. Raises ``OSError``."""
    with calling(folder):
        system = FileSystems.get_filesystem(folder)
        if not system.has_dirs():
            remove_files(files_below(folder))
        elif system.exists(folder):
            system.delete([folder])
