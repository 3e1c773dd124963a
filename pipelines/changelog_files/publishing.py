"""Files that are whole get their names together: all of them or none, and nothing of an earlier run stays beside them."""

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.paths import absolute, beginning_with, is_local

_PART_NAME: Final = re.compile(r"-\d{5,}-of-\d{5,}")


class Move(NamedTuple):
    """A file that is whole, and the name that it is to get."""

    source: str
    target: str


def part_name(stem: str, number: int, parts: int, suffix: str) -> str:
    """The name of one of the parts of a result.

    >>> part_name("out/e", 0, 4, ".jsonl")
    'out/e-00000-of-00004.jsonl'
    """
    return f"{stem}-{number:05d}-of-{parts:05d}{suffix}"


def parts_of(stem: str, suffix: str) -> set[str]:
    """The parts of a result that are there, of however many."""
    begin = absolute(stem)
    found = (path for path in beginning_with(f"{begin}-") if path.endswith(suffix))
    return {path for path in found if _PART_NAME.fullmatch(path.removesuffix(suffix)[len(begin) :])}


def publish(moves: Sequence[Move], earlier: Iterable[str], keep: str) -> None:
    """Give the files their names, and remove those of ``earlier`` that are not among them; all paths are absolute.

    If that fails in the middle everything is put back, where a file system is this machine's own; ``keep`` is a directory for what may have
    to be put back, and whoever owns it removes it. In a cloud the files are named one after the other. Raises OSError.
    """
    undo: list[Move] = []  # what has been moved, in this order
    there = set(earlier)
    try:
        for number, move in enumerate(moves):
            if is_local(move.target):
                kept = os.path.join(keep, f"earlier-{number}")
                if _linked(move.target, kept):
                    undo.append(Move(move.target, kept))
                os.replace(move.source, move.target)
                undo.append(move)
            else:
                if move.target in there:  # some file systems do not replace
                    FileSystems.delete([move.target])
                FileSystems.rename([move.source], [move.target])
        for number, path in enumerate(sorted(there - {move.target for move in moves})):
            if is_local(path):
                kept = os.path.join(keep, f"stale-{number}")
                os.rename(path, kept)
                undo.append(Move(path, kept))
            else:
                FileSystems.delete([path])
    except BaseException:
        for source, target in reversed(undo):
            os.replace(target, source)
        raise


def _linked(path: str, kept: str) -> bool:
    """Keep a file under a second name, if it is there."""
    try:
        os.link(path, kept)
    except FileNotFoundError:
        return False
    except OSError:  # no second names on this file system
        os.rename(path, kept)
    return True
