"""How time and memory grow with the input, the number of keys and the number of partitions: ``python -m
benchmarks.growth``.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.__main__ import chosen
from benchmarks.data.dataset import Dataset, foreign_key, tables_of_one_place, tiny
from benchmarks.data.files import provide
from benchmarks.harness.comparison import compare
from benchmarks.harness.figures import Run
from benchmarks.harness.growth_report import TOO_SHORT, Grown, growth_table
from benchmarks.harness.lineup import CONTESTANTS, DUCKDB, OURS, OURS_DIRECT, Contestant
from benchmarks.harness.process import ROOT, ContestantFailed, run
from benchmarks.harness.publish import METHOD, publish
from benchmarks.harness.rounds import LIMIT_SECONDS
from benchmarks.works import WORKS

WORK: Final = "fk-uniform"
OF_PAIRS: Final = "many-few"
"""The work whose cost is that of its pairs."""
_STARTS: Final = 3


def points(asked: argparse.Namespace) -> Iterator[tuple[str, int, Dataset, tuple[str, ...]]]:
    """What is measured: the series, its value, the data, and options of the contestant."""
    for changes in asked.changes:
        yield "changes", changes, foreign_key(changes), ()
    for ids in asked.ids:
        yield "ids", ids, foreign_key(max(asked.at, ids), ids=ids), ()
    for partitions in asked.partitions:
        yield "partitions", partitions, foreign_key(asked.at), ("--set", f"partitions={partitions}")
    for rows in asked.pairs:
        yield "pairs", rows, tables_of_one_place(asked.at, rows=rows), ()


class Growth:
    """Measures points one after the other; the rows are compared with DuckDB's."""

    def __init__(self, data: Path, scratch: Path, limit: float) -> None:
        self._data, self._scratch, self._limit = data, scratch, limit
        self._starts: dict[str, list[float]] = {}

    def measure(self, contestant: Contestant, series: str, value: int, dataset: Dataset, options: tuple[str, ...]) -> Grown:
        """One point."""
        work = OF_PAIRS if series == "pairs" else WORK
        try:
            starts = self._measured_starts(contestant, work)
            folder = provide(dataset, self._data)
            done = self._run(contestant, work, folder, "out", options)
            reference = self._scratch / dataset.name
            if not reference.exists():
                self._run(CONTESTANTS[DUCKDB], work, folder, dataset.name, ())
            comparison = compare(reference, self._scratch / "out", WORKS[work].results[""])
            if not comparison.same:
                raise ContestantFailed(f"differs from DuckDB: {comparison}")
        except ContestantFailed as failure:
            return Grown(series, value, contestant.title, dataset.left, trouble=str(failure))
        start, short = median(starts), done.seconds <= max(starts)
        seconds = max(done.seconds - start, 0.0)
        changes = comparison.rows if series == "pairs" else dataset.left
        return Grown(series, value, contestant.title, changes, start, seconds, done.jvm, done.python, done.memory, too_short=short)

    def _measured_starts(self, contestant: Contestant, work: str) -> list[float]:
        name = f"{contestant.title}, {work}"
        if name not in self._starts:
            folder = provide(tiny(work), self._data)
            # The first start is not counted: it may keep something for the later ones.
            runs = [self._run(contestant, work, folder, "out", ()) for _ in range(_STARTS + 1)][1:]
            self._starts[name] = [each.seconds for each in runs]
        return self._starts[name]

    def _run(self, contestant: Contestant, work: str, data: Path, name: str, options: tuple[str, ...]) -> Run:
        out = self._scratch / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        arguments = ["--work", work, "--data", str(data), "--out", str(out), *contestant.arguments, *options]
        return run(f"benchmarks.contestants.{contestant.module}", arguments, limit=self._limit)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="Time and memory of joins as their input grows.")
    for name, default, meaning in (
        ("--changes", [100_000, 1_000_000, 4_000_000, 10_000_000, 20_000_000, 100_000_000], "numbers of changes of orders"),
        ("--ids", [1_000, 50_000, 1_000_000, 10_000_000], "numbers of orders"),
        ("--partitions", [2, 4, 16, 64, 256], "numbers of partitions"),
        ("--pairs", [1, 3, 10, 30], "numbers of rows in a place, of a join of as many changes by places"),
    ):
        made.add_argument(name, type=int, nargs="*", metavar="N", default=default, help=f"{meaning}, or none (default: %(default)s)")
    made.add_argument(
        "--at",
        type=int,
        default=1_000_000,
        metavar="N",
        help="changes where partitions or pairs vary, and at least where orders do (default: %(default)s)",
    )
    made.add_argument(
        "--contestants", nargs="+", default=[OURS, OURS_DIRECT], metavar="NAME", help="who (default: ours, functions of columns)"
    )
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    made.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="most seconds of one run (default: %(default).0f)")
    made.add_argument(
        "--plot", type=Path, default=Path("growth"), metavar="FILE", help="write FILE.png and FILE.svg (default: %(default)s)"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    made.add_argument("--publish", action="store_true", help="plot into benchmarks/ and write the table into benchmarks/README.md")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and plot; returns the exit code, 1 when a point has no figure."""
    from benchmarks.harness.growth_plot import plot  # noqa: PLC0415, a plot needs more than a measurement

    asked = parser().parse_args(argv)
    asked.data.mkdir(parents=True, exist_ok=True)
    contestants = chosen(asked.contestants)
    grown = []
    with tempfile.TemporaryDirectory(prefix="runs-", dir=asked.data.resolve()) as scratch:
        growth = Growth(asked.data.resolve(), Path(scratch), asked.limit)
        for series, value, dataset, options in points(asked):
            for contestant in contestants:
                grown.append(growth.measure(contestant, series, value, dataset, options))
                result = grown[-1].trouble or (TOO_SHORT if grown[-1].too_short else f"{grown[-1].work:.1f} s of work")
                print(f"{series} {value:,}, {contestant.title}: {result}", file=sys.stderr, flush=True)
    table = growth_table(grown)
    print(table)
    plot(grown, ROOT / "benchmarks" / "growth" if asked.publish else asked.plot)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in grown], indent=1) + "\n", encoding="utf-8")
    if asked.publish:
        publish(METHOD, table, part="growth")
    return 1 if any(each.trouble for each in grown) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("python -m benchmarks.growth: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        print(f"python -m benchmarks.growth: {error}", file=sys.stderr)
        sys.exit(2)
