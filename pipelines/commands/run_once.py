"""A run without state: finds and inspects its files, checks its results, runs, and publishes."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.changelogs.changelog_files import changelog_of_table, find_changelog, find_files, look_into
from beam_joins.pipelines.changelogs.compared_snapshots import as_changes, compared
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.commands.absent_defaults import without_absent_defaults
from beam_joins.pipelines.commands.command_options import what_is_made
from beam_joins.pipelines.commands.command_spec import CHANGES, LATEST, CommandSpec, Side
from beam_joins.pipelines.commands.grouped_rows import result_rows
from beam_joins.pipelines.commands.incremental_state import CommandMemory
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.job_checks import check
from beam_joins.pipelines.commands.pipeline import run_job
from beam_joins.pipelines.commands.reader_options import columns_of
from beam_joins.pipelines.commands.result_options import changes_as, changes_pattern, descriptions, refuse_same
from beam_joins.pipelines.formats.output_records import Made
from beam_joins.pipelines.results.output_files import Output, Staging, absent_folders, check_output, split_suffix
from beam_joins.pipelines.results.paths_in_use import refuse_inputs
from beam_joins.pipelines.results.publication import parts_of
from beam_joins.pipelines.results.write_parts import Report
from beam_joins.pipelines.runners.runner_setup import runner


def job_alone(
    spec: CommandSpec, args: Namespace, *, look_bytes: int = 0, make: bool = True, memory: CommandMemory | None = None
) -> tuple[Job, tuple[Output, ...]]:
    """The job and its results in files. Raises InputError.

    ``look_bytes`` says how much of a file is looked at, 0 as much as is needed; ``make``: directories for the
    results, and whatever else the command makes on first use. Without it there may be no result. ``memory`` is the state
    of a dry run after other runs: the job is of the files that these have not read.
    """
    if any(side.path(args) is None for side in spec.sides) and not spec.without_path:
        raise InputError(f"give {' and '.join(f'--{side.path_option}' for side in spec.sides)}: a file or a glob")
    spec.prepare(args)
    places = {CHANGES: changes_pattern(args.changes) if args.changes else args.output, LATEST: args.latest}
    if make and not any(places.values()) and args.to is None:
        raise InputError("no result is named: give --output, --latest or --to")
    refuse_same(args)
    folders = absent_folders(places.values())
    flags = {CHANGES: "--changes" if args.changes else "--output", LATEST: "--latest"}
    written = {name: path for name, path in places.items() if path}
    for name, path in written.items():
        check_output(flags[name], path, make=make)
    changelogs = tuple(_changelog(side, args, look_bytes, memory) for side in spec.sides)
    remarks = list[str]()
    if not args.state_dir:  # whether there is such a column must be the same in all runs
        changelogs, remarks = without_absent_defaults(spec.sides, args.by_default, changelogs)
    for changelog in changelogs:
        changelog.require_table()
    for path in (*written.values(), *descriptions(args).values()):
        files = [file.path for changelog in changelogs for file in changelog.files]
        with writing(path):
            refuse_inputs(path, files, [path, *parts_of(*split_suffix(path))])
    made = [f"the folder {folder} was not there: {'it has been made' if make else 'a run makes it'}" for folder in folders]
    job = Job(
        spec=spec,
        changelogs=changelogs,
        in_parts=args.parts,
        made=(*made, *remarks),
        **({} if memory is None else memory.of_earlier_runs),
        **what_is_made(spec, args),
    )
    check(job, in_runs=bool(args.state_dir))
    as_: dict[str, Made] = {CHANGES: changes_as(args), LATEST: "rows"}
    rows = result_rows(job)
    return job, tuple(rows.output(name, flags[name], path, as_[name]) for name, path in written.items())


def _changelog(side: Side, args: Namespace, look_bytes: int, memory: CommandMemory | None) -> Changelog:
    """The changelog of a side: spooled changes, or files, with a ``memory`` those that no run has read."""
    columns = columns_of(side, args)
    files = None if args.spooled is None else args.spooled.files.get(side.name)
    if files is not None and (table := args.spooled.tables.get(side.name)) is not None:
        return changelog_of_table(side.name, files, columns, table)
    if files is not None:
        changelog = look_into(side.name, tuple(replace(file, look_bytes=look_bytes) for file in files), columns)
        return replace(changelog, beginning=None)
    if memory is not None:
        there = find_files(side.name, side.path(args), columns.envelopes)
        new = [*memory.inputs[side.name].waiting(there), *memory.inputs[side.name].unseen(there)]
        return memory.changelog(side, [replace(file, look_bytes=look_bytes) for file in new], columns)
    changelog = find_changelog(side.name, side.path(args), columns, look_bytes=look_bytes, folders=bool(args.state_dir))
    if columns.snapshots is None:
        return changelog
    return as_changes(changelog) if look_bytes else compared(changelog, None, None, args.spool_folder()).changelog


def run_alone(
    job: Job, outputs: tuple[Output, ...], options: PipelineOptions, progress: Progress, merge: Callable[[str], None] | None = None
) -> tuple[Report, dict[str, list[str]]]:
    """Run a job; gives what was counted, and for each output the paths of its files. ``merge`` takes the file of the
    output that is merged into a table, the last one.
    """
    with Staging(outputs) as staging:
        report, *_ = run_job(job, outputs, staging, partial(runner, options), progress)
        with progress.phase("finishing"):
            return report, staging.publish_parts(report.parts_of(outputs), merge)
