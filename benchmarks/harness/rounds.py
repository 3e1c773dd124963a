"""The measuring: case by case, round by round, one contestant after the other, each checked before it counts."""

import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.data import files
from benchmarks.data.dataset import Dataset, tiny
from benchmarks.harness import environments
from benchmarks.harness.comparison import Comparison, compare
from benchmarks.harness.environments import Environment, Unavailable
from benchmarks.harness.figures import SKIPPED, Figure, Measurement, Run, figure
from benchmarks.harness.lineup import CONTESTANTS, DUCKDB, Case, Contestant
from benchmarks.harness.process import ContestantFailed, run
from benchmarks.harness.report import machine
from benchmarks.harness.searched import best_settings
from benchmarks.works import WORKS

LIMIT_SECONDS: Final = 1800.0
BUSY: Final = 0.15
"""A run that others have taken more than this part of the machine from is repeated once."""


class _Round(NamedTuple):
    start: float
    run: Run
    rows: int


class Rounds:
    """Measures contestants on cases, with their input in ``data``; a process may take ``limit`` seconds.

    In a ``small`` run a contestant's start is measured once, not in every case and round, nothing is
    started before it is timed, and no run is repeated.
    """

    def __init__(self, data: Path, *, small: bool, limit: float = LIMIT_SECONDS) -> None:
        self._data = data
        self._small = small
        self._limit = limit
        self._begin = time.monotonic()
        self._starts: dict[str, float] = {}
        self._warm: set[str] = set()
        self._environments: dict[str, Environment | Unavailable] = {}

    def measure(self, case: Case, contestants: Sequence[Contestant], rounds: int | None = None) -> Measurement:
        """The figures of those of the contestants that take part in a case; in so many rounds, or in as many as the case says."""
        self._data.mkdir(parents=True, exist_ok=True)
        taking = [each for each in contestants if each.takes(case, small=self._small)]
        done, troubles = defaultdict[str, list[_Round]](list), dict[str, str]()
        with tempfile.TemporaryDirectory(prefix="runs-", dir=self._data) as scratch:
            total = case.rounds if rounds is None else rounds
            for number in range(total):
                for each in taking:
                    if number < each.rounds and each.title not in troubles:
                        self._tell(f"round {number + 1} of {total}, {case.name}, {each.title}")
                        try:
                            done[each.title].append(self._round(case, each, Path(scratch)))
                        except ContestantFailed as failure:
                            troubles[each.title] = str(failure)
                            self._tell(f"  {each.title} {failure}")
        figures = tuple(self._figure(case, each, done[each.title], troubles.get(each.title, "")) for each in taking)
        disturbed = sum(each.run.others > BUSY for every in done.values() for each in every)
        return Measurement(case.name, machine(), figures, disturbed)

    def _figure(self, case: Case, contestant: Contestant, done: Sequence[_Round], trouble: str) -> Figure:
        if trouble:
            return Figure(contestant.title, case.size, trouble=trouble)
        starts, runs, rows = zip(*done, strict=True)
        return figure(
            contestant.title, case.size, starts, runs, rows=rows[0], measured_at=contestant.measured_size(case, small=self._small)
        )

    def _round(self, case: Case, contestant: Contestant, scratch: Path) -> _Round:
        contestant = contestant.having(best_settings(contestant.title, case.name))
        start = self._start(case, contestant, scratch)
        size = contestant.measured_size(case, small=self._small)
        done, comparison = self._checked(case.work, contestant, case.dataset(size), scratch)
        if done.others > BUSY and not self._small:
            self._tell(f"  {done.others:.0%} of the machine went to something else: once more")
            done = min(done, self._checked(case.work, contestant, case.dataset(size), scratch)[0], key=lambda each: each.others)
        self._tell(f"  {size:,} {case.unit}: {done.seconds:.1f} s, {done.processor:.1f} s of processors, {comparison}")
        return _Round(start, done, comparison.rows)

    def _start(self, case: Case, contestant: Contestant, scratch: Path) -> float:
        if self._small and contestant.title in self._starts:
            return self._starts[contestant.title]
        dataset = tiny(case.work)
        # The very first start on Spark keeps Spark's classes for all later ones, and any first start reads
        # its program from disk.
        program = "SparkRunner" if "SparkRunner" in contestant.arguments else contestant.module
        if program not in self._warm and not self._small:
            self._warm.add(program)
            with suppress(ContestantFailed):
                self._checked(case.work, contestant, dataset, scratch)
        seconds = self._checked(case.work, contestant, dataset, scratch)[0].seconds
        self._tell(f"  start-up: {seconds:.1f} s")
        return self._starts.setdefault(contestant.title, seconds) if self._small else seconds

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
