"""Builds and runs the pipeline of a command: read, join, count, write."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import LatestTable, MapTable, vectorized, versioned
from beam_joins.columns.sorting import valid
from beam_joins.functions.marked_functions import built_in
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.changelogs.changelog_rows import ChangelogRows
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.read_records import ReadRecords
from beam_joins.pipelines.changelogs.read_table import ReadTable
from beam_joins.pipelines.commands.computed_rows import ComputedRows
from beam_joins.pipelines.commands.grouped_rows import GroupedRows
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.join_columns import completed, has_both, join_of, refers_to_none
from beam_joins.pipelines.commands.result_rows import ResultRows
from beam_joins.pipelines.commands.run_progress import WatchedReport, WatchedRun, log_beside
from beam_joins.pipelines.commands.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.formats.output_records import Anew
from beam_joins.pipelines.results.count_figures import Counted, figures, without_reference
from beam_joins.pipelines.results.counts import TallyDropped, TallyRows, TallyUnreferring
from beam_joins.pipelines.results.output_files import Output, Staging
from beam_joins.pipelines.results.write_parts import WriteParts, WriteReport
from beam_joins.transforms.connect.runs import (
    ReplayOptions,
    StateFolder,
    empty_pipeline,
    grown_partitions,
    suggested_partitions,
    tell_no_drops,
)
from beam_joins.transforms.connect.tables import begins_anew, compared_as, prepared

StartRunner: TypeAlias = Callable[[], AbstractContextManager[PipelineOptions]]
"""Starts the runner of a pipeline, and yields the options that use it."""


def run_job(
    job: Job, outputs: Sequence[Output], staging: Staging, start: StartRunner, progress: Progress, folder: StateFolder | None = None
) -> tuple[WatchedReport, tuple[Output, ...], frozenset[str]]:
    """Run the pipeline of a job, which writes parts of the outputs; gives the report that names them, and what was observed, the
    outputs as their parts are merged, and the names of the counts that begin anew.

    With a folder the run goes on where the last one ended. Raises InputError for an output that cannot begin anew, as the
    result does.
    """
    report_path = f"{staging.attempt(outputs[0].claimed)}/report.json"
    with ExitStack() as running:
        with progress.phase("starting the runner"):
            ready = running.enter_context(start())
        run = WatchedRun(job.changelogs, report_path, staging.size_text)
        built = built_pipeline(job, outputs, ready, report_path, folder)
        pipeline, made = written(built, outputs, staging, report_path, folder)
        watched = run.run(pipeline, progress)
    with progress.phase("finishing"):
        return run.report(watched), made, built.anew


class Built(NamedTuple):
    """A pipeline with the table of the result, its final rows if an output has them, what is counted on the way, and the names of
    the counts of tables that begin anew.
    """

    pipeline: beam.Pipeline
    result: Any
    finals: Any
    facts: list[Any]
    anew: frozenset[str]


def built_pipeline(
    job: Job, outputs: Sequence[Output], options: PipelineOptions, report_path: str, folder: StateFolder | None
) -> Built:
    """The pipeline up to its result; with a folder it goes on where the last run ended."""
    replay = options.view_as(ReplayOptions)
    if replay.beam_joins_partitions is None:
        replay.beam_joins_partitions = _partitions(sum(changelog.bytes for changelog in job.changelogs), folder)
    if job.read_again:
        replay.beam_joins_changed = "rebuild"
    pipeline = empty_pipeline(options)
    tell_no_drops(pipeline)
    if folder is not None:
        folder.attach(pipeline, read_again=[f"{name.capitalize()}/Table" for name in job.read_again])
    of_finals = folder is None and not job.reports and all(output.records.of_finals for output in outputs)
    in_types = job.groups is not None or job.computed is not None or any(output.records.typed for output in outputs)
    result, facts, anew = _result(pipeline, job, report_path, in_types=in_types, goes_on=folder is not None, of_finals=of_finals)
    if len(job.changelogs) > 1 and job.how not in ("semi", "anti"):
        matched = TallyRows(job.changelogs[0].name, {MATCHED: has_both})
        facts.append(result | "Tally matched" >> beam.ParDo(matched))
        anew |= _counted_anew(result, MATCHED)
    if job.computed is not None:
        result = ComputedRows(job, job.computed).made_of(result)
    if job.groups is not None:
        result, dropped = GroupedRows(job, job.groups).made_of(result)
        facts.append(dropped)
    finals = result | "Latest" >> LatestTable() if any(output.records.of_finals for output in outputs) else None
    return Built(pipeline, result, finals, facts, frozenset(anew))


def _partitions(size: int, folder: StateFolder | None) -> int:
    """The number of partitions for input of so many bytes."""
    if folder is None:
        return suggested_partitions(size)
    return grown_partitions(max(size, folder.bytes), folder.partitions)


def written(
    built: Built, outputs: Sequence[Output], staging: Staging, report_path: str, folder: StateFolder | None
) -> tuple[beam.Pipeline, tuple[Output, ...]]:
    """The pipeline, which writes parts of the outputs, as these are given back, and a report that names them."""
    made, facts = tuple(output.begun(Anew.of(built.result, folder)) for output in outputs), list(built.facts)
    for output in made:
        rows = built.finals if output.records.of_finals else built.result
        parts = WriteParts(output, staging.attempt(output.claimed))
        facts.append(rows | f"Write {output.name}" >> beam.ParDo(parts))
    _ = tuple(facts) | "Report" >> WriteReport(report_path)
    return built.pipeline, made


def _counted_anew(table: Any, *names: str) -> set[str]:
    """The names of counts of a table, if it begins anew."""
    return set() if begins_anew(table) is None else {*names}


def _result(
    pipeline: beam.Pipeline, job: Job, report_path: str, *, in_types: bool, goes_on: bool, of_finals: bool
) -> tuple[Any, list[Any], set[str]]:
    """The table of the result, the counts made on the way to it, and the names of those that begin anew; ``of_finals``: nobody
    asks for the changes of joined rows.
    """
    plans = job.plans(in_types=in_types)
    tables, facts, counted = [], [], []
    for number, (changelog, plan, stored) in enumerate(zip(job.changelogs, plans, job.rows_stored, strict=True)):
        name, log = changelog.name, log_beside(report_path, number)
        records = ReadRecords(
            name,
            changelog.parts(),
            # a table in a database tells which columns are new, and results have those of the first run
            ColumnReader(plan if changelog.table is None else replace(plan, allowed=None)),
            bytes=changelog.bytes,
            on_bad_record=job.on_bad_record,
            remedy=job.unfit_remedy(number),
            named=True,
            log=log,
            beginning=changelog.beginning,
        )
        # the state does not depend on these checks of records
        as_stored = replace(plan, numbers=stored.numbers, added=stored.lacks)
        rows = ChangelogRows(records, as_stored)
        reads = rows.table(
            emit=job.emit or ("updates" if changelog.columns.snapshots is None else "changes"),
            without_earlier=job.on_bad_record,
            completed_by=built_in("completed rows")(partial(completed, as_stored)),
        )
        read = pipeline | name.capitalize() >> ReadTable(reads.of_run).with_outputs()
        tables.append(read.table)
        counted.append(Counted(name, read.rows, read.dropped))
        facts.append(read.counts)
        left_out = (read.bad_records, read.dropped) | f"Left out of {name}" >> beam.Flatten()
        facts.append(left_out | f"Tally {name}" >> beam.ParDo(TallyDropped(name)))
    left, plan = tables[0], plans[0]
    if job.keeps is not None:
        left = tables[0] = left | "Filter" >> job.keeps.table(plan)
    refers = {UNREFERRING: refers_to_none} if plan.reference else {}
    facts.append(left | "Count rows" >> beam.ParDo(TallyRows(job.changelogs[0].name, {ROWS: valid, **refers})))
    anew = _counted_anew(left, ROWS, UNREFERRING)
    for number, (changelog, select) in enumerate(zip(job.changelogs, job.selects(), strict=True)):
        if select is not None:  # the table is stored with other columns
            selected = vectorized(built_in("selected columns")(versioned(f"--select {job.select}")(select)))
            tables[number] |= f"Select {changelog.name}" >> MapTable(selected)
    left = tables[0]
    if len(tables) == 1:
        return left, facts + (figures(counted, tables, left) if job.reports else []), anew
    if refers and job.how in ("inner", "right", "semi"):
        facts.append(left | "Tally join" >> beam.ParDo(TallyUnreferring("join", refers_to_none)))
    # what is remembered must have the same columns in all runs, with a report and without
    keeps_reference = bool(plan.reference) and (job.reports or goes_on)
    if refers:
        tables = [compared_as(each, compared) for each, compared in zip(tables, job.compared, strict=True)]
    if of_finals:
        tables = [prepared(each, f"Final {of.name}", needs="final") for each, of in zip(tables, job.changelogs, strict=True)]
    forms = [job.forms(side) for side in range(len(tables))]
    joins = join_of(
        job.how,
        job.select,
        job.shares,
        forms,
        job.result_forms,
        refers=bool(refers),
        numbers={side: ResultRows(job).numbers(side) for side in job.shares},
        keeps_reference=keeps_reference,
    )
    result = tuple(tables) | "Join" >> joins
    if job.reports:
        facts += figures(counted, tables, result)
    return (without_reference(result) if keeps_reference else result), facts, anew
