"""The command line that all contestants have."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.works import WORKS


class Task(NamedTuple):
    """What to do: which work, on the Parquet files of which folder, into which folder."""

    work: str
    data: Path
    out: Path

    def input_files(self, table: str) -> str:
        """The glob of a table's Parquet files."""
        return str(self.data / table / "*.parquet")


def parser(name: str, works: Sequence[str] = tuple(WORKS)) -> argparse.ArgumentParser:
    """A parser of the options that make a task; a contestant may add its own."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.contestants.{name}")
    made.add_argument("--work", required=True, choices=works, help="what to compute")
    made.add_argument("--data", required=True, type=Path, metavar="DIR", help="a folder with one folder of Parquet files per table")
    made.add_argument("--out", required=True, type=Path, metavar="DIR", help="an empty folder for the result's Parquet files")
    return made


def task(options: argparse.Namespace) -> Task:
    """The task in parsed options; its folders are absolute."""
    options.out.mkdir(parents=True, exist_ok=True)
    return Task(options.work, options.data.resolve(), options.out.resolve())
