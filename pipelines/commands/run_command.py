"""Runs a command: parses its options, runs its job, and prints the summary, or one sentence about a failure.

Beam is imported only when a run begins: help and errors of the command line come without it.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from beam_joins.errors import InputError
from beam_joins.pipelines.base.hidden_packages import hide_packages
from beam_joins.pipelines.base.interruption import Interruption, interruptible, leave_threads_behind
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.commands.command_line import beam_options, sentence_and_code
from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.commands.command_spec import CHANGES, LATEST, TO, CommandSpec
from beam_joins.pipelines.commands.exports import Exports
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.result_options import check_descriptions, check_result_options
from beam_joins.pipelines.commands.spooled_inputs import spooled_inputs
from beam_joins.pipelines.commands.standard_streams import STANDARD, standard_result, standard_streams
from beam_joins.pipelines.runners.warm_start import start_early

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beam_joins.pipelines.commands.summary import Summary

_LOOK_ROWS: Final = 1_000
"""The number of rows that a dry run reads of a table of a database."""


def run_command(spec: CommandSpec, argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    # gRPC reads it while it is imported, and would tell standard error about connections that end
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if argv is None:
        hide_packages(sys.argv[1:])
    progress, exports, absent = Progress(), None, list[str]()
    with interruptible() as interruption:
        try:
            with progress.phase("start-up"):
                args = parse(spec, argv)
                check_descriptions(args, spec)
                absent = _absent_folders(args)
                exports = Exports(spec, args, progress)
                interruption.at_second = args.follow
                check_result_options(args, spec)
                if not args.dry_run:
                    start_early(args.runner, args.beam_options)  # a JVM starts while Beam is imported
                options = beam_options(args.runner, args.beam_options)
                _take_changes(args, options)
                _require_file_systems(args)
                exports.open()
            run = _looked_at if args.dry_run else _in_runs if args.state_dir else _alone
            if (text := run(spec, args, options, progress, interruption, exports)) is not None:
                print(text)
        except (Exception, KeyboardInterrupt) as error:
            interrupted = interruption.sentence, 0 if interruption.at_second else interruption.exit_code
            sentence: object = type(error).__name__
            try:
                sentence, code = interrupted if interruption.has_raised else sentence_and_code(error)
            finally:
                if exports is not None:
                    exports.failed(str(sentence), interrupted=interruption.has_raised)
            for folder in absent:
                with suppress(OSError):  # it has files, or was not made
                    os.rmdir(folder)
            print(f"{program(spec.command)}: {sentence}", file=sys.stderr)
            if interruption.has_raised:
                leave_threads_behind(code)
            return code
    return 0


def _absent_folders(args: Namespace) -> list[str]:
    """The folders of results that are not there, each behind those in it."""
    folders = list[str]()
    for path in (args.changes, args.output, args.latest):
        folder = "" if not path or "://" in path else path
        while folder and not os.path.lexists(folder):
            folders.append(folder)
            folder = os.path.dirname(folder)
    return folders


def _take_changes(args: Namespace, options: "PipelineOptions") -> None:
    """Find out whether the result may be made anew. Raises InputError for the option of Beam jobs that reads an input again."""
    from beam_joins.transforms.connect.runs import ReplayOptions

    replay = options.view_as(ReplayOptions)
    if replay.beam_joins_read_again:
        raise InputError("--beam_joins_read_again is for Beam jobs: name an input with --read-again")
    args.rebuilds = bool(args.read_again) or replay.beam_joins_changed == "rebuild"


def _require_file_systems(args: Namespace) -> None:
    """Raise InputError for a file about the run in a store that does not answer."""
    from beam_joins.pipelines.base.paths import require_file_system

    for option, path in (("--json", args.json), ("--report", args.report)):
        require_file_system(option, path or "")


def _alone(
    spec: CommandSpec, args: Namespace, options: "PipelineOptions", progress: Progress, interruption: Interruption, exports: Exports
) -> str | None:
    result = standard_result(args)
    with standard_streams(spec, args), spooled_inputs(spec, args):
        with progress.phase("start-up"):
            from beam_joins.pipelines.commands.merged_result import MergedResult
            from beam_joins.pipelines.commands.run_once import job_alone, run_alone

            job, outputs = job_alone(spec, args)
            if (merged := MergedResult.of(args)) is not None:
                outputs += (merged.output(job),)
                merged.prepare(job)
        exports.started(job, outputs)
        report, files = run_alone(job, outputs, options, progress, None if merged is None else merged.replace)
        if merged is not None:
            files[TO] = [merged.shown]
        if result is not None:
            files |= {CHANGES if result == "output" else LATEST: [STANDARD]}
        summary = job.summary(report, files, progress.seconds)
    text = _described(args, summary, exports)
    if result is None or text is None:
        return text
    print(text, file=sys.stderr)  # standard output has the result
    return None


def _looked_at(
    spec: CommandSpec, args: Namespace, options: "PipelineOptions", progress: Progress, interruption: Interruption, exports: Exports
) -> str | None:
    from beam_joins.pipelines.commands.dry_run import dry_run

    with standard_streams(spec, args), spooled_inputs(spec, args, _LOOK_ROWS):
        return dry_run(spec, args, options)


def _in_runs(
    spec: CommandSpec, args: Namespace, options: "PipelineOptions", progress: Progress, interruption: Interruption, exports: Exports
) -> str | None:
    with progress.phase("start-up"):
        from beam_joins.pipelines.commands.follow import follow
        from beam_joins.pipelines.commands.incremental_runs import IncrementalRuns
        from beam_joins.pipelines.runners.runner_setup import runner

        runs = IncrementalRuns(spec, args)
    if args.follow:
        return follow(runs, options, args, interruption, exports)
    arrived = runs.arrived()
    ended = runs.run(arrived, partial(runner, options), progress, interruption, exports)
    if ended is None:
        exports.succeeded(None)
        elements = next((inputs.elements for inputs in args.inputs.values()), "files")
        return "; ".join([f"no new {elements}: nothing to do", *runs.absent(arrived)])
    return _described(args, ended.summary(progress.seconds), exports, ended.latest)


def _described(args: Namespace, summary: "Summary", exports: Exports, latest: int | None = None) -> str | None:
    """The text of a summary to print, if any; all files that describe the run are written."""
    from beam_joins.pipelines.commands.write_json import STDOUT, write_json

    exports.succeeded(summary, latest)
    if args.report:
        from beam_joins.pipelines.commands.report.page import write_page

        write_page(args.report, summary)
    path = args.json
    if path is not None:
        write_json(summary, path)
    return None if path == STDOUT else summary.text()
