"""``--state-dir``: runs that read what has arrived since the one before, and go on where it ended."""

import math
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from beam_joins.errors import InputError, StateRefused
from beam_joins.pipelines.base.interruption import Interruption
from beam_joins.pipelines.base.paths import absolute
from beam_joins.pipelines.base.progress import Progress, counted
from beam_joins.pipelines.changelogs.changelog_files import find_files, look_into, nothing_at
from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable
from beam_joins.pipelines.changelogs.processed_files import NewFiles
from beam_joins.pipelines.commands.command_options import what_is_made
from beam_joins.pipelines.commands.command_spec import CHANGES, LATEST, TO, CommandSpec
from beam_joins.pipelines.commands.exports import Exports
from beam_joins.pipelines.commands.grouped_rows import result_rows
from beam_joins.pipelines.commands.incremental_state import CommandMemory, memory_of, state_name
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.commands.job_checks import check
from beam_joins.pipelines.commands.merged_result import MergedResult
from beam_joins.pipelines.commands.pipeline import StartRunner, run_job
from beam_joins.pipelines.commands.reader_options import columns_of
from beam_joins.pipelines.commands.result_options import (
    changes_as,
    changes_pattern,
    of_run,
    refuse_read,
)
from beam_joins.pipelines.commands.spooled_inputs import spooled
from beam_joins.pipelines.commands.summary import LATE, STALE, Summary
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.results.counts import Tally, add_up
from beam_joins.pipelines.results.output_files import Output, Staging, absent_folders, check_output
from beam_joins.pipelines.results.publication import Move
from beam_joins.pipelines.results.write_parts import Report
from beam_joins.transforms.connect.files import exists
from beam_joins.transforms.connect.runs import StateFolder

COMPARING: Final = "comparing snapshots"
"""The phase of a run in which this process reads whole exports, to find what differs."""
_TARGET_SECONDS: Final = 10
"""The seconds between two looks at a target when nothing is merged."""
Arrived = Mapping[str, Sequence[File]]
"""The files of each input."""


class Ended(NamedTuple):
    """A run that has succeeded: its number, what it read (``2 files``), what was counted, its summary, given the
    seconds of its phases, what waits, and the largest event
    time of all runs.
    """

    number: int
    read: str
    report: Report
    summary: Callable[[Mapping[str, float]], Summary]
    waits: Sequence[str] = ()
    latest: int | None = None


