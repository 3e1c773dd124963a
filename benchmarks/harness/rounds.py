"""The measuring: round by round, case by case, one contestant after the other, each checked before it counts."""

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.data import files
from benchmarks.data.dataset import Dataset, tiny
from benchmarks.harness import environments
from benchmarks.harness.comparison import Comparison, compare
from benchmarks.harness.environments import Environment, Unavailable
from benchmarks.harness.figures import BUSY, SKIPPED, Measured, Run
from benchmarks.harness.kept_runs import KeptRuns
from benchmarks.harness.lineup import CONTESTANTS, DUCKDB, Case, Contestant
from benchmarks.harness.process import ContestantFailed, run
from benchmarks.harness.searched import best_settings
from benchmarks.works import WORKS

LIMIT_SECONDS: Final = 1800.0


class Rounds:
    """Measures contestants on cases, with their input in ``data``; a process may take ``limit`` seconds.

    In a ``small`` run a contestant's start is measured once, not in every case and round, and nothing is
    started before it is timed. Runs that are ``kept`` are not repeated.
    """

    def __init__(self, data: Path, *, small: bool, limit: float = LIMIT_SECONDS, kept: KeptRuns | None = None) -> None:
        self._data = data
        self._small = small
        self._limit = limit
        self._begin = time.monotonic()
        self._starts: dict[str, list[Run]] = {}
        self._warm: set[str] = set()
        self._environments: dict[str, Environment | Unavailable] = {}
        self._kept = kept
        self.measured: dict[tuple[str, str], Measured] = kept.measured() if kept else {}

    def measure(self, cases: Sequence[Case], contestants: Sequence[Contestant], rounds: int | None = None) -> list[Measured]:
        """All that is measured, in the order of cases and contestants; in so many rounds, or in as many as each case says."""
        self._data.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="runs-", dir=self._data) as scratch:
            of_case = {case.name: case.rounds if rounds is None else rounds for case in cases}
            for number in range(max(of_case.values(), default=0)):
                for case in cases:
                    for contestant in contestants:
                        if contestant.takes(case, small=self._small) and number < min(of_case[case.name], contestant.rounds):
                            self._tell(f"round {number + 1} of {of_case[case.name]}, {case.name}, {contestant.title}")
                            self._measure(case, contestant, Path(scratch), number)
                            if self._kept:
                                self._kept.keep(self.measured.values())
        return [
            self.measured[case.name, contestant.title]
            for case in cases
            for contestant in contestants
            if (case.name, contestant.title) in self.measured
        ]

    def _measure(self, case: Case, contestant: Contestant, scratch: Path, number: int) -> None:
        contestant = contestant.having(best_settings(contestant.title, case.name))
        key = (case.name, contestant.title)
        measured = self.measured.setdefault(key, Measured(case.name, contestant.title, case.size))
        if measured.trouble:
            return
        try:
            if len(measured.starts) <= number:
                self._start(case, contestant, scratch, measured)
            for size in contestant.sizes(case, small=self._small):
                if len(measured.runs.get(size, ())) > number:
                    continue
                done, comparison = self._checked(case.work, contestant, case.dataset(size), scratch)
                measured.runs.setdefault(size, []).append(done)
                measured.rows[size] = comparison.rows
                self._tell(
                    f"  {size:,} {case.unit}: {done.seconds:.1f} s, {done.processor:.1f} s of processors, "
                    f"{comparison}{_disturbance(done)}"
                )
        except ContestantFailed as failure:
            measured.trouble = str(failure)
            self._tell(f"  {contestant.title} {failure}")

    def _start(self, case: Case, contestant: Contestant, scratch: Path, measured: Measured) -> None:
        if self._small and contestant.title in self._starts:
            measured.starts = self._starts[contestant.title]
            return
        dataset = tiny(case.work)
        # The very first start on Spark keeps Spark's classes for all later ones, and any first start reads
        # its program from disk.
        program = "SparkRunner" if "SparkRunner" in contestant.arguments else contestant.module
        if program not in self._warm and not self._small:
            self._warm.add(program)
            with suppress(ContestantFailed):
                self._checked(case.work, contestant, dataset, scratch)
        done, _ = self._checked(case.work, contestant, dataset, scratch)
        measured.starts.append(done)
        self._starts.setdefault(contestant.title, measured.starts)
        self._tell(f"  start-up: {done.seconds:.1f} s")

    def once(self, case: Case, contestant: Contestant, scratch: Path) -> Run:
        """One run of a contestant in a case at its whole size, whose result is right; ``scratch`` keeps what it is compared with.

        Raises:
            ContestantFailed: it has failed, or its result differs.
        """
        return self._checked(case.work, contestant, case.dataset(case.size), scratch)[0]

    def _checked(self, work: str, contestant: Contestant, dataset: Dataset, scratch: Path) -> tuple[Run, Comparison]:
        reference = scratch / f"reference-{work}-{dataset.name}"
        if not reference.exists():
            self._run(work, CONTESTANTS[DUCKDB], dataset, reference)
        out = scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        done = self._run(work, contestant, dataset, out)
        results = WORKS[work].results.items()
        compared = [compare(reference / name, out / name, columns, retracts=contestant.retracts) for name, columns in results]
        for comparison in compared:
            if not comparison.same:
                raise ContestantFailed(f"differs from DuckDB on {dataset.left:,} rows: {comparison}")
        return done, compared[0]

    def _run(self, work: str, contestant: Contestant, dataset: Dataset, out: Path) -> Run:
        data = files.provide(contestant.reads(dataset), self._data)
        out.mkdir()
        arguments = ["--work", work, "--data", str(data), "--out", str(out), *contestant.arguments]
        module = f"benchmarks.contestants.{contestant.module}"
        return run(module, arguments, limit=self._limit, environment=self._environment(contestant.environment))

    def _environment(self, name: str) -> Environment:
        if name not in self._environments:
            try:
                self._environments[name] = environments.provide(name, self._data)
            except Unavailable as error:
                self._environments[name] = error
        compared = self._environments[name]
        if isinstance(compared, Unavailable):
            raise ContestantFailed(f"{SKIPPED}: {compared}")
        return compared

    def _tell(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begin:6.0f} s] {text}", file=sys.stderr, flush=True)


def _disturbance(done: Run) -> str:
    return f" ({done.others:.0%} of the machine went to something else)" if done.others > BUSY else ""
