"""The command line that all contestants have."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.works import SUFFIXES, WORKS


class Task(NamedTuple):
    """What to do: which work, on the files of which folder, into which folder."""

    work: str
    data: Path
    out: Path

    def input_files(self, table: str) -> str:
        """The glob of a table's files."""
        return str(self.data / table / f"*{SUFFIXES[WORKS[self.work].reads]}")

    def result(self, name: str = "") -> Path:
        """The folder of a result; made if it is not there yet."""
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def parser(name: str, works: Sequence[str] = tuple(WORKS)) -> argparse.ArgumentParser:
    """A parser of the options that make a task; a contestant may add its own."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.contestants.{name}")
    made.add_argument("--work", required=True, choices=works, help="what to compute")
    made.add_argument("--data", required=True, type=Path, metavar="DIR", help="a folder with one folder of files per table")
    made.add_argument("--out", required=True, type=Path, metavar="DIR", help="an empty folder for the results' files")
    return made


def task(options: argparse.Namespace) -> Task:
    """The task in parsed options; its folders are absolute."""
    options.out.mkdir(parents=True, exist_ok=True)
    return Task(options.work, options.data.resolve(), options.out.resolve())