class IncrementalRuns:
    """A job in runs. Raises InputError for options that are no good, whatever the files are."""

    def __init__(self, spec: CommandSpec, args: Namespace) -> None:
        self.command, self._spec, self._args = spec.command, spec, args
        self._paths = {side.name: side.path(args) for side in spec.sides}
        self._tables: Mapping[str, DatabaseTable] = {}
        """The tables that a database describes, as the last run has seen them."""
        self._columns = {side: columns_of(side, args) for side in spec.sides}
        for side, columns in self._columns.items():
            if not columns.is_ordered and (files := find_files(side.name, self._paths[side.name])):
                look_into(side.name, files, columns).require_all((), in_runs=True)  # refused before a folder is made
        self._places = {LATEST: args.latest} if args.latest else {}
        if args.changes:
            self._places = {CHANGES: changes_pattern(args.changes), **self._places}
        self._has_snapshots = any(columns.snapshots is not None for columns in self._columns.values())
        self._merged = MergedResult.of(args)
        self._looked = -math.inf
        for name, place in self._places.items():
            refuse_read(spec, args, f"--{name}", place)
        self._made = [f"the folder {folder} was not there: it has been made" for folder in absent_folders([args.latest])]
        for name, place in (*self._places.items(), *([(TO, self._merged.file)] if self._merged is not None else [])):
            check_output(f"--{name}", of_run(place, 1))

    def arrived(self) -> Arrived:
        """The existing files of each input; those at addresses are read in the run."""
        args = self._args
        return {
            side.name: () if side.name in args.inputs else find_files(side.name, side.path(args), columns.envelopes)
            for side, columns in self._columns.items()
        }

    def whole(self, arrived: Arrived, arrivals: NewFiles) -> Arrived:
        """The files among these that are whole."""
        columns = {side.name: columns for side, columns in self._columns.items()}
        return {side: arrivals.whole(side, files, columns[side]) for side, files in arrived.items()}

    def absent(self, arrived: Arrived) -> list[str]:
        """The sentences on paths of inputs at which no file is."""
        files = {side: there for side, there in arrived.items() if side not in self._args.inputs}
        return list(filter(None, (nothing_at(side, self._paths[side], there) for side, there in files.items())))

    def run(
        self, arrived: Arrived, start: StartRunner, progress: Progress, interruption: Interruption, exports: Exports
    ) -> Ended | None:
        """A run over the files among these that no run has read; ``None`` if there is none, or with --follow
        at first none of one side.

        Raises InputError, StateRefused, CorruptData and what Beam raises; what earlier runs have left is as
        it was then.
        """
        with StateFolder(self._args.state_dir) as folder:
            memory = memory_of(self._spec, self._args, folder.inputs, is_new=folder.is_new)
            memory.require_all(arrived)
            self._forget(folder)
            new, remarks = self._new(folder, {side: of.unseen(arrived[side]) for side, of in memory.inputs.items()})
            if missing := [side for side, files in new.items() if not files and (folder.is_new or side in memory.read_again)]:
                if self._args.follow:
                    return None
                inputs = self._args.inputs.get(missing[0])
                what = "is no file" if inputs is None else f"are no {inputs.elements} in"
                raise InputError(f"{missing[0]}: there {what} {self._paths[missing[0]]}")
            if not any(new.values()) and not remarks and not memory.is_changed:
                self._look_at_target(memory, new, folder)
                return None
            read = {side: [*memory.inputs[side].waiting(arrived[side]), *files] for side, files in new.items()}
            job = self._job(memory, read, folder, tuple(self._made), progress)
            self._made = []
            outputs = tuple(self._output(name, folder.run, job) for name in self._places)
            if self._merged is not None:
                outputs += (self._merged.output(job),)
            memory.learn(job)
            if self._merged is not None:  # which it may widen
                self._merged.prepare(job, folder)
            in_folders = {side: files for side, files in new.items() if side not in self._args.inputs}
            for side, files in in_folders.items():
                memory.inputs[side].files.add(files)
            exports.started(job, outputs, folder.run)
            with Staging(outputs) as staging:
                report: Report
                report, outputs, anew = run_job(job, outputs, staging, start, progress, folder)
                if self._args.on_late == "fail":
                    _refuse_late(report.tallies)
                with progress.phase("finishing"):
                    moves = _whole(staging, outputs, report)
                    for side, files in in_folders.items():
                        memory.inputs[side].files.require_unchanged(files)
                    report = replace(report, tallies=memory.in_all(report.tallies, anew))
                    folder.inputs[state_name(self._spec)] = memory.stored()
                    with interruption.later():
                        if self._merged is not None:
                            folder.require_current()
                            is_anew = folder.is_new or outputs[-1].records.anew is not None
                            self._merged.merge(moves.pop().source, job, folder, anew=is_anew)
                        with staging.until_renamed(StateRefused):
                            folder.commit([(move.source, absolute(move.target)) for move in moves])
            paths = {output.name: [output.path] for output in outputs}
            if self._merged is not None:
                paths[TO] = [self._merged.shown]
            self._args.read_again = []  # a later run of this process goes on
            remarks += [*memory.remarks(arrived), *([] if self._args.follow else self.absent(arrived))]
            remarks.insert(0, f"run {folder.run} with {self._args.state_dir}: {self._came(new, 'new file')}")
            waits = [each.sentence for changelog in job.changelogs for each in changelog.waiting if each.sentence]
            summary = partial(job.summary, report, paths, more=remarks)
            return Ended(folder.run, self._came(new), report, summary, waits, folder.latest)

    def _forget(self, folder: StateFolder) -> None:
        """Have inputs at addresses that are read again begin anew. Raises InputError."""
        for side in self._spec.sides:
            if side.path_option in self._args.read_again and side.name in self._args.inputs and not folder.is_new:
                inputs = self._args.inputs[side.name]
                source = inputs.sources[side.name]
                same = [each for each in self._spec.sides if inputs.sources.get(each.name) == source]
                if lacking := [each.path_option for each in same if each.path_option not in self._args.read_again]:
                    raise InputError(f"--read-again: {source} is read by both sides: give --read-again {lacking[0]} too")
                inputs.forget(side.name, folder.inputs)

    def _new(self, folder: StateFolder, unseen: Mapping[str, Sequence[File]]) -> tuple[Mapping[str, Sequence[File]], list[str]]:
        """The new files of each side, and what the summary says of inputs at addresses."""
        if not self._args.inputs:
            return unseen, []
        read = spooled(self._spec, self._args, folder)
        self._tables = read.tables
        return {**unseen, **read.files}, list(read.remarks)

    def _came(self, new: Arrived, file: str = "file") -> str:
        """The inputs that a run has read, counted: tables of a database, topics, files."""
        inputs = self._args.inputs
        sources = {(inputs[side].noun, inputs[side].sources[side]) for side, files in new.items() if files and side in inputs}
        files = [each for side, of_side in new.items() if side not in inputs for each in of_side]
        kinds = [*Counter(noun for noun, _ in sources).items(), *([(file, len(files))] if files or not sources else [])]
        return ", ".join(counted(count, noun) for noun, count in kinds)

    def _look_at_target(self, memory: CommandMemory, new: Arrived, folder: StateFolder) -> None:
        """Raise InputError for a target that is not as the last run has left it. With --follow it is looked at from time to time,
        and may be out of reach until something is merged.
        """
        if self._merged is None or folder.is_new or time.monotonic() - self._looked < _TARGET_SECONDS:
            return
        self._looked, job = time.monotonic(), self._job(memory, new, folder)
        if self._args.follow:
            self._merged.require_left(job, folder.inputs)
        else:
            self._merged.prepare(job, folder)

    def _job(
        self, memory: CommandMemory, new: Arrived, folder: StateFolder, made: tuple[str, ...] = (), progress: Progress | None = None
    ) -> Job:
        with nullcontext() if progress is None or not self._has_snapshots else progress.phase(COMPARING, str):
            changelogs = tuple(
                memory.changelog(side, new[side.name], columns, self._tables.get(side.name), folder)
                for side, columns in self._columns.items()
            )
        changelogs = tuple(replace(each, beginning=None) if each.name in self._args.inputs else each for each in changelogs)
        job = Job(
            spec=self._spec,
            made=made,
            changelogs=changelogs,
            **memory.of_earlier_runs,
            **what_is_made(self._spec, self._args),
        )
        check(job, in_runs=True)
        return job

    def _output(self, name: str, number: int, job: Job) -> Output:
        place = self._places[name]
        path = of_run(place, number) if name == CHANGES else place
        if name == CHANGES and exists(absolute(path)):
            raise InputError(
                f"{path} is there already, and is not of a run with {self._args.state_dir}: name another folder for the "
                "changes, or move it away"
            )
        return result_rows(job).output(name, f"--{name}", path, "rows" if name == LATEST else changes_as(self._args), place)


def _refuse_late(tallies: Sequence[Tally]) -> None:
    """Raise InputError for late records that were not applied."""
    for (place, what), tally in add_up(tallies).items():
        if what == STALE:
            came = f"{counted(tally.records, 'record')} came late and {'is' if tally.records == 1 else 'are'} {LATE[STALE]}"
            remedy = "nothing of this run counts; --on-late=drop goes on without such records"
            raise InputError(f"{place}: {came} ({STALE}): {remedy}")


def _whole(staging: Staging, outputs: Sequence[Output], report: Report) -> list[Move]:
    """The results, whole, and the names that they are to get."""
    parts = report.parts_of(outputs)
    moves = [move for output in outputs for move in staging.prepared(output, parts[output.name])]
    staging.require_held()
    return moves
