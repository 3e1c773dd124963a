"""Tells whether a path pattern will find a file, without Beam and its file systems."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

_ANY_FOLDERS: Final = "**"


def finds(pattern: str, path: str) -> bool:
    """Whether a pattern, or a folder, finds a path once it is there.

    >>> finds("in/**/*.jsonl", "in/a/changes-000001.jsonl"), finds("in/*.jsonl", "in/a/changes-000001.jsonl")
    (True, False)
    """
    named = linked(path).split("/")
    if os.path.isdir(pattern):
        return named[:-1] == linked(pattern).split("/")
    if "://" in pattern and os.path.dirname(path) == pattern.rstrip("/"):  # there are no folders to look for
        return True
    return _matches(linked(pattern).split("/"), named)


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern or not path:
        return not pattern and not path
    first, *rest = pattern
    if first == _ANY_FOLDERS:
        return any(_matches(rest, path[n:]) for n in range(len(path)))
    return fnmatchcase(path[0], first) and _matches(rest, path[1:])


def linked(path: str) -> str:
    """The absolute path of a file with all links resolved."""
    return path if "://" in path else os.path.realpath(path)
