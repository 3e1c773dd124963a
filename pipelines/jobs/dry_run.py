"""``--dry-run``: what would be read, written and run, in words, from a look at the inputs."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Final

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.outputs import Output
from beam_joins.pipelines.command.command_line import ENGINE
from beam_joins.pipelines.command.runner import setup_of
from beam_joins.pipelines.jobs.alone import job_alone
from beam_joins.pipelines.jobs.job import Job
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.jobs.pipeline import LATEST

_LOOK_BYTES: Final = 1 << 20
_FILES_SHOWN: Final = 10


def dry_run(names: Names, own: Namespace, options: PipelineOptions) -> str:
    """What a run would do. Reads of each file at most its first megabyte, and writes nothing.

    Raises InputError for what a run would refuse, and RunnerSetupError for what its runner lacks.
    """
    job, outputs = job_alone(names, own, look_bytes=_LOOK_BYTES, make=False)
    seen = f", of these the files that no run with {own.state_dir} has read" if own.state_dir else ""
    lines = [f"would read{seen}", *(line for changelog in job.changelogs for line in _input(changelog)), "would write"]
    lines += [f"  {output.name:<12} {output.path}, {output.format}" for output in outputs]
    columns = ", ".join(_columns_of(job))
    runner = options.view_as(StandardOptions).runner
    lines += [f"  rows of      {columns}", f"pipeline on {'DirectRunner' if runner == ENGINE else runner}", *_pipeline(job, outputs)]
    if runner != ENGINE:
        lines += ["setup", *(f"  {line}" for line in setup_of(options))]
    return "\n".join([*lines, *(f"remark: {remark}" for remark in job.remarks())])


def _input(changelog: Changelog) -> Iterator[str]:
    files, columns = changelog.files, changelog.columns
    yield f"  {changelog.name}: {_counted(len(files), 'file')}, {sum(file.bytes for file in files):,} bytes"
    for file in files[:_FILES_SHOWN]:
        yield f"    {file.shown}, {file.format}, {file.bytes:,} bytes"
    if len(files) > _FILES_SHOWN:
        yield f"    and {_counted(len(files) - _FILES_SHOWN, 'other file')}"
    said = dict(changelog.types)
    types = (f"{name}: {said.get(name) or ' or '.join(changelog.kinds_of(name)) or 'null'}" for name in changelog.rows_have)
    yield f"    columns      {', '.join(types)}"
    yield f"    key          {columns.key}"
    if columns.enveloped:
        yield "    sequence, time and deletes as the envelopes say"
        return
    ordering = ", ".join(filter(None, (columns.sequence, *columns.within)))
    yield f"    sequence     {ordering or 'none: the time orders the changes'}"
    yield f"    time         {columns.timestamp}, whole numbers in {columns.unit}"
    yield f"    deletes      {f'where {columns.delete} is one of ' + ', '.join(sorted(columns.deletes)) if columns.delete else 'none'}"


def _columns_of(job: Job) -> Iterator[str]:
    for side, share in job.shares.items():
        if share.nested:
            yield f"{share.nested} (a row of {job.changelogs[side].name})"
        elif share.columns is None:
            yield from job.changelogs[side].rows_have
        else:
            yield from (name for _, name in share.columns)


def _pipeline(job: Job, outputs: tuple[Output, ...]) -> Iterator[str]:
    tables = [f"TableFromChangelog({changelog.name} by {changelog.columns.key})" for changelog in job.changelogs]
    yield from (f"  {table}" for table in tables)
    if job.min_amount is not None:
        yield f"  FilterTable({job.amount} >= {job.min_amount})"
    if len(tables) > 1:
        left, right = job.changelogs
        on = f"{job.foreign_key} refers to {right.columns.key}" if job.foreign_key else f"{left.columns.key} = {right.columns.key}"
        yield f"  {'ForeignKeyJoin' if job.foreign_key else 'TableTableJoin'}({on}, how={job.how})"
    yield from (f"  {'LatestTable' if output.name == LATEST else 'changes'} -> {output.path}" for output in outputs)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
