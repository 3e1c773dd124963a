"""How soon a round of ``--follow`` gives its results when much is remembered: ``python -m benchmarks.follow``."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import psutil
import pyarrow.parquet as pq

from benchmarks.contestants.beam_pipeline import RUNNERS, SPARK
from benchmarks.data.nightly import FIRST, HUNDREDTH, provide_nightly
from benchmarks.harness.process import ROOT

_TABLES: Final = {"left": "orders", "right": "customers"}
_ORDERS: Final = 1_000
_CUSTOMERS: Final = 100
_RUN: Final = "run "


class Following:
    """``beam-joins join --follow`` over two folders, and the seconds of its rounds."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._rounds = 0

    @classmethod
    @contextmanager
    def started(cls, runner: str, folder: Path) -> Iterator[Self]:
        """The command, until the block ends; ``folder`` has its inputs, its results and its state."""
        for name in _TABLES.values():
            (folder / name).mkdir()
        sides = [
            option
            for side, name in _TABLES.items()
            for option in (
                f"--{side}={folder / name}",
                f"--{side}-key=id",
                f"--{side}-sequence-by=seq",
                f"--{side}-timestamp-by=ts",
                f"--{side}-apply-as-deletes=deleted",
            )
        ]
        select = "--select=left.id,left.amount,right.name"
        places = [f"--changes={folder / 'changes'}", f"--state-dir={folder / 'state'}"]
        rounds = ["--follow", "--whole-files", "--every=100ms"]
        runners = SPARK if runner == "SparkRunner" else (f"--runner={runner}",)
        command = [sys.executable, "-m", "pipelines.join", *sides, "--foreign-key=customer", select, *places, *rounds, *runners]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield cls(process, folder)
            finally:
                process.terminate()
                process.communicate()

    def round(self, files: dict[str, Path]) -> tuple[float, float]:
        """Let the files arrive; gives the seconds until their results are there, and the processor's.

        Raises ``SystemExit`` if the command ends instead.
        """
        self._rounds += 1
        used, begin = self._used(), time.monotonic()
        for name, file in files.items():
            os.rename(file, self._folder / name / f"{self._rounds:06d}.parquet")
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_RUN):
                return time.monotonic() - begin, self._used() - used
        raise SystemExit("the command has ended before its results were there")

    def _used(self) -> float:
        top = psutil.Process(self._process.pid)
        times = [each.cpu_times() for each in (top, *top.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))


def pieces(data: Path, scratch: Path, rounds: int) -> Iterator[dict[str, Path]]:
    """The files of the first round, which has all rows, and of some small ones behind it."""
    first = {}
    for name in _TABLES.values():
        first[name] = scratch / f"first-{name}.parquet"
        os.link(data / FIRST / name / "part-00000.parquet", first[name])
    yield first
    later = {name: pq.read_table(data / HUNDREDTH / name) for name in _TABLES.values()}
    for number in range(rounds):
        files = {}
        for name, rows in (("orders", _ORDERS), ("customers", _CUSTOMERS)):
            files[name] = scratch / f"later-{name}.parquet"
            pq.write_table(later[name].slice(number * rows, rows), files[name])
        yield files


def measured(runner: str, data: Path, scratch: Path, rounds: int) -> str:
    """A line of the table."""
    folder = scratch / runner
    folder.mkdir()
    with Following.started(runner, folder) as following:
        (first, _), *warm = [following.round(files) for files in pieces(data, scratch, rounds)]
    # the first small round still makes what later ones find
    seconds, used = (sorted(each) for each in zip(*warm[1:], strict=True))
    middle = statistics.median
    spread = f"{middle(seconds):.2f} s ({seconds[0]:.2f} to {seconds[-1]:.2f})"
    return f"| {runner} | {first:.0f} s | {spread} | {middle(used):.2f} s |"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.follow", description=f"Seconds of rounds of {_ORDERS + _CUSTOMERS:,} new records with --follow."
    )
    made.add_argument("--rows", type=int, default=10_000_000, metavar="N", help="orders that are remembered (default: %(default)s)")
    made.add_argument("--rounds", type=int, default=12, metavar="N", help="small rounds (default: %(default)s)")
    made.add_argument("--runners", nargs="+", choices=RUNNERS, default=RUNNERS[::-1], metavar="NAME", help="which (default: both)")
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    asked = made.parse_args(argv)
    data = provide_nightly(asked.rows, asked.data.resolve(), shop=False)
    print("| runner | the first run | a round, median, least and most | its processor time |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="follow-", dir=asked.data.resolve()) as scratch:
        for runner in asked.runners:
            print(measured(runner, data, Path(scratch), asked.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
