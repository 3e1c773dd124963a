"""Paths on the local and on Beam's file systems; special characters in names are taken literally."""

import glob
import os
import re
import shutil
from contextlib import suppress
from importlib.util import find_spec
from typing import Final, NamedTuple

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.base.input_error import InputError

_PATTERN: Final = re.compile(r"[*?\[]")
_EXTRA: Final = {"gs": "gcp", "s3": "aws", "abfs": "azure", "abfss": "azure", "azfs": "azure", "hdfs": "hadoop"}


class Found(NamedTuple):
    """An existing file, and the time of its last write in nanoseconds since 1970."""

    path: str
    bytes: int
    written: int


def is_local(path: str) -> bool:
    """Whether a path is on the local file system."""
    return "://" not in path


def absolute(path: str) -> str:
    """The absolute path, for workers with another working directory."""
    return os.path.abspath(path) if is_local(path) else path


def real(path: str) -> str:
    """The path of a file with all links resolved."""
    return os.path.realpath(path) if is_local(path) else path


def matching(path: str) -> list[Found]:
    """The file of exactly this name, or else the files that match it as a pattern, sorted.

    Raises:
        OSError: the file system does not answer.
        ValueError: there is no such file system, or what it needs is not installed.
    """
    if is_local(path):
        # only what the user wrote is a pattern: the working directory is not
        pattern = path if os.path.isabs(path) else os.path.join(glob.escape(os.getcwd()), path)
        files = (
            [absolute(path)]
            if os.path.isfile(path)
            else filter(os.path.isfile, map(os.path.normpath, glob.iglob(pattern, recursive=True)))
        )
        seen = ((file, os.stat(file)) for file in files)
        return sorted(Found(file, status.st_size, status.st_mtime_ns) for file, status in seen)
    if _PATTERN.search(path) and FileSystems.exists(path):
        return [_as_found(FileSystems.get_filesystem(path).metadata(path))]
    return sorted(map(_as_found, FileSystems.match([path])[0].metadata_list))


def _as_found(file: FileMetadata) -> Found:
    return Found(file.path, file.size_in_bytes, round(file.last_updated_in_seconds * 1e9))


def beginning_with(prefix: str) -> list[str]:
    """The files whose paths begin with the prefix, in its directory."""
    if is_local(prefix):
        parent, base = os.path.split(absolute(prefix))
        return (
            sorted(os.path.join(parent, name) for name in os.listdir(parent) if name.startswith(base)) if os.path.isdir(parent) else []
        )
    return [file.path for file in FileSystems.match([f"{prefix}*"])[0].metadata_list if file.path.startswith(prefix)]


def remove(path: str) -> None:
    """Removes a file or a directory tree; errors and missing paths are ignored."""
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
        is_installed = scheme != "s3" or find_spec("boto3") is not None
    except (ValueError, OSError, ImportError):
        is_installed = False
    if not is_installed:
        remedy = f"pip install 'apache-beam[{_EXTRA[scheme]}]'" if scheme in _EXTRA else f"Beam has no file system for {scheme}://"
        raise InputError(f"{what}: {path} cannot be reached: {remedy}")
