"""What a command does that makes tables of changelogs. Beam is imported only when a run begins: help and errors of the command line come without it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam_joins.pipelines.command.command_line import beam_options, said
from beam_joins.pipelines.command.interruption import Interruption, interruptible
from beam_joins.pipelines.command.program import program
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.jobs.options import Arguments, parse
from beam_joins.pipelines.jobs.runs_options import check_runs_options

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beam_joins.pipelines.changelog_files.write_parts import Report
    from beam_joins.pipelines.jobs.summary import Summary


def run_command(names: Names, argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 if what the user gave cannot be used, 1 if the run failed for another reason."""
    progress = Progress()
    with interruptible() as interruption:
        try:
            with progress.phase("start-up"):
                arguments = parse(names, argv)  # which may start a server already
                own = arguments.own
                interruption.at_second = own.follow
                check_runs_options(own, names)
                options = beam_options(own.runner, arguments.beam)
            run = _looked_at if own.dry_run else _in_runs if own.state_dir else _alone
            if (text := run(names, arguments, options, progress, interruption)) is not None:
                print(text)
        except (Exception, KeyboardInterrupt) as error:
            interrupted = "interrupted; no results were written", 0 if interruption.at_second else interruption.exit_code
            sentence, code = interrupted if interruption.has_raised else said(error)
            print(f"{program(names.command)}: {sentence}", file=sys.stderr)
            return code
    return 0


def _alone(
    names: Names, arguments: Arguments, options: "PipelineOptions", progress: Progress, interruption: Interruption
) -> str | None:
    with progress.phase("start-up"):
        from beam_joins.pipelines.jobs.alone import job_alone

        job, outputs = job_alone(names, arguments.own)
    report, files = job.run(outputs, options, progress)
    _write_report(names, arguments, report, progress)
    return _said(arguments, job.summary(report, files, progress.seconds))


def _looked_at(
    names: Names, arguments: Arguments, options: "PipelineOptions", progress: Progress, interruption: Interruption
) -> str | None:
    from beam_joins.pipelines.jobs.dry_run import dry_run

    return dry_run(names, arguments.own, options)


def _in_runs(
    names: Names, arguments: Arguments, options: "PipelineOptions", progress: Progress, interruption: Interruption
) -> str | None:
    with progress.phase("start-up"):
        from beam_joins.pipelines.command.runner import any_runner
        from beam_joins.pipelines.jobs.follow import follow
        from beam_joins.pipelines.jobs.runs import Runs

        own = arguments.own
        runs = Runs(names, own)
    if own.follow:
        return follow(runs, options, own, interruption)
    ended = runs.run(runs.arrived(), any_runner(options), progress, interruption)
    if ended is None:
        return "no new files: nothing to do"
    _write_report(names, arguments, ended.report, progress)
    return _said(arguments, ended.summary(progress.seconds))


def _write_report(names: Names, arguments: Arguments, report: "Report", progress: Progress) -> None:
    if arguments.own.report:
        from beam_joins.pipelines.report.page import write_page

        write_page(arguments.own.report, names, report, progress.seconds)


def _said(arguments: Arguments, summary: "Summary") -> str | None:
    """What to print of a summary; for programs it goes where the options say."""
    from beam_joins.pipelines.jobs.write_json import STDOUT, write_json

    path = arguments.own.json
    if path is not None:
        write_json(summary, path)
    return None if path == STDOUT else summary.text()
