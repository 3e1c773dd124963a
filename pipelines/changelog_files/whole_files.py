"""Local files that take their names together, when everything is written."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from beam_joins.pipelines.changelog_files.claim import new_claim, release, staging_of, take
from beam_joins.pipelines.changelog_files.paths import remove
from beam_joins.pipelines.changelog_files.publishing import Move, publish


class Unfinished(NamedTuple):
    """The files to be written, and the hidden directory where they are until then; what else is put there goes with it."""

    files: list[BinaryIO]
    directory: Path


@contextmanager
def appear_whole(*paths: Path) -> Iterator[Unfinished]:
    """Files of one directory that get their names when the block ends, all of them; none if it raises.

    Raises:
        InputError: another run writes one of them.
        OSError: they cannot be written.
    """
    claim = new_claim()
    with ExitStack() as stack:
        for path in paths:
            take(str(path), claim)
            stack.callback(release, str(path), claim)
        directory = Path(staging_of(str(paths[0]), claim))
        directory.mkdir(parents=True, exist_ok=True)
        stack.callback(remove, str(directory))
        with ExitStack() as opened:
            yield Unfinished(
                [opened.enter_context((directory / path.name).open("wb", buffering=1 << 20)) for path in paths], directory
            )
        there = [str(path.absolute()) for path in paths if path.exists()]
        publish([Move(str(directory / path.name), str(path.absolute())) for path in paths], there, str(directory))
