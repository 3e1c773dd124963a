"""Runs a pipeline over changelogs, shows its progress, and collects what was counted."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import apache_beam as beam

from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.read_log import LogEntries, ReadLog, WasRead, read_said
from beam_joins.pipelines.commands.engine_figures import EngineFigures
from beam_joins.pipelines.results.write_parts import Report, read_report

_LOG: Final = "read.log"


def log_beside(path: str, changelog: int) -> LogEntries | None:
    """Where workers say how far they have come with a changelog, in the folder of a file; ``None`` where
    files cannot be appended to.
    """
    return LogEntries(os.path.join(os.path.dirname(path), _LOG), changelog) if is_local(path) else None


class Step(NamedTuple):
    """A step and those whose outputs it takes, by name."""

    name: str
    takes: tuple[str, ...]


class Watched(NamedTuple):
    """The observations of a run that has ended: the counts of the engine, if its runner reports them; the records
    read of each changelog; its steps.
    """

    engine: EngineFigures | None
    read: tuple[WasRead, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class WatchedReport(Report):
    """The report of a run, and the observations of it."""

    watched: Watched | None = None


def watched_of(report: Report) -> Watched | None:
    """The observations of a run, if it was watched."""
    return report.watched if isinstance(report, WatchedReport) else None


class WatchedRun:
    """Runs pipelines that read these changelogs, and log that beside a path; ``written`` describes the results so
    far.
    """

    def __init__(self, changelogs: Sequence[Changelog], path: str, written: Callable[[], str]) -> None:
        entries = log_beside(path, 0)
        self._log = ReadLog(None if entries is None else entries.path, [changelog.parts() for changelog in changelogs])
        self._written = written
        self._path = path
        self._begin = time.monotonic()

    def size_text(self) -> str:
        """The progress of the run so far, in words."""
        read = self._log.read()
        plan = read_said(read, self._log.bytes, time.monotonic() - self._begin)
        if plan and sum(each.bytes for each in read) < self._log.bytes:
            return plan
        return ", ".join(filter(None, (plan, self._written())))

    def report(self, watched: Watched) -> WatchedReport:
        """The report of the run, with the observations of it. Raises OSError if the run has written no report."""
        report = read_report(self._path)
        return WatchedReport(report.tallies, report.parts, report.figures, watched)

    def run(self, pipeline: beam.Pipeline, progress: Progress) -> Watched:
        """Run to the end; gives the observations."""
        self._begin = time.monotonic()
        with progress.phase("run", self.size_text):
            result = pipeline.run()
            result.wait_until_finish()
        steps = steps_of(pipeline)
        return Watched(EngineFigures.of(result, [step.name for step in steps]), tuple(self._log.read()), steps)


def steps_of(pipeline: beam.Pipeline) -> tuple[Step, ...]:
    """The outermost transforms of a pipeline, each behind those that it takes from.

    >>> pipeline = beam.Pipeline()
    >>> _ = pipeline | "Numbers" >> beam.Create([1, 2]) | "Doubled" >> beam.Map(lambda number: 2 * number)
    >>> steps_of(pipeline)
    (Step(name='Numbers', takes=()), Step(name='Doubled', takes=('Numbers',)))
    """
    root = pipeline.transforms_stack[0]
    return tuple(
        Step(
            part.full_label,
            tuple(dict.fromkeys(source.producer.full_label.split("/")[0] for source in part.inputs if source.producer is not None)),
        )
        for part in root.parts
    )
