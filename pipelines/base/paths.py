"""Paths on the local and on Beam's file systems; special characters in names are taken literally."""

import glob
import os
import re
import shutil
import socket
from contextlib import suppress
from typing import Final

from beam_joins.transforms.connect.files import (
    ListedFile,
    files_below,
    folders_in,
    matching_files,
    remove_files,
    remove_folder,
    unreachable,
)

_PATTERN: Final = re.compile(r"[*?\[]")


def is_local(path: str) -> bool:
    """Whether a path is on the local file system."""
    return "://" not in path


def absolute(path: str) -> str:
    """The absolute path, for workers with another working directory."""
    return os.path.abspath(path) if is_local(path) else path


def real(path: str) -> str:
    """The path of a file with all links resolved."""
    return os.path.realpath(path) if is_local(path) else path


def require_seen(path: str, size: int = 0) -> None:
    """Raise ValueError, a sentence without the path, on a machine without a file or folder of a local path, or with a file
    of fewer bytes than the pipeline was built with.
    """
    if not is_local(path):
        return
    try:
        seen = os.stat(path).st_size
    except FileNotFoundError:
        raise ValueError(f"is not there on {socket.gethostname()}: all machines must reach it by this path") from None
    if seen < size:
        raise ValueError(
            f"has {seen:,} bytes on {socket.gethostname()}, and had {size:,} when the run began: all machines must reach the same"
            f" file by this path"
        )


def matching(path: str) -> list[ListedFile]:
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
        return sorted(ListedFile(file, status.st_size, status.st_mtime_ns) for file, status in seen)
    stored = {file for pattern in dict.fromkeys((path, path.replace("/**/", "/"))) for file in matching_files(pattern)}
    return sorted(file for file in stored if not _is_hidden(file.path, path))


def _is_hidden(path: str, pattern: str) -> bool:
    """Whether a name that a pattern finds in a store begins with a dot that the pattern does not have, as that of a file or folder
    on a disk, or ends with a slash, and stands for a folder.

    >>> [_is_hidden(path, "s3://b/in/**/*.csv") for path in ("s3://b/in/day/1.csv", "s3://b/in/.tmp/1.csv", "s3://b/in/.1.csv")]
    [False, True, True]
    """
    begin = len(os.path.dirname(_PATTERN.split(pattern)[0]))
    return path.endswith("/") or ("/." in path[begin:] and "/." not in pattern[begin:])


def files_at(path: str) -> tuple[list[ListedFile], bool]:
    """The files of :func:`matching`, or those in the folder of this name, and whether it is one."""
    if is_local(path):
        is_folder = os.path.isdir(path)
        return matching(os.path.join(glob.escape(path), "*") if is_folder else path), is_folder
    if path.endswith("/"):
        return matching(f"{path}*"), True
    if (files := matching(path)) or _PATTERN.search(path):
        return files, False
    return (files := matching(f"{path}/*")), bool(files)


def none_at(pattern: str) -> str:
    """The sentence on a path or glob that finds no file, but maybe a folder."""
    if is_local(pattern):
        found = [pattern] if os.path.isdir(pattern) else filter(os.path.isdir, glob.iglob(pattern, recursive=True))
        if folder := next(iter(found), ""):
            within = os.path.join(folder, "**", "*")
            return f"{folder} is a folder without a file that can be read: {within} finds those of the folders within it"
    return f"there is no file {pattern}"


def fixed_folder(pattern: str) -> str:
    """The folder of this name, or else the last one before the first special character of a pattern.

    >>> fixed_folder("s3://bucket/in/day-*/*.parquet"), fixed_folder("s3://bucket/in/")
    ('s3://bucket/in', 's3://bucket/in')
    """
    before = _PATTERN.split(pattern)[0]
    folder = os.path.dirname(before) if before != pattern and not os.path.isdir(pattern) else pattern.rstrip("/")
    return absolute(folder)


def beginning_with(prefix: str) -> list[str]:
    """The files whose paths begin with the prefix, in its directory."""
    if is_local(prefix):
        parent, base = os.path.split(prefix)  # first: of a path "." would go
        parent = absolute(parent)
        return (
            sorted(os.path.join(parent, name) for name in os.listdir(parent) if name.startswith(base)) if os.path.isdir(parent) else []
        )
    parent, base = os.path.split(prefix)
    return [path for path in files_below(parent, base) if "/" not in path[len(prefix) :]]


def folders_beginning_with(prefix: str) -> list[str]:
    """The directories whose paths begin with the prefix, in its directory; of a store those that have files."""
    if is_local(prefix):
        return [path for path in beginning_with(prefix) if os.path.isdir(path)]
    parent, base = os.path.split(prefix)
    return folders_in(parent, base)


def remove(path: str) -> None:
    """Removes a file; errors and a missing one are ignored."""
    if not is_local(path):
        with suppress(OSError):
            remove_files([path])
    elif os.path.lexists(path):
        os.unlink(path)


def remove_directory(path: str) -> None:
    """Removes a directory tree; errors and a missing one are ignored."""
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        remove_folder(path)


def require_file_system(what: str, path: str) -> None:
    """Raise InputError if a path has no file system, if a package that the file system needs is not installed, or if
    it does not answer within seconds.
    """
    if not is_local(path) and (reason := unreachable(path)):
        raise reason.kind(f"{what}: {path} cannot be reached: {reason}")
