"""``python -m pipelines.page_views``: the page views of each week against those of the week before, for every page.

Only the command line is here, since a worker does not load the main module; the pipeline is :func:`beam_joins.pipelines.week_over_week.week_over_week`.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beam_joins.pipelines.changelog_files.columns import NANOSECONDS, Columns
from beam_joins.pipelines.command.command_line import add_runner, beam_options, parse_known, said
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.interruption import interruptible
from beam_joins.pipelines.command.program import program
from beam_joins.pipelines.command.progress import Progress

if TYPE_CHECKING:
    from beam_joins.pipelines.page_views_job import PageViewsJob

PROGRAM: Final = program("page-views")
SAMPLE_DIRECTORY: Final = "sample-data"
EXAMPLES: Final = f"""\
examples:
  {PROGRAM}
      the sample: five weeks of a made-up site, made in sample-data/ on first use

  {PROGRAM} --views 'logs/2026-*.jsonl.gz' --page url --time ts --time-unit ms --output weeks.jsonl
      your own page views, and all weeks of all pages written to a file

  {PROGRAM} --runner=SparkRunner
      on Spark, on all cores of this machine; --spark_master_url=spark://host:7077 for a cluster
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 if what the user gave cannot be used, 1 if the run failed for another reason."""
    progress = Progress()
    with progress.phase("start-up"):
        own, rest = parse_known(_parser(), argv)
    with ExitStack() as running:
        interruption = running.enter_context(interruptible())
        try:
            path = own.output or os.path.join(running.enter_context(tempfile.TemporaryDirectory()), "weeks.jsonl")
            with progress.phase("start-up"):
                options = beam_options(own.runner, rest)
                job = _job(own, path)
            report = job.run(options, progress)
            from beam_joins.pipelines.page_views_report import totals, weeks_table

            print(weeks_table(job.rows()))
        except BaseException as error:
            if interruption.by:
                print(f"{PROGRAM}: interrupted; no results were written", file=sys.stderr)
                return interruption.exit_code
            sentence, code = said(error)
            print(f"{PROGRAM}: {sentence}", file=sys.stderr)
            return code
    rows = sum(part.records for part in report.parts)
    print(totals(report.tallies, progress.seconds, f"{'rows written':<36} {rows:>14,}  {own.output}" if own.output else ""))
    return 0


def _job(own: argparse.Namespace, path: str) -> "PageViewsJob":
    for option in ("page", "time"):
        if not getattr(own, option):
            raise InputError(f"--{option} must name a column")

    from beam_joins.pipelines.changelog_files.changelog import find_changelog
    from beam_joins.pipelines.changelog_files.outputs import Output, check_output, refuse_inputs
    from beam_joins.pipelines.made_up.views import views_on_first_use
    from beam_joins.pipelines.page_views_job import PageViewsJob

    if check_output("--output", path) != "json lines":
        raise InputError(f"--output: {path} would be Avro, but the weeks are written as JSON lines: name it .jsonl")
    if own.views is None:
        try:
            own.views = str(views_on_first_use(Path(SAMPLE_DIRECTORY)))
        except OSError as error:
            raise InputError(f"cannot write the sample into {SAMPLE_DIRECTORY}: {error.strerror}") from error
    columns = Columns(key=own.page, timestamp=own.time, unit=own.time_unit)
    views = find_changelog("views", own.views, columns)
    refuse_inputs(path, [file.path for file in views.files])
    job = PageViewsJob(views=views, output=Output("weeks", path, "json lines"), on_bad_record=own.on_bad_record)
    job.check()
    return job


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Count page views by page and week, and set every week beside the one before. Weeks begin on Monday, 00:00 UTC. "
        "Without options it runs on sample data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    views = parser.add_argument_group(
        "page views", "The suffix says the format: .avro, or .jsonl, .json, .ndjson (also with .gz) with one JSON object a line."
    )
    views.add_argument("--views", metavar="PATH", help="file or glob (default: the sample)")
    views.add_argument("--page", default="page", metavar="COLUMN", help="what is counted (default: %(default)s)")
    views.add_argument(
        "--time",
        default="at",
        metavar="COLUMN",
        help="event time: whole number, ISO 8601 text or Avro timestamp (default: %(default)s)",
    )
    views.add_argument(
        "--time-unit", choices=tuple(NANOSECONDS), default="us", help="what a whole number counts since 1970 (default: %(default)s)"
    )
    views.add_argument(
        "--on-bad-record",
        choices=("fail", "drop"),
        default="fail",
        help="what to do with a line that is not JSON or a record without a usable page or time (default: %(default)s); dropped ones are "
        "counted and the first few named",
    )
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="JSON lines of all weeks of all pages: page, week, views, last_week, change (in percent); an existing file is replaced when the "
        "run has succeeded",
    )
    add_runner(parser)
    return parser


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said below, in one sentence
    sys.exit(main())
