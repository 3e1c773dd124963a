"""The command line: ``python -m benchmarks``."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.harness.figures import Measurement, keep
from benchmarks.harness.lineup import CASES, CONTESTANTS, Contestant, cases
from benchmarks.harness.publish import publish_all
from benchmarks.harness.report import report
from benchmarks.harness.rounds import LIMIT_SECONDS, Rounds

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
        "else once; with --small once)",
    )
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    made.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="most seconds of one run (default: %(default).0f)")
    made.add_argument(
        "--publish",
        action="store_true",
        help="also keep the figures of each case in benchmarks/figures.json as soon as it is measured, in place of those that are "
        "there, and write the tables of the pages that quote them",
    )
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
    if asked.publish and (asked.small or asked.contestants):
        options.error("--publish is for whole cases: neither with --small nor with --contestants")
    rounds = 1 if asked.small and asked.rounds is None else asked.rounds
    if rounds is not None and rounds < 1:
        options.error("--rounds is at least 1")
    taken = [case for case in cases(small=asked.small) if not asked.works or case.name in asked.works]
    measuring = Rounds(asked.data.resolve(), small=asked.small, limit=asked.limit)
    measured = dict[str, Measurement]()
    for case in taken:
        of_case = measuring.measure(case, contestants, rounds)
        if of_case.figures:
            measured[case.name] = of_case
            if asked.publish:
                keep(of_case, CASES)
                publish_all()
    print((SMALL if asked.small else "") + report(taken, measured))
    return int(any(each.trouble and not each.skipped for of_case in measured.values() for each in of_case.figures))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("python -m benchmarks: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
