"""The command line that all contestants have."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.works import SUFFIXES, WORKS


class Task(NamedTuple):
    """What to do: which work, on the files of which folder, into which folder; ``settings`` are those that are not the program's
    defaults.
    """

    work: str
    data: Path
    out: Path
    settings: Mapping[str, str] = MappingProxyType({})

    def input_files(self, table: str) -> str:
        """The glob of a table's files."""
        return str(self.data / table / f"*{SUFFIXES[WORKS[self.work].reads]}")

    def result(self, name: str = "") -> Path:
        """The folder of a result; made if it is not there yet."""
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def parser(name: str, works: Sequence[str] = tuple(WORKS), settings: Mapping[str, str] | None = None) -> argparse.ArgumentParser:
    """A parser of the options that make a task; a contestant may add its own. ``settings`` are those of the contestant, with their
    defaults: what :mod:`benchmarks.settings` searches.
    """
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.contestants.{name}")
    made.add_argument("--work", required=True, choices=works, help="what to compute")
    made.add_argument("--data", required=True, type=Path, metavar="DIR", help="a folder with one folder of files per table")
    made.add_argument("--out", required=True, type=Path, metavar="DIR", help="an empty folder for the results' files")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        choices=_Settings(settings or {}),
        metavar="NAME=VALUE",
        dest="settings",
        help=_listed(settings or {}),
    )
    return made


def _listed(settings: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} (default: {value})" for name, value in settings.items())
    return f"a setting: {listed}" if settings else "a setting; this program has none"


class _Settings(list[str]):
    """Contains each ``NAME=VALUE`` with one of its names."""

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and text.partition("=")[0] in list(self)


def task(options: argparse.Namespace) -> Task:
    """The task in parsed options; its folders are absolute."""
    options.out.mkdir(parents=True, exist_ok=True)
    return Task(options.work, options.data.resolve(), options.out.resolve(), dict(each.split("=", 1) for each in options.settings))
