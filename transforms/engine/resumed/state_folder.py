"""The folder of ``--beam_joins_state``: it is opened when a pipeline first asks, gives each transform its
memory, and takes what a run that ended well has written.

The layout is described in docs/every_night.md. What a run writes lies in a folder of its own below ``runs/``
and counts only when the manifest names it.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from apache_beam.pipeline import Pipeline
from apache_beam.runners.runner import PipelineState

from beam_joins.stream_time import EARLIEST
from beam_joins.transforms.engine.resumed.connected import connected
from beam_joins.transforms.engine.resumed.manifest import (
    Fingerprint,
    Manifest,
    Remembered,
    TurnEnded,
    after_run,
    read_journal,
    read_manifest,
    require_same,
    write_journal,
    write_manifest,
)
from beam_joins.transforms.engine.resumed.memory import Memory
from beam_joins.transforms.engine.resumed.state_files import StateFiles, StateRefused, move

MANIFEST, JOURNAL, RUNS = "manifest.json", "commit.json", "runs"
_MICROS = 1_000_000
_ATTACHED = "_beam_joins_state"
_ENDED = {PipelineState.DONE, PipelineState.FAILED, PipelineState.CANCELLED, PipelineState.UPDATED, PipelineState.DRAINED}


class StateFolder:
    """The folder at a path, locked within its ``with`` block, for one run that is committed by
    :meth:`commit`, together with files of its own.

    * ``run``: the number of this run; the first one is 1.
    * ``inputs``: what readers have seen, by names of their choice, as JSON has it; what is added is there in
      the next run.
    * ``is_new``: whether no run was committed before.
    * ``when_committed``: what to call once this run counts; it may be missed where the process is killed.

    ::

        with StateFolder(path) as folder:
            with beam.Pipeline(options=options) as pipeline:
                folder.attach(pipeline)
                ...
            folder.inputs["orders.jsonl"] = {"bytes": 7}
            folder.commit([("changes.part", "changes-000001.jsonl")])

    A block that is left without a commit leaves the folder as it was. Opening finishes a commit that was cut
    off, and removes what a run that ended otherwise has left.

    Raises :class:`StateRefused` if another run uses the folder, and :class:`~beam_joins.coders.CorruptData`
    if what is there is not as it was written.
    """

    def __init__(self, path: str) -> None:
        self.files = StateFiles(path)
        self._fingerprints: dict[str, Fingerprint] = {}
        self._open()

    def _open(self) -> None:
        self.files.lock()
        self.is_open = True
        try:
            self.files.remove_parts()
            self._recover()
            self._text = self.files.text(MANIFEST)
            self._before = Manifest() if self._text is None else read_manifest(self._text, self.files.path(MANIFEST))
            self._remove_unnamed(self._before)
        except BaseException:
            self.files.unlock()
            raise
        self.run, self.inputs, self.is_new = self._before.run + 1, dict(self._before.inputs), self._text is None
        self.partitions = self._before.partitions
        self.when_committed: list[Callable[[], None]] = []
        # what workers of an earlier run still write has another name
        self._attempt = f"{RUNS}/{self.run:06d}-{uuid4().hex[:8]}"

    def __enter__(self) -> Self:
        """The folder, locked."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Unlock it."""
        self.close()

    def close(self) -> None:
        """Unlock the folder, and remove what was written and not committed."""
        if self.is_open:
            with suppress(OSError):  # what stays is removed when the folder is opened
                if not self.files.exists(JOURNAL):  # else the run counts, and whoever opens the folder next finishes it
                    self._remove_unnamed(self._before, self._attempt)
            self.files.unlock()
            self.is_open = False

    def attach(self, pipeline: Pipeline) -> None:
        """Have the transforms that are applied to a pipeline afterwards remember in this folder; its run does
        not commit by itself.
        """

        def run(*args: Any) -> Any:
            self.check(pipeline)
            return type(pipeline).run(pipeline, *args)

        setattr(pipeline, _ATTACHED, self)
        pipeline.run = run  # type: ignore[method-assign, assignment]

    def partition_count(self, asked: int | None, default: int) -> int:
        """The number of partitions of all runs: that of the first one; raises :class:`StateRefused` if
        another one is given.
        """
        if self.partitions is None:
            self.partitions = asked or default
        elif asked is not None and asked != self.partitions:
            raise StateRefused(
                f"--beam_joins_partitions={asked}: {self.files.root} has {self.partitions} partitions; leave the option "
                "out, or begin with an"
                " empty folder"
            )
        return self.partitions

    def memory(self, label: str, fingerprint: Fingerprint, remember_deletes: float) -> Memory:
        """What a transform knows of the runs before; deletes are remembered for so many seconds."""
        remembered = self._before.transforms.get(label, Remembered(fingerprint))
        prefix = f"{self._attempt}/{len(self._fingerprints):03d}"
        self._fingerprints[label] = fingerprint
        horizon = None if remembered.latest is None else max(int(EARLIEST), remembered.latest - round(remember_deletes * _MICROS))
        return Memory(
            self.files, prefix, label, remembered.frontier, horizon, remembered.columns, remembered.notes, remembered.partitions
        )

    def check(self, pipeline: Pipeline) -> None:
        """Raise :class:`StateRefused` unless the whole pipeline has the transforms of the runs before."""
        require_same(self.files.root, self._before, self._fingerprints)
        self._groups = connected(pipeline, self._fingerprints)

    def prepare(self, moves: Sequence[tuple[str, str]] = ()) -> None:
        """Write down what :meth:`finish` is to do: from then on the run counts, and whoever opens the folder
        next finishes it.

        ``moves`` are files to be renamed, with absolute paths: ``(from, to)``.
        """
        if self.files.text(MANIFEST) != self._text:
            raise StateRefused(
                f"another run has been committed to {self.files.root} meanwhile: this one counts for nothing, run it again"
            )
        names = [name for name in self.files.names(self._attempt) if name.endswith(".json")]
        turns = [TurnEnded(**json.loads(self.files.get(name).to_pybytes())) for name in names]
        after = after_run(self._before, self._fingerprints, turns, self._groups, self.partitions or 1, self.inputs)
        self.files.sync(after.files - self._before.files)
        self.files.put(JOURNAL, write_journal(write_manifest(after), moves).encode())
        self.files.sync([JOURNAL])

    def finish(self) -> None:
        """Do what was written down: rename the files, replace the manifest, and remove the files that it does
        not name.
        """
        self._recover()
        self._text = self.files.text(MANIFEST)
        self._before = read_manifest(self._text or "", self.files.path(MANIFEST))
        self._remove_unnamed(self._before)
        for call in self.when_committed:
            call()

    def commit(self, moves: Sequence[tuple[str, str]] = ()) -> None:
        """:meth:`prepare`, then :meth:`finish`."""
        self.prepare(moves)
        self.finish()

    def _recover(self) -> None:
        journal = self.files.text(JOURNAL)
        if journal is None:
            return
        manifest, moves = read_journal(journal, self.files.path(JOURNAL))
        for source, target in moves:
            move(source, target)
        self.files.put(MANIFEST, manifest.encode())
        self.files.sync([MANIFEST])
        self.files.remove([JOURNAL])

    def _remove_unnamed(self, manifest: Manifest, folder: str = RUNS) -> None:
        named = manifest.files
        self.files.remove([name for name in self.files.names(folder) if name not in named])

    def _open_again(self) -> None:
        self.files.lock()
        self.is_open = True
        try:
            self._recover()
        except BaseException:
            self.close()
            raise
        if self.files.text(MANIFEST) != self._text:
            self.close()
            raise StateRefused(f"another run has been committed to {self.files.root} since this pipeline was built: build it again")

    def _run(self, pipeline: Pipeline, *args: Any) -> Any:
        """Run a pipeline; the run is committed when its result says that it is done."""
        self._open_again()
        try:
            self.check(pipeline)
            result = type(pipeline).run(pipeline, *args)
        except BaseException:
            self.close()
            raise
        wait: Callable[..., Any] = result.wait_until_finish

        def wait_until_finish(*args: Any, **options: Any) -> Any:
            try:
                ended = wait(*args, **options)
                if self.is_open and result.state == PipelineState.DONE:
                    self.commit()
            except BaseException:
                self.close()
                raise
            if result.state in _ENDED:
                self.close()
            return ended

        result.wait_until_finish = wait_until_finish  # type: ignore[method-assign]
        return result


def folder_of(pipeline: Pipeline, path: str | None) -> StateFolder | None:
    """The folder in which the transforms of a pipeline remember: one that is attached, or at the first call
    that at a path.
    """
    folder: StateFolder | None = getattr(pipeline, _ATTACHED, None)
    if folder is None and path:
        folder = StateFolder(path)
        folder.close()  # until it runs
        setattr(pipeline, _ATTACHED, folder)
        pipeline.run = partial(folder._run, pipeline)  # type: ignore[method-assign]
    return folder
