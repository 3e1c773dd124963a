"""``python -m pipelines.orders``: two changelogs, orders and customers, to the orders enriched with their customers.

Only the command line is here, since a worker does not load the main module; the pipeline is :func:`beam_joins.pipelines.enrich.enrich`.
"""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beam_joins.pipelines.command.command_line import beam_options, said
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.interruption import Interruption, interruptible
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.orders_options import PROGRAM, Arguments, columns_of, envelopes_of, layout_given, parse
from beam_joins.pipelines.orders_runs_options import check_runs_options
from beam_joins.pipelines.report.options import check_report

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beam_joins.pipelines.changelog_files.write_parts import Report
    from beam_joins.pipelines.orders_job import OrdersJob

SAMPLE_DIRECTORY: Final = "sample-data"
OUTPUT_DIRECTORY: Final = "orders-out"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 if what the user gave cannot be used, 1 if the run failed for another reason."""
    progress = Progress()
    with progress.phase("start-up"):
        arguments = parse(argv)
    own = arguments.own
    with interruptible(at_second=own.follow) as interruption:
        try:
            with progress.phase("start-up"):
                check_runs_options(own)
                if own.report:
                    check_report(own.report)
                options = beam_options(own.runner, arguments.beam)
            run = _in_runs if own.state_dir else _alone
            print(run(arguments, options, progress, interruption))
        except (Exception, KeyboardInterrupt) as error:
            interrupted = "interrupted; no results were written", 0 if own.follow else interruption.exit_code
            sentence, code = interrupted if interruption.has_raised else said(error)
            print(f"{PROGRAM}: {sentence}", file=sys.stderr)
            return code
    return 0


def _alone(arguments: Arguments, options: "PipelineOptions", progress: Progress, interruption: Interruption) -> str:
    with progress.phase("start-up"):
        job = _job(arguments)
    report, files = job.run(options, progress)
    from beam_joins.pipelines.command.summary import summary

    _write_report(arguments, report, progress)
    return summary(report, files, progress.seconds, job.remarks())


def _in_runs(arguments: Arguments, options: "PipelineOptions", progress: Progress, interruption: Interruption) -> str:
    with progress.phase("start-up"):
        from beam_joins.pipelines.command.runner import any_runner
        from beam_joins.pipelines.command.summary import summary
        from beam_joins.pipelines.orders_follow import follow
        from beam_joins.pipelines.orders_runs import OrdersRuns

        own = arguments.own
        runs = OrdersRuns(own)
    if own.follow:
        return follow(runs, options, every=own.every, whole_files=own.whole_files, interruption=interruption)
    ended = runs.run(runs.arrived(), any_runner(options), progress, interruption)
    if ended is None:
        return "no new files: nothing to do"
    _write_report(arguments, ended.report, progress)
    return summary(ended.report, ended.paths, progress.seconds, ended.remarks)


def _write_report(arguments: Arguments, report: "Report", progress: Progress) -> None:
    if arguments.own.report:
        from beam_joins.pipelines.report.page import write_page

        write_page(arguments.own.report, report, progress.seconds)


def _job(arguments: Arguments) -> "OrdersJob":
    own = arguments.own
    if (own.orders is None) != (own.customers is None):
        raise InputError("give both --orders and --customers, or neither for the sample")

    from beam_joins.pipelines.changelog_files.changelog import find_changelog
    from beam_joins.pipelines.changelog_files.outputs import check_output, refuse_inputs
    from beam_joins.pipelines.changelog_files.paths import real
    from beam_joins.pipelines.orders_job import CHANGES, LATEST, OrdersJob, output_of
    from beam_joins.pipelines.sample import sample_on_first_use

    if not own.output and not own.latest:
        own.output = os.path.join(OUTPUT_DIRECTORY, "enriched.jsonl")
        own.latest = os.path.join(OUTPUT_DIRECTORY, "latest.jsonl")
    if own.output and own.latest and real(own.output) == real(own.latest):
        raise InputError(f"--output and --latest are both {own.output}: give them different names")
    formats = {
        (name, path): check_output(option, path)
        for name, option, path in ((CHANGES, "--output", own.output), (LATEST, "--latest", own.latest))
        if path
    }
    if own.orders is None:
        try:
            own.orders, own.customers = map(str, sample_on_first_use(Path(SAMPLE_DIRECTORY)))
        except OSError as error:
            raise InputError(f"cannot write the sample into {SAMPLE_DIRECTORY}: {error.strerror}") from error
    orders, customers = (
        find_changelog(
            side,
            vars(own)[side],
            columns_of(side, own),
            layout_given(side, own),
            envelopes_of(side, own),
        )
        for side in ("orders", "customers")
    )
    for _, path in formats:
        refuse_inputs(path, [file.path for changelog in (orders, customers) for file in changelog.files])
    job = OrdersJob(
        orders=orders,
        customers=customers,
        outputs=tuple(
            output_of(name, path, format_, orders=orders, customers=customers, customer_field=own.customer_field)
            for (name, path), format_ in formats.items()
        ),
        foreign_key=own.foreign_key,
        how=own.how,
        amount=own.amount,
        min_amount=own.min_amount,
        customer_field=own.customer_field,
        on_bad_record=own.on_bad_record,
        one_file=not own.parts,
        reports=bool(own.report),
    )
    job.check()
    return job


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said below, in one sentence
    sys.exit(main())
