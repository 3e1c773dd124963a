"""``python -m pipelines.orders --state-dir``: runs that read what has arrived since the one before, and go on where it ended."""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from fnmatch import fnmatch
from typing import Final, NamedTuple

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.changelog_files.changelog import Changelog, find_files
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
from beam_joins.pipelines.orders_job import CHANGES, LATEST, OrdersJob, output_of
from beam_joins.pipelines.orders_memory import SIDES, OrdersMemory
from beam_joins.pipelines.orders_options import columns_of, envelopes_of, layout_given
from beam_joins.pipelines.orders_runs_options import changes_pattern, fixed_options, of_run, require_same
from beam_joins.transforms.engine.state_folder import StateFolder

COMMAND: Final = "orders command"
"""Where the manifest has what this command remembers."""
Arrived = Mapping[str, Sequence[File]]
"""Files of the orders and of the customers."""
Runner = AbstractContextManager[PipelineOptions]


class Ended(NamedTuple):
    """A run that has succeeded: its number, how many files it read, what was counted, and the paths of its results."""

    number: int
    files: int
    report: Report
    paths: dict[str, list[str]]
    remarks: list[str]


class OrdersRuns:
    """The orders job in runs. Raises InputError for options that are no good, whatever the files are."""

    def __init__(self, own: Namespace) -> None:
        self._own = own
        self._columns = {side: columns_of(side, own) for side in SIDES}
        self._layouts = {side: layout_given(side, own) for side in SIDES}
        self._places = {LATEST: own.latest} if own.latest else {}
        if own.changes:
            self._places = {CHANGES: changes_pattern(own.changes), **self._places}
        for name, place in self._places.items():
            for side in SIDES:
                if _finds(vars(own)[side], of_run(place, 1)):
                    raise InputError(f"--{name}: --{side} {vars(own)[side]} would read what is written to {place}: name another place")
        self._formats = {name: check_output(f"--{name}", of_run(place, 1)) for name, place in self._places.items()}

    def arrived(self) -> Arrived:
        """All files that there are now."""
        return {side: find_files(side, vars(self._own)[side], envelopes_of(side, self._own)) for side in SIDES}

    def run(self, arrived: Arrived, runner: Runner, progress: Progress, interruption: Interruption) -> Ended | None:
        """A run over the files among these that no run has read; ``None`` if there is none, or with --follow at first none of one side.

        Raises InputError, StateRefused, CorruptData and what Beam raises; what earlier runs have left is as it was then.
        """
        with StateFolder(self._own.state_dir) as folder:
            memory = self._memory(folder)
            new = {side: memory.seen[side].unseen(arrived[side]) for side in SIDES}
            if folder.is_new and (missing := [side for side in SIDES if not new[side]]):
                if self._own.follow:
                    return None
                raise InputError(f"{missing[0]}: there is no file {vars(self._own)[missing[0]]}")
            if not any(new.values()):
                return None
            job = self._job(memory, new, folder.run)
            memory.learn(job)
            for side in SIDES:
                memory.seen[side].add(new[side])
            with Staging(job.outputs) as staging:
                report_path = f"{staging.beside(job.outputs[0])}/report.json"
                with ExitStack() as running:
                    with progress.phase("starting the runner"):
                        ready = running.enter_context(runner)
                    run = WatchedRun((job.orders, job.customers), report_path, staging.said)
                    watched = run.run(job.pipeline(ready, staging, report_path, folder), progress)
                with progress.phase("finishing"):
                    report = read_report(report_path)._replace(watched=watched)
                    moves = _whole(staging, job.outputs, report)
                    for side in SIDES:
                        memory.seen[side].require_unchanged(new[side])
                    report = report._replace(tallies=memory.in_all(report.tallies))
                    folder.inputs[COMMAND] = memory.stored()
                    with interruption.later(), staging.until_renamed():
                        folder.commit([(move.source, absolute(move.target)) for move in moves])
            count = sum(map(len, new.values()))
            paths = {output.name: [output.path] for output in job.outputs}
            remark = f"run {folder.run} with {self._own.state_dir}: {count:,} files that no run had read"
            return Ended(folder.run, count, report, paths, [remark, *job.remarks()])

    def _memory(self, folder: StateFolder) -> OrdersMemory:
        options = fixed_options(self._own)
        if folder.is_new:
            return OrdersMemory({"options": options})
        if COMMAND not in folder.inputs:
            raise InputError(f"--state-dir: {self._own.state_dir} is of another program: name another folder")
        memory = OrdersMemory(folder.inputs[COMMAND])
        require_same(options, memory.options, self._own.state_dir)
        return memory

    def _job(self, memory: OrdersMemory, new: Arrived, number: int) -> OrdersJob:
        own, avro = self._own, "avro" in self._formats.values()
        orders, customers = (memory.changelog(side, new[side], self._columns[side], self._layouts[side], avro=avro) for side in SIDES)
        job = OrdersJob(
            orders=orders,
            customers=customers,
            outputs=tuple(self._output(name, number, orders, customers) for name in self._places),
            foreign_key=own.foreign_key,
            how=own.how,
            amount=own.amount,
            min_amount=own.min_amount,
            customer_field=own.customer_field,
            on_bad_record=own.on_bad_record,
            one_file=True,
            reports=bool(own.report),
            known_kinds=memory.kinds,
        )
        job.check()
        return job

    def _output(self, name: str, number: int, orders: Changelog, customers: Changelog) -> Output:
        place = self._places[name]
        path = of_run(place, number) if name == CHANGES else place
        if name == CHANGES and FileSystems.exists(absolute(path)):
            raise InputError(
                f"{path} is there already, and is not of a run with {self._own.state_dir}: name another folder for the changes, or move it away"
            )
        output = output_of(
            name, path, self._formats[name], orders=orders, customers=customers, customer_field=self._own.customer_field
        )
        return output._replace(owner=place)


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
