"""``--metrics-file`` and ``--lineage-file``: how each run went, for programs that watch many jobs."""

import resource
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.commands.command_spec import Names
from beam_joins.pipelines.commands.program import program

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.job import Job
    from beam_joins.pipelines.commands.lineage_file import LineageFile
    from beam_joins.pipelines.commands.metrics_file import MetricsFile
    from beam_joins.pipelines.commands.summary import Summary
    from beam_joins.pipelines.results.output_files import Output

_MAXRSS_BYTES: Final = 1 if sys.platform == "darwin" else 1024


class Outcome(StrEnum):
    """How a run has ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(kw_only=True)
class ExportedRun:
    """A run: its times and its use of the machine; its job once it is built; its summary if it has succeeded, or a
    sentence on its failure.

    ``number`` and ``latest`` are the number of the run and the largest event time of all runs (microseconds), with
    ``--state-dir``.
    """

    progress: Progress
    begin: datetime = field(default_factory=lambda: datetime.now(UTC))
    processor_begin: float = 0.0
    end: datetime | None = None
    outcome: Outcome = Outcome.SUCCEEDED
    failure: str = ""
    job: "Job | None" = None
    outputs: "Sequence[Output]" = ()
    number: int | None = None
    summary: "Summary | None" = None
    latest: int | None = None

    @property
    def seconds(self) -> float:
        """The duration of the phases so far."""
        return sum(self.progress.seconds.values())

    @property
    def processor_seconds(self) -> float:
        """The processor time of this process since the run began (the first begins with the process), and of its children
        that have ended since then.
        """
        return _processor_seconds() - self.processor_begin

    @staticmethod
    def peak_bytes() -> dict[str, int]:
        """The largest memory so far of this process, and of the largest of its children that have ended."""
        who = {"command": resource.RUSAGE_SELF, "largest_worker": resource.RUSAGE_CHILDREN}
        return {name: resource.getrusage(each).ru_maxrss * _MAXRSS_BYTES for name, each in who.items()}


class Exports:
    """The files that the options name, for one run after the other."""

    def __init__(self, names: Names, args: Namespace, progress: Progress) -> None:
        self._names, self._args = names, args
        self._exports: list[MetricsFile | LineageFile] | None = None
        self._run = ExportedRun(progress=progress)

    def open(self) -> "Sequence[MetricsFile | LineageFile]":
        """The files, which are looked at when they are first asked for. Raises InputError for one of other content, and
        MissingExtra.
        """
        if self._exports is None:
            self._exports, args = [], self._args
            if args.metrics_file:
                from beam_joins.pipelines.commands.metrics_file import MetricsFile  # noqa: PLC0415  # an extra, and Beam

                self._exports.append(MetricsFile(args.metrics_file, self._names))
            if args.lineage_file:
                from beam_joins.pipelines.commands.lineage_file import LineageFile  # noqa: PLC0415  # an extra

                self._exports.append(LineageFile(args.lineage_file, self._names, args))
        return self._exports

    def begin(self, progress: Progress) -> None:
        """Another run begins; its phases are timed by ``progress``."""
        self._run = ExportedRun(progress=progress, processor_begin=_processor_seconds())

    def started(self, job: "Job", outputs: "Sequence[Output]", number: int | None = None) -> None:
        """The job of the run is built. Raises OutputError."""
        self._run.job, self._run.outputs, self._run.number = job, outputs, number
        for each in self.open():
            each.started(self._run)

    def succeeded(self, summary: "Summary | None", latest: int | None = None) -> None:
        """The run has succeeded; it had nothing to do where there is no summary. Raises OutputError."""
        self._run.summary, self._run.latest = summary, latest
        self._ended(Outcome.SUCCEEDED)

    def failed(self, sentence: str, *, interrupted: bool) -> None:
        """The run has failed, unless it succeeded before; a file that cannot be written is named on standard error."""
        if self._run.end is not None or self._args.dry_run:
            return
        self._run.failure = sentence
        try:
            self._ended(Outcome.INTERRUPTED if interrupted else Outcome.FAILED)
        except (InputError, OutputError) as error:
            print(f"{program(self._names.command)}: {error}", file=sys.stderr)

    def _ended(self, outcome: Outcome) -> None:
        self._run.outcome, self._run.end = outcome, datetime.now(UTC)
        with ExitStack() as stack:  # all of them, even if one cannot be written
            for each in self.open():
                stack.callback(each.ended, self._run)
