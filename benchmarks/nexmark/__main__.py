"""Measures views of Nexmark's queries over bounded events, next to DuckDB's answer: ``python -m benchmarks.nexmark``.

A figure is the number of events by the processor seconds of a process behind its start, which is that of the same query on a
hundred events. Each answer is compared with DuckDB's, row by row.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import duckdb

from benchmarks.contestants.beam_pipeline import RUNNERS
from benchmarks.harness.process import ContestantFailed, run
from benchmarks.nexmark.auctions import write
from benchmarks.nexmark.queries import QUERIES

_TINY: Final = 100
_LIMIT_SECONDS: Final = 1_200


def answer(query: str, data: Path) -> Counter[tuple[str, ...]]:
    """The rows that DuckDB gives."""
    with duckdb.connect(config={"threads": 2}) as database:
        database.execute("SET integer_division = true")
        for table in sorted(path.name for path in data.iterdir()):
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{data}/{table}/*.parquet')")
        return _bag(database.execute(QUERIES[query]).fetchall())


def measured(query: str, runner: str, data: Path, folder: Path) -> tuple[float, float]:
    """The processor seconds and the seconds of a query. Raises ContestantFailed, also for rows that are not DuckDB's."""
    out = Path(tempfile.mkdtemp(dir=folder))
    ran = run(
        "benchmarks.nexmark.job", [f"--query={query}", f"--data={data}", f"--out={out}", f"--runner={runner}"], limit=_LIMIT_SECONDS
    )
    files = [*out.glob("*.parquet")]
    kept = _bag(duckdb.sql(f"SELECT * FROM read_parquet('{out}/*.parquet')").fetchall()) if files else Counter()
    expected = answer(query, data)
    if kept != expected:
        raise ContestantFailed(f"{(kept - expected).total():,} rows that DuckDB has not, {(expected - kept).total():,} rows less")
    return ran.processor, ran.seconds


def _bag(rows: Sequence[Sequence[Any]]) -> Counter[tuple[str, ...]]:
    """Rows whose numbers are compared in ten digits: the mean of whole numbers is one of floating point."""
    return Counter(tuple(f"{each:.10g}" if isinstance(each, float) else str(each) for each in row) for row in rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a query and runner; returns 1 if an answer is another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=[*QUERIES])
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=[*RUNNERS])
    args = parser.parse_args(argv)
    failed = False
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for events in (_TINY, args.events):
            write(folder / f"{events}", events)
        print("| query | runner | rows | start-up | total | events a second and core |\n|---|---|---|---|---|---|", flush=True)
        for query in args.queries:
            rows = answer(query, folder / f"{args.events}").total()
            for runner in args.runners:
                try:
                    starts = [measured(query, runner, folder / f"{_TINY}", folder) for _ in range(args.rounds)]
                    whole = [measured(query, runner, folder / f"{args.events}", folder) for _ in range(args.rounds)]
                except ContestantFailed as error:
                    failed = True
                    print(f"| {query} | {runner} | {error} |", flush=True)
                    continue
                work = median(used for used, _ in whole) - median(used for used, _ in starts)
                times = " | ".join(f"{median(seconds for _, seconds in each):.1f} s" for each in (starts, whole))
                print(f"| {query} | {runner} | {rows:,} | {times} | {args.events / max(work, 0.01):,.0f} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
