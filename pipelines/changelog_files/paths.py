"""Paths on this machine and on the file systems that Beam knows, so that a name that looks like a pattern is a name all the same."""

import glob
import os
import re
import shutil
from contextlib import suppress
from importlib.util import find_spec
from typing import Final, NamedTuple

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.command.input_error import InputError

_PATTERN: Final = re.compile(r"[*?\[]")
_EXTRA: Final = {"gs": "gcp", "s3": "aws", "abfs": "azure", "abfss": "azure", "azfs": "azure", "hdfs": "hadoop"}


class Found(NamedTuple):
    """A file that is there, and when it was last written, in nanoseconds since 1970."""

    path: str
    bytes: int
    written: int


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's own file system."""
    return "://" not in path


def absolute(path: str) -> str:
    """The path as a worker with another working directory finds it."""
    return os.path.abspath(path) if is_local(path) else path


def real(path: str) -> str:
    """The one name that a file has, whatever links lead to it."""
    return os.path.realpath(path) if is_local(path) else path


def matching(path: str) -> list[Found]:
    """The file of this very name, or else those that match it as a pattern, in order.

    Raises:
        OSError: the file system does not answer.
        ValueError: there is no such file system, or what it needs is not installed.
    """
    if is_local(path):
        # only what the user wrote is a pattern: the working directory is not
        pattern = path if os.path.isabs(path) else os.path.join(glob.escape(os.getcwd()), path)
        there = (
            [absolute(path)]
            if os.path.isfile(path)
            else filter(os.path.isfile, map(os.path.normpath, glob.iglob(pattern, recursive=True)))
        )
        seen = ((file, os.stat(file)) for file in there)
        return sorted(Found(file, status.st_size, status.st_mtime_ns) for file, status in seen)
    if _PATTERN.search(path) and FileSystems.exists(path):
        return [_found(FileSystems.get_filesystem(path).metadata(path))]
    return sorted(map(_found, FileSystems.match([path])[0].metadata_list))


def _found(file: FileMetadata) -> Found:
    return Found(file.path, file.size_in_bytes, round(file.last_updated_in_seconds * 1e9))


def beginning_with(prefix: str) -> list[str]:
    """The files in the prefix's directory whose names begin as its own does."""
    if is_local(prefix):
        parent, base = os.path.split(absolute(prefix))
        return (
            sorted(os.path.join(parent, name) for name in os.listdir(parent) if name.startswith(base)) if os.path.isdir(parent) else []
        )
    return [file.path for file in FileSystems.match([f"{prefix}*"])[0].metadata_list if file.path.startswith(prefix)]


def remove(path: str) -> None:
    """Remove a file or a directory with all that is in it; what is not there, or cannot be removed, stays without a word."""
    if not is_local(path):
        with suppress(OSError):
            FileSystems.delete([path])
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def require_file_system(what: str, path: str) -> None:
    """Raise InputError if there is no file system for a path, or if what it needs is not installed."""
    scheme = path.partition("://")[0]
    try:
        FileSystems.get_filesystem(path)
        there = scheme != "s3" or find_spec("boto3") is not None
    except (ValueError, OSError, ImportError):
        there = False
    if not there:
        remedy = f"pip install 'apache-beam[{_EXTRA[scheme]}]'" if scheme in _EXTRA else f"Beam has no file system for {scheme}://"
        raise InputError(f"{what}: {path} cannot be reached: {remedy}")
