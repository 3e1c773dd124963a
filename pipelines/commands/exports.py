"""``--metrics-file`` and ``--lineage-file``: how each run went, for programs that watch many jobs."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.exported_run import ExportedRun, Outcome, processor_seconds
from beam_joins.pipelines.commands.program import program

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.job import Job
    from beam_joins.pipelines.commands.lineage_file import LineageFile
    from beam_joins.pipelines.commands.metrics_file import MetricsFile
    from beam_joins.pipelines.commands.summary import Summary
    from beam_joins.pipelines.results.output_files import Output


class Exports:
    """The files that the options name, for one run after the other."""

    def __init__(self, spec: CommandSpec, args: Namespace, progress: Progress) -> None:
        self._spec, self._args = spec, args
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

                self._exports.append(MetricsFile(args.metrics_file, self._spec))
            if args.lineage_file:
                from beam_joins.pipelines.commands.lineage_file import LineageFile  # noqa: PLC0415  # an extra

                self._exports.append(LineageFile(args.lineage_file, self._spec, args))
        return self._exports

    def begin(self, progress: Progress) -> None:
        """Another run begins; its phases are timed by ``progress``."""
        self._run = ExportedRun(progress=progress, processor_begin=processor_seconds())

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
            print(f"{program(self._spec.command)}: {error}", file=sys.stderr)

    def _ended(self, outcome: Outcome) -> None:
        self._run.outcome, self._run.end = outcome, datetime.now(UTC)
        with ExitStack() as stack:  # all of them, even if one cannot be written
            for each in self.open():
                stack.callback(each.ended, self._run)
