"""The command `beam-joins`, also `python -m beam_joins`: all programs under one name.

Beam is imported only by the program that needs it.
"""

import argparse
import logging
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NoReturn

from beam_joins.pipelines.base.hidden_packages import hide_packages
from beam_joins.pipelines.commands.program import Parser, program

PROGRAMS: Final = {
    "join": "join any two changelogs: the changelog of the joined table out, and its final rows",
    "table": "make the table of a changelog: old and new rows, and the rows in the end",
    "run": "keep the views of a SQL file: tables with their sources in, views with their targets out",
    "orders": "enrich orders with their customers: two changelogs in, the changelog of the joined table out",
    "slot": "make, show or drop the slot of a PostgreSQL database that tables are read from",
    "state": "show, verify or copy the state of incremental runs, or rows of it",
    "explain": "show two small changelogs and their join as a timeline, position by position",
    "demo": "write the files of the tutorial into a folder, and join them",
    "sample": "write sample changelogs of a made-up shop",
}
_BUILT: Final = Path(__file__).absolute().parents[2] / "commit"
"""The file of a built package that names its commit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program that the first argument names with all other arguments; returns its exit code.

    >>> main(["nonsense"])
    Traceback (most recent call last):
    SystemExit: 2
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    if not arguments:
        parser.error(f"name a program: {', '.join(PROGRAMS)}")
    called = parser.parse_args(arguments[:1]).program
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # programs say what fails in one sentence
    if argv is None:
        hide_packages(arguments)
    module = import_module(f"beam_joins.pipelines.{called}")
    return int(module.main(arguments[1:]))


class _Version(argparse.Action):
    """Prints the version, which nothing else asks for, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print it."""
        commit = "" if _BUILT.is_file() else _checked_out()
        print(f"beam-joins {installed_version()}{f' ({commit})' if commit else ''}")
        parser.exit()


def _parser() -> Parser:
    prog = program("").rstrip(" .")
    parser = Parser(
        prog=prog,
        description="Table semantics for Apache Beam, as programs.",
        epilog="programs:\n"
        + "".join(f"  {name:<12}{does}\n" for name, does in PROGRAMS.items())
        + f"\n{prog} PROGRAM --help lists the options of a program.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version, and the commit where it is known")
    parser.add_argument("program", choices=tuple(PROGRAMS), metavar="PROGRAM", help="see below")
    return parser


def installed_version() -> str:
    """The version of this package, with the commit that it was built from, where that is known."""
    try:
        number = version("beam-joins")
    except PackageNotFoundError:
        number = "(not installed)"
    return f"{number} ({_BUILT.read_text().strip()})" if _BUILT.is_file() else number


def _checked_out() -> str:
    """The commit of the clone around the package; empty where nothing tells it."""
    clone = _BUILT.parents[1]
    if not (clone / ".git").exists():
        return ""
    try:
        git = ["git", "-C", str(clone), "describe", "--always", "--dirty"]
        return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # there is no git
        return ""
