"""What a run that goes on costs, next to one over the whole history: ``python -m benchmarks.resumed``."""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beam_joins import StateFolder
from benchmarks.data.nightly import ALL, FIRST, SHARES, THOUSANDTH, provide_nightly
from benchmarks.harness.comparison import compare
from benchmarks.harness.process import ROOT
from benchmarks.works import WORKS, Work

_START = "start"


@dataclass(frozen=True)
class Job:
    """A job of the benchmark's: a narrow foreign-key join, from Parquet to Parquet."""

    work: Work = WORKS["fk-uniform"]
    imported: str = "beam_joins.transforms.foreign_key_join, beam_joins.pipelines.systems.files.read_parquet"

    def arguments(self, data: Path, out: Path, state: Path | None, *, how: str = "inner", rebuild: bool = False) -> list[str]:
        """What Python runs for a piece."""
        job = [
            "-m",
            "benchmarks.contestants.beam_joins",
            "--work",
            self.work.name,
            "--data",
            str(data),
            "--out",
            str(out),
            "--how",
            how,
        ]
        job += ["--rebuild"] if rebuild else []
        return job if state is None else [*job, "--state", str(state)]


@dataclass(frozen=True)
class Command:
    """The orders command: wide rows with text keys, from JSON lines to JSON lines."""

    work: Work = WORKS["orders-json"]
    imported: str = "beam_joins.pipelines.orders"

    def arguments(self, data: Path, out: Path, state: Path | None) -> list[str]:
        """What Python runs for a piece."""
        files = [f"--{name}={data / name}/*.jsonl" for name in self.work.tables]
        return [
            "-m",
            "pipelines.orders",
            *files,
            *([f"--output={out}/changes.jsonl"] if state is None else [f"--changes={out}", f"--state-dir={state}"]),
        ]


WHAT: Final[dict[str, Job | Command]] = {"job": Job(), "command": Command()}


class Nights:
    """Runs over the pieces of a history, one after the other, and the processor seconds of each."""

    def __init__(self, what: Job | Command, data: Path, scratch: Path) -> None:
        self._what, self._data, self._scratch = what, data, scratch
        self.seconds: dict[str, list[float]] = {}

    def measure(self) -> None:
        """A run over all of it, and those that go on, which give the same rows; raises ``SystemExit`` if they
        do not.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._timed(_START, ["-c", f"import apache_beam, {self._what.imported}"])
        self._run(f"{FIRST}, without state", FIRST, "without")
        self._run(ALL, ALL, ALL)
        for piece in (FIRST, *SHARES):
            if piece == THOUSANDTH and isinstance(self._what, Job):
                self._measure_rebuild(self._what, piece)
            self._run(piece, piece, f"pieces/{piece}", self._scratch / "state")
        comparison = compare(self._scratch / ALL, self._scratch / "pieces", next(iter(self._what.work.results.values())))
        if not comparison.same:
            raise SystemExit(f"the pieces give other rows than one run: {comparison}")

    def _measure_rebuild(self, what: Job, piece: str) -> None:
        """A left join over everything, and one in place of the inner join, of which the folder has the state."""
        StateFolder.copy(str(self._scratch / "state"), str(self._scratch / "copy"))
        self._timed(f"{ALL}, left join", what.arguments(self._data / ALL, self._scratch / "left", None, how="left"))
        rebuilt = what.arguments(self._data / piece, self._scratch / "rebuilt", self._scratch / "copy", how="left", rebuild=True)
        self._timed(f"{piece}, rebuilt as a left join", rebuilt)

    def _run(self, name: str, piece: str, out: str, state: Path | None = None) -> None:
        self._timed(name, self._what.arguments(self._data / piece, self._scratch / out, state))

    def _timed(self, name: str, arguments: Sequence[str]) -> None:
        before = _children()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.seconds.setdefault(name, []).append(_children() - before)

    def table(self) -> str:
        """The least seconds of each run, and what part they are of a run over everything, as there would be
        without state.
        """
        least = {name: min(seconds) for name, seconds in self.seconds.items()}
        whole, start = least[ALL], least[_START]
        lines = ["| run | processor seconds | of a run over everything | beyond the start of Python and Beam |", "|---|---|---|---|"]
        for name, seconds in least.items():
            beyond = f"{max(seconds - start, 0):.2f} ({max(seconds - start, 0) / (whole - start):.0%})"
            lines.append(f"| {name} | {seconds:.2f} | {seconds / whole:.0%} | {beyond} |")
        return "\n".join(lines)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.resumed", description="Processor seconds of incremental runs.")
    made.add_argument(
        "--of",
        choices=WHAT,
        default="job",
        help="a job over narrow rows in Parquet, or the orders command on JSON lines (default: %(default)s)",
    )
    made.add_argument("--rows", type=int, default=5_000_000, metavar="N", help="orders of the first run (default: %(default)s)")
    made.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="how often all is measured; the least counts (default: %(default)s)"
    )
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    asked = made.parse_args(argv)
    data = provide_nightly(asked.rows, asked.data.resolve(), shop=asked.of == "command")
    with tempfile.TemporaryDirectory(prefix="runs-", dir=asked.data.resolve()) as scratch:
        nights = Nights(WHAT[asked.of], data, Path(scratch) / "round")
        for _ in range(asked.rounds):
            nights.measure()
    print(nights.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
