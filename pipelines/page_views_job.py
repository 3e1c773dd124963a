"""What ``python -m pipelines.page_views`` does, once its options are understood: look, run, publish."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins import LatestTable
from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.columns import Columns
from beam_joins.pipelines.changelog_files.exact_json import dumps_line
from beam_joins.pipelines.changelog_files.json_lines import read_objects
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.read_changelog import OnBadRecord, ReadChangelog
from beam_joins.pipelines.changelog_files.reading import Reading
from beam_joins.pipelines.changelog_files.tally import TallyDropped
from beam_joins.pipelines.changelog_files.write_parts import Report, WriteParts, WriteReport, read_report
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.command.runner import any_runner
from beam_joins.pipelines.week_over_week import has_week, row_of, week_over_week
from beam_joins.transforms.engine.block_writer import timestamped


@dataclass(frozen=True, kw_only=True)
class PageViewsJob:
    """Everything that the run needs to know."""

    views: Changelog
    output: Output
    on_bad_record: OnBadRecord

    def check(self) -> None:
        """Raise InputError for columns that are not there."""
        self.views.require("--page", self.views.columns.key)
        self.views.require("--time", self.views.columns.timestamp)

    def run(self, options: PipelineOptions, progress: Progress) -> Report:
        """Run it and publish the output; gives what was counted."""
        with Staging([self.output]) as staging:
            report_path = f"{staging.beside(self.output)}/report.json"
            with ExitStack() as running:
                with progress.phase("starting the runner"):
                    ready = running.enter_context(any_runner(options))
                with progress.phase("run", staging.said):
                    self._pipeline(ready, staging, report_path).run().wait_until_finish()
            with progress.phase("finishing"):
                report = read_report(report_path)
                parts = sorted(part.path for part in report.parts)
                staging.publish({self.output.name: parts}, one_file=True)
        return report

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows that a run has published."""
        return read_objects(self.output.path)

    def _pipeline(self, options: PipelineOptions, staging: Staging, report_path: str) -> beam.Pipeline:
        pipeline = beam.Pipeline(options=options)
        read = pipeline | "Read views" >> ReadChangelog(
            self.views, Reading(columns=self.views.columns, key=None), on_bad_record=self.on_bad_record, as_dicts=True
        )
        views = read.rows | "Views" >> beam.Map(view_of, self.views.columns)
        compared = week_over_week(views)
        written = (
            compared.table
            | "Latest" >> LatestTable()
            | "Rows" >> beam.MapTuple(lambda page_and_week, counts: pa.array([dumps_line(row_of(page_and_week, counts))], pa.binary()))
            | "Write" >> beam.ParDo(WriteParts(self.output, staging.beside(self.output)))
        )
        dropped = compared.dropped | "Tally" >> beam.ParDo(TallyDropped("views"))
        _ = (read.tallies, dropped, written) | "Report" >> WriteReport(report_path)
        return pipeline


def view_of(row: dict[str, Any], columns: Columns) -> WindowedValue:
    """A record as an element of the stream: its page, at its time. Raises InputError for a time that is no date.

    >>> view_of({"page": "/", "at": 7}, Columns(key="page", timestamp="at")).value
    ('/', None)
    """
    micros = columns.time_of(row)
    if not has_week(micros):
        raise InputError(
            f"views: {row[columns.timestamp]!r} in column '{columns.timestamp}' is not in the years 2 to 9998: is it in another unit"
            f" than {columns.unit}? (--time-unit)"
        )
    return timestamped((row[columns.key], None), micros)
