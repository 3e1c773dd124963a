"""Publishes files for all writers: claim the output, write a hidden attempt, publish it, release the claim."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import absolute, beginning_with, is_local, remove_directory
from beam_joins.pipelines.results.output_lock import held, leave, release, staging_of, take
from beam_joins.transforms.connect.files import new_claim, remove_files, rename

_PART_NAME: Final = re.compile(r"-\d{5,}-of-\d{5,}")


class Move(NamedTuple):
    """A complete file and the name that it will get."""

    source: str
    target: str


class Publication:
    """The files that one run publishes under some paths; within the ``with`` block no other run writes them.

    What is not yet whole lies in a hidden directory beside each path; these directories are gone after the
    block, however it ends.

    ``in_workers``: copies in workers :meth:`claim` the paths, which are absolute, when they begin to write,
    and one of them enters the block to publish. If the block fails, directories and claims stay, as the
    runner may try again; a later run of the same process takes the paths over.
    """

    def __init__(self, *paths: str, in_workers: bool = False) -> None:
        self._paths = paths
        self._claim = new_claim()
        self.run = self._claim.token
        self._in_workers = self._stays = in_workers

    def attempt(self, path: str) -> str:
        """The hidden directory beside a path."""
        return staging_of(path, self._claim)

    def claim(self) -> None:
        """Claim the paths, and make their hidden directories.

        Raises InputError if another run writes one of them, OSError if the claim cannot be written.
        """
        for path in self._paths:
            take(path, self._claim, again=self._in_workers)
        for directory in filter(is_local, map(self.attempt, self._paths)):
            os.makedirs(directory, exist_ok=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.push(self.__exit__)
            self.claim()
            stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None or not self._stays:
            self.release()
        elif not self._in_workers:
            for path in self._paths:
                leave(path, self._claim)

    @contextmanager
    def until_renamed(self, refused: type[Exception]) -> Iterator[None]:
        """Keeps the directories and the claims if the block fails: the process that finishes the renames needs them,
        but where the run is refused, and counts for nothing.
        """
        self._stays = True
        try:
            yield
        except refused:
            self._stays = False
            raise
        self._stays = False

    def require_held(self) -> None:
        """Raise InputError if another run has taken a path over."""
        for path in self._paths:
            if not held(path, self._claim):
                by = "a later run: this one has written nothing" if self._in_workers else "another run: no results were written"
                raise InputError(f"{path} has been taken over by {by}")

    def is_held(self) -> bool:
        """Whether all paths are still this run's."""
        return all(held(path, self._claim) for path in self._paths)

    def publish(self, moves: Sequence[Move], earlier: Iterable[str] = ()) -> None:
        """:func:`rename_all`, unless another run has taken a path over: that raises InputError."""
        self.require_held()
        rename_all([Move(source, absolute(target)) for source, target in moves], earlier, self.attempt(self._paths[0]))

    def release(self) -> None:
        """Removes the files that are not published, and releases the paths."""
        with ExitStack() as stack:  # all of it, even if something fails or interrupts
            for path in self._paths:
                stack.callback(release, path, self._claim)
            for path in self._paths:
                stack.callback(remove_directory, self.attempt(path))


@contextmanager
def appear_whole(*paths: Path) -> Iterator[tuple[list[BinaryIO], Path]]:
    """Gives local files of one directory their names when the block ends, all or none; yields the hidden
    directory for them.

    Raises InputError if another run writes one of them, OSError if they cannot be written.
    """
    with Publication(*map(str, paths)) as publication:
        directory = Path(publication.attempt(str(paths[0])))
        with ExitStack() as opened:
            files = [opened.enter_context((directory / path.name).open("wb", buffering=1 << 20)) for path in paths]
            yield files, directory
        publication.publish([Move(str(directory / path.name), str(path)) for path in paths])


def part_name(stem: str, number: int, parts: int, suffix: str) -> str:
    """The name of one of the parts of a result.

    >>> part_name("out/e", 0, 4, ".jsonl")
    'out/e-00000-of-00004.jsonl'
    """
    return f"{stem}-{number:05d}-of-{parts:05d}{suffix}"


def parts_of(stem: str, suffix: str) -> set[str]:
    """The existing parts of a result, however many."""
    begin = absolute(stem)
    paths = (path for path in beginning_with(f"{begin}-") if path.endswith(suffix))
    return {path for path in paths if _PART_NAME.fullmatch(path.removesuffix(suffix)[len(begin) :])}


def rename_all(moves: Sequence[Move], earlier: Iterable[str], keep: str) -> None:
    """Renames the files, and removes those of ``earlier`` that are not among them; all paths are absolute.

    If that fails in the middle everything is put back, where a file system is this machine's own; ``keep`` is
    a directory for what may have to be put back, and its owner removes it. In a cloud the files are
    named one after the other. Raises OSError.
    """
    undo: list[Move] = []  # what has been moved, in this order
    try:
        for number, move in enumerate(moves):
            kept = os.path.join(keep, f"earlier-{number}")
            if is_local(move.target) and _linked(move.target, kept):
                undo.append(Move(move.target, kept))
            rename(*move)
            if is_local(move.target):
                undo.append(move)
        for number, path in enumerate(sorted({*earlier} - {move.target for move in moves})):
            if is_local(path):
                kept = os.path.join(keep, f"stale-{number}")
                os.rename(path, kept)
                undo.append(Move(path, kept))
            else:
                remove_files([path])
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
