"""The pipeline of a command that makes tables of changelogs: read, joined, counted, written."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ChangeBatch, FilterTable, LatestTable, vectorized
from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.in_order import WriteInOrder, some_at_a_time
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.read_changelog import OnBadRecord, ReadChangelog
from beam_joins.pipelines.changelog_files.reading import ENOUGH, Reading
from beam_joins.pipelines.changelog_files.splicing import avro_changes, json_changes, json_rows_as_lines
from beam_joins.pipelines.changelog_files.tally import TallyDropped, TallyRows, TallyUnreferring
from beam_joins.pipelines.changelog_files.write_parts import WriteParts, WriteReport
from beam_joins.pipelines.command.watched_run import log_beside
from beam_joins.pipelines.jobs.joined import has_both, join_of, refers_to_none, table
from beam_joins.pipelines.jobs.names import How
from beam_joins.pipelines.jobs.select import Share
from beam_joins.pipelines.jobs.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.report.counted import Counted, figures, without_reference
from beam_joins.sorting import valid
from beam_joins.transforms.engine.checked_table import final_table, whole_table
from beam_joins.transforms.engine.partitions import growing_partitions, suggested_partitions
from beam_joins.transforms.engine.replay_options import ReplayOptions
from beam_joins.transforms.engine.state_folder import StateFolder

CHANGES: Final = "changes"
LATEST: Final = "latest"


class Shape(NamedTuple):
    """One changelog or two, how each is read, and what their rows give to those of the result."""

    changelogs: Sequence[Changelog]
    readings: Sequence[Reading]
    shares: Mapping[int, Share]
    how: How
    on_bad_record: OnBadRecord
    reports: bool
    one_file: bool
    """Whether the parts of an output become one file, in the order of what is in them; else each is one file a bundle."""


def pipeline_of(
    shape: Shape,
    outputs: Sequence[Output],
    options: PipelineOptions,
    staging: Staging,
    report_path: str,
    folder: StateFolder | None,
) -> beam.Pipeline:
    """The pipeline, which writes parts of the outputs, and a report that names them; with a folder it goes on where the last run ended.

    There the changes are in the order of their positions, in parts that are to be merged.
    """
    replay = options.view_as(ReplayOptions)
    if folder is None or folder.partitions is None:  # else as many as in the runs before
        suggested = suggested_partitions if folder is None else growing_partitions
        replay.beam_joins_partitions = replay.beam_joins_partitions or suggested(
            sum(changelog.bytes for changelog in shape.changelogs)
        )
    pipeline = beam.Pipeline(options=options)
    os.rmdir(pipeline.local_tempdir)  # for transforms in other languages; it would stay if the process were killed
    if folder is not None:
        folder.attach(pipeline)
    of_finals = folder is None and not shape.reports and all(output.name == LATEST for output in outputs)
    result, facts = _result(pipeline, shape, report_path, goes_on=folder is not None, of_finals=of_finals)
    # the changes of a row stand one after the other in the file
    if folder is None and any(output.name == CHANGES for output in outputs):
        result = whole_table(result)
    if len(shape.changelogs) > 1 and shape.how not in ("semi", "anti"):
        matched = TallyRows(shape.changelogs[0].name, {MATCHED: has_both})
        facts.append(result | "Tally matched" >> beam.ParDo(matched))
    for output in outputs:
        directory = staging.beside(output)
        if output.name == CHANGES and folder is not None:
            facts.append(result | f"Write {output.name}" >> WriteInOrder(output, directory, partial(encoded_changes, output=output)))
            continue
        rows = result if output.name == CHANGES else result | "Latest" >> LatestTable()
        by_content = folder is not None or shape.one_file
        facts.append(
            rows | f"Write {output.name}" >> beam.ParDo(WriteParts(output, directory, RECORDS[output.name], by_content=by_content))
        )
    _ = tuple(facts) | "Report" >> WriteReport(report_path)
    return pipeline


def _result(pipeline: beam.Pipeline, shape: Shape, report_path: str, *, goes_on: bool, of_finals: bool) -> tuple[Any, list[Any]]:
    """The table of the result, and what is counted on the way to it; ``of_finals``: nobody asks for the changes of joined rows."""
    tables, facts, counted = [], [], []
    for number, (changelog, reading) in enumerate(zip(shape.changelogs, shape.readings, strict=True)):
        name, log = changelog.name, log_beside(report_path, number)
        read = pipeline | f"Read {name}" >> ReadChangelog(changelog, reading, on_bad_record=shape.on_bad_record, log=log)
        rows, dropped = read.rows | name.capitalize() >> table(reading)
        tables.append(rows)
        counted.append(Counted(name, read.rows, dropped))
        facts += [read.tallies, dropped | f"Tally {name}" >> beam.ParDo(TallyDropped(name))]
    left, reading = tables[0], shape.readings[0]
    if reading.least is not None:
        left = tables[0] = left | "Minimal amount" >> FilterTable(vectorized(lambda rows: rows[ENOUGH]))
    refers = {} if reading.reference is None else {UNREFERRING: refers_to_none}
    facts.append(left | "Count rows" >> beam.ParDo(TallyRows(shape.changelogs[0].name, {ROWS: valid, **refers})))
    if len(tables) == 1:
        return left, facts + (figures(counted, tables, left) if shape.reports else [])
    if refers and shape.how in ("inner", "right", "semi"):
        facts.append(left | "Tally join" >> beam.ParDo(TallyUnreferring("join", refers_to_none)))
    # what is remembered must have the same columns in all runs, with a report and without
    keeps_reference = reading.reference is not None and (shape.reports or goes_on)
    if of_finals:
        tables = [final_table(each, f"Final {of.name}") for each, of in zip(tables, shape.changelogs, strict=True)]
    result = tuple(tables) | "Join" >> join_of(shape.how, shape.shares, shape.readings, keeps_reference=keeps_reference)
    if shape.reports:
        facts += figures(counted, tables, result)
    return (without_reference(result) if keeps_reference else result), facts


def encoded_changes(batch: ChangeBatch, output: Output) -> Iterator[tuple[ChangeBatch, pa.Array]]:
    """The changes of a batch, some at a time, and their records; old values are those of the whole batch."""
    schema = output.schema
    for some, old, new in some_at_a_time(batch, pc.struct_field(batch.values, output.format)):
        yield some, json_changes(some, old, new) if schema is None else avro_changes(some, old, new, schema["fields"][0]["type"])


def changes_of(batch: ChangeBatch, output: Output) -> Iterator[pa.Array]:
    """The changes of a batch, encoded, some at a time."""
    return (records for _, records in encoded_changes(batch, output))


def latest_of(batch: pa.RecordBatch, output: Output) -> Iterator[pa.Array]:
    """The rows of a batch, encoded."""
    rows = batch["value"].field(output.format)
    yield json_rows_as_lines(rows) if output.schema is None else rows


RECORDS: Final = {CHANGES: changes_of, LATEST: latest_of}
