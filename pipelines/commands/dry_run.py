"""``--dry-run``: describes what would be read, written and run, after a look at the inputs."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from beam_joins.elements.iso_times import text_of_micros
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.changelog_files import find_files, nothing_at
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.changelogs.sampling import is_time
from beam_joins.pipelines.changelogs.snapshot_times import time_of_file
from beam_joins.pipelines.commands.command_line import beam_options
from beam_joins.pipelines.commands.command_spec import TO, CommandSpec
from beam_joins.pipelines.commands.incremental_state import memory_of
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.merged_result import MergedResult
from beam_joins.pipelines.commands.pipeline import built_pipeline
from beam_joins.pipelines.commands.result_options import changes_as
from beam_joins.pipelines.commands.run_once import job_alone
from beam_joins.pipelines.formats.output_records import Anew
from beam_joins.pipelines.results.output_files import Output
from beam_joins.pipelines.runners.runner import LOCAL
from beam_joins.pipelines.runners.runner_setup import setup_of
from beam_joins.transforms.connect.runs import StateFolder

_LOOK_BYTES: Final = 1 << 20
_FILES_SHOWN: Final = 10


def dry_run(spec: CommandSpec, args: Namespace, options: PipelineOptions) -> str:
    """The plan of a run, in lines of text. Reads of each file at most its first megabyte, and writes nothing.

    Raises InputError for what a run would refuse, and RunnerSetupError for what its runner lacks.
    """
    number, inputs_of_runs = StateFolder.last_run(args.state_dir) if args.state_dir else (0, {})
    memory = memory_of(spec, args, inputs_of_runs, is_new=False) if number else None
    job, outputs = job_alone(spec, args, look_bytes=_LOOK_BYTES, make=False, memory=memory)
    seen = ", of these what no earlier run has read" if args.inputs and number else ""
    remarks = list[str]()
    if memory is not None:
        arrived = {changelog.name: changelog.files for changelog in job.changelogs}
        memory.require_all(arrived)
        remarks = memory.remarks(arrived)
    lines = [f"run {number + 1} with {args.state_dir} would read{seen}" if args.state_dir else "would read"]
    for changelog in job.changelogs:
        name, inputs = changelog.name, args.inputs.get(changelog.name)
        of_address = () if inputs is None else [f"  {name}: {inputs.noun} {inputs.sources[name]}, {inputs.shown[name]}"]
        if changelog.files or of_address:
            lines += [*(of_address or _files(changelog)), *_columns(changelog)]
        else:
            path = next(side.path(args) for side in spec.sides if side.name == name)
            lines.append(f"  {nothing_at(name, path, find_files(name, path, changelog.columns.envelopes)) or f'{name}: no new files'}")
    lines.append("would write")
    changes = "--changes" if args.state_dir else "--output"
    as_ = {False: f", as {args.output_records}" if changes_as(args) != "changes" else "", True: ""}
    written = [f"  {output.name:<12} {output.path}, {output.records.format}{as_[output.records.of_finals]}" for output in outputs]
    if (merged := MergedResult.of(args)) is not None:
        written.append(f"  {TO:<12} {merged.looked_at(job, inputs_of_runs if number else None)}")
    lines += written or [f"  nothing: a run needs {changes}, --latest or --to"]
    if memory is not None and (all_outputs := (*outputs, *([] if merged is None else [merged.output(job)]))):
        memory.learn(job)
        lines += _state(job, all_outputs, args)
    columns = ", ".join(_columns_of(job))
    runner = options.view_as(StandardOptions).runner
    lines += [f"  rows of      {columns}", f"pipeline on {runner.removeprefix('beam_joins.')}", *_pipeline(job, outputs)]
    if runner != LOCAL:
        lines += ["setup", *(f"  {line}" for line in setup_of(options))]
    return "\n".join([*lines, *(f"remark: {remark}" for remark in [*remarks, *job.remarks()])])


def _state(job: Job, outputs: tuple[Output, ...], args: Namespace) -> Iterator[str]:
    """What becomes of the state of each transform, once the pipeline is built. Raises StateRefused, and InputError for an
    output that cannot begin anew.
    """
    folder = StateFolder(args.state_dir, only_read=True)
    built = built_pipeline(job, outputs, beam_options(None, args.beam_options), "", folder)
    for output in outputs:
        output.begun(Anew.of(built.result, folder))
    decisions = folder.decisions()
    stored = Counter[str](), Counter[str]()
    for each in StateFolder.summary(args.state_dir).transforms:
        for sums, count in zip(stored, (each.rows, each.bytes), strict=True):
            sums[each.label.rpartition("/")[0]] += count
    rows, sizes = stored
    gone = [label for label in rows if label not in decisions]
    if not gone and all(decision.verdict == "kept" for decision in decisions.values()):
        yield f"state: all {counted(len(decisions), 'transform')} go on"
        return
    yield "state"
    verdicts = {label: (each.verdict, "" if each.verdict == "kept" else f", as {each.why}") for label, each in decisions.items()}
    for label, (verdict, why) in {**verdicts, **dict.fromkeys(gone, ("gone", ""))}.items():
        size = f", {counted(rows[label], 'row')}, {sizes[label]:,} bytes" if label in rows else ""
        yield f"  {label:<16} {verdict}{size}{why}"


def _files(changelog: Changelog) -> Iterator[str]:
    files = changelog.files
    yield f"  {changelog.name}: {counted(len(files), 'file')}, {sum(file.bytes for file in files):,} bytes"
    for file in files[:_FILES_SHOWN]:
        yield f"    {file.shown}, {file.reader.name}, {file.bytes:,} bytes"
    if len(files) > _FILES_SHOWN:
        yield f"    and {counted(len(files) - _FILES_SHOWN, 'other file')}"


def _columns(changelog: Changelog) -> Iterator[str]:
    columns = changelog.columns
    file_types = dict(changelog.types) if changelog.table is None else changelog.table.types
    types = (f"{name}: {file_types.get(name) or ' or '.join(changelog.kinds_of(name)) or 'null'}" for name in changelog.rows_have)
    yield f"    columns      {', '.join(types)}"
    yield f"    key          {', '.join(columns.key)}"
    if columns.enveloped:
        yield f"    sequence, time and deletes as the {'envelopes say' if changelog.table is None else 'log says'}"
        return
    if columns.snapshots is not None:
        of_files = replace(columns, timestamp=columns.snapshots.timestamp)
        times = sorted(time_of_file(changelog.name, file, of_files) for file in changelog.files)
        yield f"    snapshots    {', '.join(map(text_of_micros, dict.fromkeys(times)))}: compared in the run"
        return
    ordering = ", ".join(filter(None, (columns.sequence, *columns.within)))
    without = "none: the time orders the changes" if columns.timestamp else "none: the last row of a key counts"
    yield f"    sequence     {ordering or without}"
    yield f"    time         {f'{columns.timestamp}, {_times_of(changelog, columns.timestamp)}' if columns.timestamp else 'none'}"
    meanings = {"deletes": (columns.delete, columns.deletes)}
    meanings |= {"truncates": (columns.truncating, columns.truncates), "ignored": (columns.ignoring, columns.ignored)}
    for name, (column, words) in meanings.items():
        if column is not None or name == "deletes":
            yield f"    {name:<12} {'none' if column is None else f'where {column} is one of ' + ', '.join(sorted(words))}"


def _times_of(changelog: Changelog, column: str) -> str:
    """The kinds of the values in the column of times, in words: by its type in each file, or else by the first records."""
    words = dict[str, None]()
    said = {"whole numbers": f"whole numbers in {changelog.columns.unit}", "text": "ISO 8601 text"}
    for type_ in dict.fromkeys(dict(file.reader.types(file)).get(column, "") for file in changelog.files):
        if is_time(type_) is None:
            words |= dict.fromkeys(
                [said["text"]] if "string" in type_ else [said.get(each, each) for each in changelog.kinds_of(column)]
            )
        else:
            words[type_ if is_time(type_) else said["whole numbers"]] = None
    return " or ".join(words) or said["whole numbers"]


def _columns_of(job: Job) -> Iterator[str]:
    if job.groups is not None:
        yield from (*job.groups.by, *job.groups.aggregates)
        return
    if job.computed is not None:
        yield from job.computed.columns([changelog.rows_have for changelog in job.changelogs])
        return
    for side, share in job.shares.items():
        if share.nested:
            yield f"{share.nested} (a row of {job.changelogs[side].name})"
        elif share.columns is None:
            yield from job.changelogs[side].rows_have
        else:
            yield from (name for _, name in share.columns)


def _pipeline(job: Job, outputs: tuple[Output, ...]) -> Iterator[str]:
    keys = [", ".join(changelog.columns.key) for changelog in job.changelogs]
    tables = [f"TableFromChangelog({changelog.name} by {key})" for changelog, key in zip(job.changelogs, keys, strict=True)]
    yield from (f"  {table}" for table in tables)
    if job.keeps is not None:
        yield f"  FilterTable({job.keeps})"
    if len(tables) > 1:
        on = f"{', '.join(job.foreign_key)} refers to {keys[1]}" if job.foreign_key else f"{keys[0]} = {keys[1]}"
        yield f"  {'ForeignKeyJoin' if job.foreign_key else 'TableTableJoin'}({on}, how={job.how})"
    if job.computed is not None and job.computed.where:
        yield f"  FilterTable({job.computed.where})"
    if job.groups is not None:
        yield f"  AggregateTable({', '.join(map(str, job.groups.aggregates.values()))} {job.groups})"
    yield from (f"  {'LatestTable' if output.records.of_finals else 'changes'} -> {output.path}" for output in outputs)
