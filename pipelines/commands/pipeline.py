"""Builds and runs the pipeline of a command: read, join, count, write."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import LatestTable
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.read_records import ReadRecords
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.joined import completed, has_both, join_of, refers_to_none
from beam_joins.pipelines.commands.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.commands.watched_run import WatchedReport, WatchedRun, log_beside
from beam_joins.pipelines.formats.change_records import Anew
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.io.sources.changelog_rows import ChangelogRows
from beam_joins.pipelines.io.sources.read_table import ReadTable
from beam_joins.pipelines.results.count_figures import Counted, figures, without_reference
from beam_joins.pipelines.results.counts import TallyDropped, TallyRows, TallyUnreferring
from beam_joins.pipelines.results.output_files import Output, Staging
from beam_joins.pipelines.results.write_parts import WriteParts, WriteReport
from beam_joins.sorting import valid
from beam_joins.transforms.connect import (
    ReplayOptions,
    StateFolder,
    growing_partitions,
    prepared,
    suggested_partitions,
)

StartRunner: TypeAlias = Callable[[int], AbstractContextManager[PipelineOptions]]
"""Starts the runner of a pipeline whose input has so many bytes, and yields the options that use it."""


def run_job(
    job: Job, outputs: Sequence[Output], staging: Staging, start: StartRunner, progress: Progress, folder: StateFolder | None = None
) -> tuple[WatchedReport, tuple[Output, ...]]:
    """Run the pipeline of a job, which writes parts of the outputs; gives the report that names them, and what was observed, and
    the outputs as their parts are merged.

    With a folder the run goes on where the last one ended. Raises InputError for an output that cannot begin anew, as the
    result does.
    """
    report_path = f"{staging.attempt(outputs[0].claimed)}/report.json"
    with ExitStack() as running:
        with progress.phase("starting the runner"):
            ready = running.enter_context(start(sum(each.bytes for each in job.changelogs)))
        run = WatchedRun(job.changelogs, report_path, staging.size_text)
        pipeline, made = pipeline_of(job, outputs, ready, staging, report_path, folder)
        watched = run.run(pipeline, progress)
    with progress.phase("finishing"):
        return run.report(watched), made


def pipeline_of(
    job: Job,
    outputs: Sequence[Output],
    options: PipelineOptions,
    staging: Staging,
    report_path: str,
    folder: StateFolder | None,
) -> tuple[beam.Pipeline, tuple[Output, ...]]:
    """The pipeline, which writes parts of the outputs, as these are given back, and a report that names them; with a folder it
    goes on where the last run ended.
    """
    replay = options.view_as(ReplayOptions)
    if folder is None or folder.partitions is None:  # else as many as in the runs before
        suggested = suggested_partitions if folder is None else growing_partitions
        replay.beam_joins_partitions = replay.beam_joins_partitions or suggested(sum(changelog.bytes for changelog in job.changelogs))
    pipeline = beam.Pipeline(options=options)
    os.rmdir(pipeline.local_tempdir)  # for transforms in other languages; it would stay if the process were killed
    if folder is not None:
        folder.attach(pipeline)
    of_finals = folder is None and not job.reports and all(output.records.of_finals for output in outputs)
    readings = job.readings(tuple(dict.fromkeys(output.records.form for output in outputs)))
    result, facts = _result(pipeline, job, readings, report_path, goes_on=folder is not None, of_finals=of_finals)
    if len(job.changelogs) > 1 and job.how not in ("semi", "anti"):
        matched = TallyRows(job.changelogs[0].name, {MATCHED: has_both})
        facts.append(result | "Tally matched" >> beam.ParDo(matched))
    made = tuple(output.begun(Anew.of(result, folder)) for output in outputs)
    for output in made:
        rows = result | "Latest" >> LatestTable() if output.records.of_finals else result
        written = WriteParts(output, staging.attempt(output.claimed))
        facts.append(rows | f"Write {output.name}" >> beam.ParDo(written))
    _ = tuple(facts) | "Report" >> WriteReport(report_path)
    return pipeline, made


def _result(
    pipeline: beam.Pipeline, job: Job, readings: Sequence[Reading], report_path: str, *, goes_on: bool, of_finals: bool
) -> tuple[Any, list[Any]]:
    """The table of the result, and the counts made on the way to it; ``of_finals``: nobody asks for the changes of
    joined rows.
    """
    tables, facts, counted = [], [], []
    for number, (changelog, reading) in enumerate(zip(job.changelogs, readings, strict=True)):
        name, log = changelog.name, log_beside(report_path, number)
        records = ReadRecords(
            name,
            changelog.parts(),
            # a table in a database tells which columns are new, and results have those of the first run
            ColumnReader(reading if changelog.table is None else replace(reading, allowed=None)),
            bytes=changelog.bytes,
            on_bad_record=job.on_bad_record,
            remedy="--on-bad-record=drop goes on without such records",
            named=True,
            log=log,
        )
        rows = ChangelogRows(records, reading)
        reads = rows.table(without_earlier=job.on_bad_record, completed_by=partial(completed, reading))
        read = pipeline | name.capitalize() >> ReadTable(reads.of_run).with_outputs()
        tables.append(read.table)
        counted.append(Counted(name, read.rows, read.dropped))
        facts.append(read.counts)
        for what, records_left_out in (("bad records", read.bad_records), ("dropped", read.dropped)):
            facts.append(records_left_out | f"Tally {what} of {name}" >> beam.ParDo(TallyDropped(name)))
    left, reading = tables[0], readings[0]
    if job.keeps is not None:
        left = tables[0] = left | "Filter" >> job.keeps.table(reading)
    refers = {UNREFERRING: refers_to_none} if reading.reference else {}
    facts.append(left | "Count rows" >> beam.ParDo(TallyRows(job.changelogs[0].name, {ROWS: valid, **refers})))
    if len(tables) == 1:
        return left, facts + (figures(counted, tables, left) if job.reports else [])
    if refers and job.how in ("inner", "right", "semi"):
        facts.append(left | "Tally join" >> beam.ParDo(TallyUnreferring("join", refers_to_none)))
    # what is remembered must have the same columns in all runs, with a report and without
    keeps_reference = bool(reading.reference) and (job.reports or goes_on)
    if of_finals:
        tables = [prepared(each, f"Final {of.name}", needs="final") for each, of in zip(tables, job.changelogs, strict=True)]
    result = tuple(tables) | "Join" >> join_of(job.how, job.shares, readings, keeps_reference=keeps_reference)
    if job.reports:
        facts += figures(counted, tables, result)
    return (without_reference(result) if keeps_reference else result), facts
