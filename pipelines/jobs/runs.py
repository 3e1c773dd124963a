"""``--state-dir``: runs that read what has arrived since the one before, and go on where it ended."""

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from fnmatch import fnmatch
from typing import NamedTuple

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.changelog_files.changelog import find_files
from beam_joins.pipelines.changelog_files.files import File
from beam_joins.pipelines.changelog_files.in_order import merge
from beam_joins.pipelines.changelog_files.outputs import Output, Staging, check_output
from beam_joins.pipelines.changelog_files.paths import absolute, real
from beam_joins.pipelines.changelog_files.publishing import Move
from beam_joins.pipelines.changelog_files.write_parts import Report, read_report
from beam_joins.pipelines.command.input_error import InputError, writing
from beam_joins.pipelines.command.interruption import Interruption
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.command.watched_run import WatchedRun
from beam_joins.pipelines.jobs.job import Job
from beam_joins.pipelines.jobs.memory import Memory
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.jobs.options import columns_of, envelopes_of, layout_given, what_is_made
from beam_joins.pipelines.jobs.pipeline import CHANGES, LATEST
from beam_joins.pipelines.jobs.runs_options import changes_pattern, fixed_options, of_run, require_same
from beam_joins.pipelines.jobs.summary import Summary
from beam_joins.pipelines.jobs.write_json import STDOUT
from beam_joins.transforms.engine.state_folder import StateFolder

Arrived = Mapping[str, Sequence[File]]
"""The files of each input."""
Runner = AbstractContextManager[PipelineOptions]


class Ended(NamedTuple):
    """A run that has succeeded: its number, how many files it read, what was counted, and its summary, given the seconds of its phases."""

    number: int
    files: int
    report: Report
    summary: Callable[[Mapping[str, float]], Summary]


class Runs:
    """A job in runs. Raises InputError for options that are no good, whatever the files are."""

    def __init__(self, names: Names, own: Namespace) -> None:
        self._names, self._own = names, own
        self._paths = {side.name: side.path(own) for side in names.sides}
        self._remembered = f"{names.command} command"
        self._columns = {side: columns_of(side, own) for side in names.sides}
        self._layouts = {side: layout_given(side, own) for side in names.sides}
        self._places = {LATEST: own.latest} if own.latest else {}
        if own.changes:
            self._places = {CHANGES: changes_pattern(own.changes), **self._places}
        written = self._places if own.json in (None, STDOUT) else {**self._places, "json": own.json}
        for name, place in written.items():
            for side in names.sides:
                if _finds(side.path(own), of_run(place, 1)):
                    raise InputError(
                        f"--{name}: --{side.path_option} {side.path(own)} would read what is written to {place}: name another place"
                    )
        self._formats = {name: check_output(f"--{name}", of_run(place, 1)) for name, place in self._places.items()}

    def arrived(self) -> Arrived:
        """All files that there are now."""
        own = self._own
        return {side.name: find_files(side.name, side.path(own), envelopes_of(side, own)) for side in self._names.sides}

    def run(self, arrived: Arrived, runner: Runner, progress: Progress, interruption: Interruption) -> Ended | None:
        """A run over the files among these that no run has read; ``None`` if there is none, or with --follow at first none of one side.

        Raises InputError, StateRefused, CorruptData and what Beam raises; what earlier runs have left is as it was then.
        """
        with StateFolder(self._own.state_dir) as folder:
            memory = self._memory(folder)
            new = {side: seen.unseen(arrived[side]) for side, seen in memory.seen.items()}
            if folder.is_new and (missing := [side for side, files in new.items() if not files]):
                if self._own.follow:
                    return None
                raise InputError(f"{missing[0]}: there is no file {self._paths[missing[0]]}")
            if not any(new.values()):
                return None
            job = self._job(memory, new)
            outputs = tuple(self._output(name, folder.run, job) for name in self._places)
            memory.learn(job)
            for side, files in new.items():
                memory.seen[side].add(files)
            with Staging(outputs) as staging:
                report_path = f"{staging.beside(outputs[0])}/report.json"
                with ExitStack() as running:
                    with progress.phase("starting the runner"):
                        ready = running.enter_context(runner)
                    run = WatchedRun(job.changelogs, report_path, staging.said)
                    watched = run.run(job.pipeline(outputs, ready, staging, report_path, folder), progress)
                with progress.phase("finishing"):
                    report = read_report(report_path)._replace(watched=watched)
                    moves = _whole(staging, outputs, report)
                    for side, files in new.items():
                        memory.seen[side].require_unchanged(files)
                    report = report._replace(tallies=memory.in_all(report.tallies))
                    folder.inputs[self._remembered] = memory.stored()
                    with interruption.later(), staging.until_renamed():
                        folder.commit([(move.source, absolute(move.target)) for move in moves])
            count = sum(map(len, new.values()))
            paths = {output.name: [output.path] for output in outputs}
            remark = f"run {folder.run} with {self._own.state_dir}: {count:,} files that no run had read"
            return Ended(folder.run, count, report, lambda seconds: job.summary(report, paths, seconds, [remark]))

    def _memory(self, folder: StateFolder) -> Memory:
        options = fixed_options(self._own, self._names)
        if folder.is_new:
            return Memory({"options": options}, self._names)
        if self._remembered not in folder.inputs:
            raise InputError(f"--state-dir: {self._own.state_dir} is of another program: name another folder")
        memory = Memory(folder.inputs[self._remembered], self._names)
        require_same(options, memory.options, self._own.state_dir)
        return memory

    def _job(self, memory: Memory, new: Arrived) -> Job:
        avro = "avro" in self._formats.values()
        changelogs = tuple(
            memory.changelog(side, new[side.name], columns, self._layouts[side], avro=avro) for side, columns in self._columns.items()
        )
        job = Job(
            names=self._names, changelogs=changelogs, one_file=True, known_kinds=memory.kinds, **what_is_made(self._names, self._own)
        )
        job.check()
        return job

    def _output(self, name: str, number: int, job: Job) -> Output:
        place = self._places[name]
        path = of_run(place, number) if name == CHANGES else place
        if name == CHANGES and FileSystems.exists(absolute(path)):
            raise InputError(
                f"{path} is there already, and is not of a run with {self._own.state_dir}: name another folder for the changes, or move it away"
            )
        return job.output(name, path, self._formats[name], place)


def _whole(staging: Staging, outputs: Sequence[Output], report: Report) -> list[Move]:
    """The results, whole, and the names that they are to get."""
    moves = []
    for output, parts in zip(outputs, report.parts_of(outputs).values(), strict=True):
        if output.name == CHANGES:
            with writing(output.path):
                merge(output, parts, staging.whole(output))
            moves.append(Move(staging.whole(output), output.path))
        else:
            moves += staging.prepared(output, parts, one_file=True)
    staging.require_held()
    return moves


def _finds(pattern: str, path: str) -> bool:
    """Whether a pattern, or a folder, finds a path once it is there."""
    parent, name = os.path.split(absolute(pattern))
    if os.path.isdir(pattern):
        parent, name = absolute(pattern), "*"
    return real(os.path.dirname(absolute(path))) == real(parent) and fnmatch(os.path.basename(path), name)
