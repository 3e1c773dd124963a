"""The folder of ``--beam_joins_state``: it is opened when a pipeline first asks, gives each transform its
memory, and takes the output of a run that ended well.

The layout is described in docs/incremental_runs.md. The files of a run lie in a folder of its own below
``runs/`` and count only when the manifest names them. A run removes its own files only, and after its commit those of
runs up to it: in a store others may be under way.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from apache_beam.pipeline import Pipeline
from apache_beam.runners.runner import PipelineState
from xxhash import xxh3_64_hexdigest

from beam_joins.coders.snapshot import read_file, write_file
from beam_joins.errors import StateRefused
from beam_joins.kernels.stream_time import EARLIEST
from beam_joins.transforms.engine.construction.pipeline_changes import Decision
from beam_joins.transforms.engine.construction.run_hooks import around_run
from beam_joins.transforms.engine.resumed.commits import Commits
from beam_joins.transforms.engine.resumed.ended_turns import EndedTurns
from beam_joins.transforms.engine.resumed.manifest import Manifest, Remembered, TurnEnded, after_run, largest, widened, with_stored
from beam_joins.transforms.engine.resumed.only_built import require_job, require_run
from beam_joins.transforms.engine.resumed.plan import Plan
from beam_joins.transforms.engine.resumed.repartition import repartitioned
from beam_joins.transforms.engine.resumed.resumed_turn import BEGUN, Memory
from beam_joins.transforms.engine.resumed.stage_components import connected
from beam_joins.transforms.engine.resumed.state_files import Handed, StateFiles
from beam_joins.transforms.engine.resumed.state_rows import state_rows
from beam_joins.transforms.engine.resumed.state_summary import copy_state, last_run, state_summary, verify_state

RUNS = "runs"
_OF_RUN = re.compile(rf"{RUNS}/(\d+)-")
_GONE = "files that this run has written to {} are gone"
_MICROS = 1_000_000
_ATTACHED = "_beam_joins_state"
_OF_ONE_RUN = "_beam_joins_without_state"
_log = logging.getLogger(__name__)


class StateFolder:
    """The folder at a path, locked within its ``with`` block, for one run that is committed by
    :meth:`commit`, together with files of its own.

    * ``run``: the number of this run; the first one is 1.
    * ``inputs``: the progress of readers, by names of their choice, as JSON has it; additions are there in
      the next run.
    * ``is_new``: whether no run was committed before.
    * :meth:`keep` and :meth:`kept`: a table of a reader, by a name of its choice, for the next run.
    * ``has_arrivals``: whether a reader of this run has found anything that no run has read.
    * ``scratch``: a folder for the files that readers write for this run alone.
    * ``before_commit``: functions to call before the commit, as long as ``inputs`` and ``moves`` can be added to.
    * ``moves``: files that are renamed with the commit, all or none, with absolute paths: ``(from, to)``.
    * ``when_committed``: functions to call once this run counts; a call may be missed where the process is
      killed.

    ::

        with StateFolder(path) as folder:
            with beam.Pipeline(options=options) as pipeline:
                folder.attach(pipeline)
                ...
            folder.inputs["orders.jsonl"] = {"bytes": 7}
            folder.commit([("changes.part", "changes-000001.jsonl")])

    :meth:`summary`, :meth:`rows`, :meth:`verify` and :meth:`copy` need no lock: runs may go on meanwhile.

    A block that is left without a commit leaves the folder as it was. Opening finishes a commit that was cut
    off; a commit removes the files of runs up to it that did not commit.

    Raises :class:`StateRefused` if another run uses the folder, and :class:`~beam_joins.coders.CorruptData`
    if its content is not as it was written.
    """

    def __init__(self, path: str, *, only_read: bool = False) -> None:
        """``only_read``: for a pipeline that is built and never runs; nothing is locked or written."""
        self.files = StateFiles(path)
        self._commits = Commits(self.files)
        self._stages: dict[str, Remembered] = {}  # the state before this run, stored rows with the types of this run
        self._only_read, self.is_open = only_read, False
        if only_read:
            self._read()
        else:
            self._open()

    def _open(self) -> None:
        self.files.lock()
        self.is_open = True
        try:
            self._commits.recover()
            self._read()
        except BaseException:
            self.files.unlock()
            raise

    def _read(self) -> None:
        last = self._commits.read()
        self._before = last or Manifest()
        self.plan = Plan(self._before)
        self.run, self.inputs, self.is_new = self._before.run + 1, dict(self._before.inputs), last is None
        self.partitions, self._kept = self._before.partitions, dict(self._before.kept)
        self.has_arrivals = False
        self.before_commit: list[Callable[[], None]] = []
        self.moves: list[tuple[str, str]] = []
        self.when_committed: list[Callable[[], None]] = []
        # files that workers of an earlier run still write have other names
        self._attempt = f"{RUNS}/{self.run:06d}-{uuid4().hex[:8]}"
        self.scratch = self.files.path(f"{self._attempt}/read")
        self._turns = EndedTurns(self.files)

    last_run = staticmethod(last_run)
    summary = staticmethod(state_summary)
    verify = staticmethod(verify_state)
    copy = staticmethod(copy_state)
    rows = staticmethod(state_rows)

    def handed(self, what: str) -> Handed:
        """The file of this run by which a worker hands on ``what`` to the commit."""
        return Handed(self.files, f"{self._attempt}/handed-{xxh3_64_hexdigest(what.encode())}")

    def keep(self, name: str, table: pa.Table) -> None:
        """Keep a table in place of the one of this name, once the run is committed. Raises :class:`OutputError`."""
        file = f"{self._attempt}/kept-{xxh3_64_hexdigest(name.encode())}"

        def put(content: pa.Buffer) -> str:
            self.files.put(file, content)
            return file

        self._kept[name] = write_file(table, put)

    def kept(self, name: str) -> pa.Table | None:
        """The table of this name that an earlier run has kept. Raises :class:`~beam_joins.coders.CorruptData`."""
        described = self._before.kept.get(name)
        return None if described is None else read_file(described, self.files.get)

    @property
    def latest(self) -> int | None:
        """The largest event time of the runs that were committed, in microseconds."""
        return largest(*(each.latest for each in self._before.stages.values()))

    @property
    def bytes(self) -> int:
        """The bytes of the largest state of a stage that the runs before have left."""
        return max((sum(file["bytes"] for file in each.described) for each in self._before.stages.values()), default=0)

    def __enter__(self) -> Self:
        """The folder, locked."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Unlock it."""
        self.close()

    def close(self) -> None:
        """Unlock the folder, and remove the files that were written and not committed."""
        if self.is_open:
            if not self._commits.may_count:  # else the next process that opens the folder finishes it
                with suppress(OSError):  # what stays is removed behind a later commit
                    named = self._before.files
                    self.files.remove([name for name in self.files.names(self._attempt) if name not in named])
            self.files.unlock()
            self.is_open = False

    def attach(self, pipeline: Pipeline, *, read_again: Iterable[str] = ()) -> None:
        """Have the transforms that are applied to a pipeline afterwards remember in this folder; its run does
        not commit by itself. ``read_again`` are the labels of transforms that get their whole input in this run.
        """
        require_run(pipeline)
        self.plan.whole = tuple(read_again)
        setattr(pipeline, _ATTACHED, self)
        around_run(pipeline, partial(self.check, pipeline), lambda result: None)

    def partition_count(self, asked: int | None, default: int) -> int:
        """The number of partitions: that of the run before, or ``asked``, over which the state is distributed first. Raises
        :class:`StateRefused` if another run uses the folder.
        """
        if self.partitions is None or self.is_new:
            self.partitions = self.partitions or asked or default
        elif asked is not None and asked != self.partitions and not self._only_read:
            self._repartition(asked)
        return self.partitions

    def _repartition(self, count: int) -> None:
        was_open = self.is_open
        if not was_open:
            self._open_again()
        try:
            _log.info("%s: the state is distributed over %d partitions in place of %d", self.files.root, count, self.partitions)
            folder = f"{RUNS}/{self._before.run:06d}-{uuid4().hex[:8]}"
            try:
                before = repartitioned(self.files, self._before, count, folder)
                self.files.sync(before.files - self._before.files)
            except BaseException:
                with suppress(OSError):  # what stays is removed behind a later commit
                    self.files.remove(self.files.names(folder))
                raise
            self._commits.replace(before)
            self._before, self.partitions, self.plan.before = before, count, before
        finally:
            if not was_open:
                self.close()

    def union_type(self, label: str, name: str, column: str, kind: pa.DataType) -> pa.DataType:
        """The type that holds the values of a column of an input which a transform has stored, and those of this run, of type
        ``kind``.

        Raises :class:`StateRefused` where there is none.
        """
        remembered = self.plan.stays().get(label)
        if remembered is None or not remembered.partitions or name not in remembered.columns:
            return kind
        return with_stored(label, remembered.columns[name], column, kind)

    def stored(self, label: str, types: pa.Schema) -> Memory:
        """The rows that a stage has stored as the last run has left them, with columns of these types."""
        return self._memory(label, self._before.stages.get(label, Remembered()), None, {"rows": types})

    def memory(
        self, label: str, remember_deletes: float, types: Mapping[str, pa.Schema] | None = None, *, from_records: bool = False
    ) -> Memory:
        """The state of a stage after the runs before, none if its transform is rebuilt; ``remember_deletes`` is in seconds.
        ``types`` are the columns of the inputs whose rows the state has, of those that may get wider; raises
        :class:`StateRefused` if they do not hold the stored values. ``from_records``: a stage that is rebuilt goes on behind the
        frontier.
        """
        remembered = self.plan.stays().get(label, Remembered())
        if from_records and not self.plan.is_kept(label):
            remembered = Remembered(self.plan.frontier(label.rpartition("/")[0]))
        if types is not None:
            stored = remembered.columns if remembered.partitions else {}
            remembered = remembered._replace(columns={name: widened(label, text, types.get(name)) for name, text in stored.items()})
        horizon = None if remembered.latest is None else max(int(EARLIEST), remembered.latest - round(remember_deletes * _MICROS))
        memory = self._memory(label, remembered, horizon, types or {})
        self._stages[label] = remembered
        return memory

    def _memory(self, label: str, remembered: Remembered, horizon: int | None, types: Mapping[str, pa.Schema]) -> Memory:
        prefix = f"{self._attempt}/{len(self._stages):03d}"
        after = remembered.frontier, horizon, remembered.columns, remembered.notes, remembered.partitions
        return Memory(self.files, self._turns, prefix, label, *after, remembered.forgotten, types)

    @property
    def is_due(self) -> bool:
        """Whether a run of the pipeline that has been built would do anything: something has arrived, or it is not the pipeline of
        the runs before.
        """
        decisions = self.plan.decisions
        before, now = self._before.transforms, {label: each.fingerprint for label, each in decisions.items()}
        return self.is_new or self.has_arrivals or now != before or any(each.verdict != "kept" for each in decisions.values())

    def decisions(self) -> Mapping[str, Decision]:
        """The verdicts on the transforms of the pipeline that has been built, by full labels. Raises :class:`StateRefused` for
        one that may not go on.
        """
        self.plan.require(self.files.root, self._stages)
        return self.plan.decisions

    def check(self, pipeline: Pipeline) -> None:
        """Raise :class:`StateRefused` unless the whole pipeline has the transforms of the runs before, and runs
        now; its run begins.
        """
        require_run(pipeline)
        self.decisions()
        self._groups = connected(pipeline, self._stages)
        self.files.put(f"{self._attempt}/{BEGUN}", b"1")

    def require_current(self) -> None:
        """Raise :class:`StateRefused` if another run has been committed since this one began, or is about to be."""
        self._commits.require_last()

    def _ended(self, present: Iterable[str]) -> list[TurnEnded]:
        return list(self.files.side_by_side(self._ended_turn, sorted(name for name in present if name.endswith(".json"))))

    def _ended_turn(self, name: str) -> TurnEnded:
        try:
            content = self._turns.get(name)
        except FileNotFoundError:
            self.require_current()  # another one may have been committed just now
            raise self._commits.refused(_GONE) from None
        return TurnEnded(**json.loads(content))

    def prepare(self, moves: Sequence[tuple[str, str]] = ()) -> None:
        """Write down the work of :meth:`finish`: from then on the run counts, and the next process that opens the
        folder finishes it.

        ``moves`` are files to be renamed beside those of the folder. Raises :class:`StateRefused`.
        """
        self.require_current()
        for call in self.before_commit:
            call()
        present = {*self.files.names(self._attempt), *self._turns.names()}
        stages = after_run(self._stages, self._ended(present), self._groups)
        transforms = {label: each.fingerprint for label, each in self.plan.decisions.items()}
        read_again = sorted(self.plan.read_again)
        after = Manifest(self.run, self.partitions or 1, self.inputs, stages, transforms, read_again, kept=self._kept)
        written = after.files - self._before.files
        ended = {f"{name.rpartition('-')[0]}.json" for name in present if name.endswith(".arrow")}  # a turn writes this last
        if not {*written, *ended, f"{self._attempt}/{BEGUN}"} <= present:
            raise self._commits.refused(_GONE)
        self.files.sync(written)
        self._commits.begin(after, [*self.moves, *moves])

    def finish(self) -> None:
        """Carry out the commit that was written down: rename the files, replace the manifest, and remove the
        files that it does not name; raises :class:`StateRefused` if another run has come first in the same
        moment.
        """
        self._before = self._commits.finish()
        with suppress(OSError):  # what stays is removed behind a later commit
            self._remove_left()
        for call in self.when_committed:
            call()

    def commit(self, moves: Sequence[tuple[str, str]] = ()) -> None:
        """:meth:`prepare`, then :meth:`finish`."""
        self.prepare(moves)
        self.finish()

    def _remove_left(self) -> None:
        """Remove the files left by runs up to the one of the manifest; a later one may be under way."""
        named = self._before.files
        present = ((name, _OF_RUN.match(name)) for name in self.files.names(RUNS) if name not in named)
        left = [name for name, match in present if match and int(match[1]) <= self._before.run]
        self.files.remove([*left, *self.files.parts()])

    def _open_again(self) -> None:
        self.files.lock()
        self.is_open = True
        try:
            self._commits.recover()
        except BaseException:
            self.close()
            raise
        if not self._commits.is_last():
            self.close()
            raise StateRefused(f"another run has been committed to {self.files.root} since this pipeline was built: build it again")

    def _begin(self, pipeline: Pipeline) -> None:
        self._open_again()
        self._turns.clear()
        try:
            self.check(pipeline)
        except BaseException:
            self.close()
            raise

    def _end(self, result: Any) -> None:
        """Commit a run whose result says that it is done."""
        if self.is_open and result is not None and result.state == PipelineState.DONE:
            require_job(result)
            self.commit()
        self.close()


@contextmanager
def without_state(pipeline: Pipeline) -> Iterator[None]:
    """Within the block, transforms that are applied to a pipeline remember nothing."""
    setattr(pipeline, _OF_ONE_RUN, True)
    try:
        yield
    finally:
        setattr(pipeline, _OF_ONE_RUN, False)


def folder_of(pipeline: Pipeline, path: str | None) -> StateFolder | None:
    """The folder for the state of a pipeline's transforms: the attached folder, or at the first call the
    folder at a path.
    """
    if getattr(pipeline, _OF_ONE_RUN, False):
        return None
    folder: StateFolder | None = getattr(pipeline, _ATTACHED, None)
    if folder is None and path:
        require_run(pipeline)
        folder = StateFolder(path)
        folder.close()  # until it runs
        setattr(pipeline, _ATTACHED, folder)
        around_run(pipeline, partial(folder._begin, pipeline), folder._end)
    return folder
