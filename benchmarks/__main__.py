"""The command line: ``python -m benchmarks``."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from benchmarks.harness.figures import disturbed, figure, rounds_of
from benchmarks.harness.kept_runs import KeptRuns
from benchmarks.harness.lineup import CASES, CONTESTANTS, Contestant, cases
from benchmarks.harness.process import ROOT
from benchmarks.harness.publish import publish
from benchmarks.harness.report import report
from benchmarks.harness.rounds import LIMIT_SECONDS, Rounds
from benchmarks.harness.targets import targets

SMALL: Final = "A small run: the start is nearly all there is to it, and no figure is one to quote.\n\n"


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the joins next to PySpark SQL, DuckDB, Flink SQL, Pathway and plain Beam."
    )
    made.add_argument(
        "--small",
        action="store_true",
        help="a twentieth of the size, one round, fewer cases, neither Flink SQL nor Pathway: shows that it works, no "
        "figures to quote; "
        "with --contestants all cases of those",
    )
    made.add_argument("--works", nargs="+", choices=tuple(CASES), metavar="WORK", help="only these (default: all)")
    made.add_argument("--contestants", nargs="+", metavar="NAME", help="only those whose title or module begins so (default: all)")
    made.add_argument(
        "--rounds",
        type=int,
        help="how often each is measured (default: 5 times what the first page tells, 3 times the orders command, "
        "else once; with --small once); 0 with --runs: only show what is kept",
    )
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    made.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="most seconds of one run (default: %(default).0f)")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write all runs and figures there")
    made.add_argument(
        "--runs",
        type=Path,
        metavar="FILE",
        help="keep every run there as soon as it is measured, and go on with those that are there: an interrupted "
        "benchmark need not begin "
        "again, and runs that others slowed down are repeated",
    )
    made.add_argument("--publish", action="store_true", help="also write the tables into benchmarks/README.md")
    return made


def chosen(names: Sequence[str] | None) -> list[Contestant]:
    """The contestants with these titles, or whose title or module begins so.

    >>> [contestant.title for contestant in chosen(["duckdb", "PySpark"])]
    ['DuckDB', 'PySpark SQL']
    >>> [contestant.title for contestant in chosen(["beam_joins, Spark, columns"])]
    ['beam_joins, Spark, columns']
    """
    every = list(CONTESTANTS.values())
    if names is None:
        return every
    wanted = tuple(name.lower() for name in names)
    named = [name for name in wanted if any(name == each.title.lower() for each in every)]
    begins = tuple(name for name in wanted if name not in named)
    return [
        each
        for each in every
        if each.title.lower() in named or each.title.lower().startswith(begins) or each.module.startswith(begins)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code, 1 when a contestant failed or gave other rows."""
    options = parser()
    asked = options.parse_args(argv)
    contestants = chosen(asked.contestants)
    if not contestants:
        options.error(f"no contestant is called {' or '.join(asked.contestants)}; there are {', '.join(CONTESTANTS)}")
    if asked.contestants:
        contestants = [replace(each, small_cases=each.cases) for each in contestants]
    if asked.small and asked.publish:
        options.error("--small gives no figures to publish")
    rounds = 1 if asked.small and asked.rounds is None else asked.rounds
    if rounds is not None and rounds < (0 if asked.runs else 1):
        options.error("--rounds is at least 1, or 0 with --runs")
    taken = [case for case in cases(small=asked.small) if not asked.works or case.name in asked.works]
    try:
        kept = KeptRuns(asked.runs, small=asked.small) if asked.runs else None
    except ValueError as error:
        options.error(str(error))
    measured = Rounds(asked.data.resolve(), small=asked.small, limit=asked.limit, kept=kept).measure(taken, contestants, rounds)
    figures = [figure(each) for each in measured]
    promised = list(targets({(each.case, each.contestant): each for each in figures}))
    text = (SMALL if asked.small else "") + report(taken, figures, promised, disturbed(measured), rounds_of(measured))
    print(text)
    if asked.json:
        content = {"runs": [asdict(each) for each in measured], "figures": [asdict(each) for each in figures]}
        asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if asked.publish:
        publish(ROOT / "benchmarks" / "README.md", text)
    return 1 if any(each.trouble and not each.skipped for each in figures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("python -m benchmarks: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
