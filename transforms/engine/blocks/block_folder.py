"""The folder of a run's blocks: where it is, how it comes to be there, and that it does not stay."""

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Final
from uuid import uuid4

from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pipeline import Pipeline

from beam_joins.errors import InputError, OutputError
from beam_joins.transforms.engine.blocks.block_files import BlockFolder
from beam_joins.transforms.engine.construction.run_hooks import around_run
from beam_joins.transforms.engine.construction.runner_abilities import is_one_machine, reads_once
from beam_joins.transforms.engine.files.claim import claim_at, end_lease, new_claim, take_lease
from beam_joins.transforms.engine.files.file_lock import FileLock
from beam_joins.transforms.engine.files.reachability import unreachable
from beam_joins.transforms.engine.files.stored_files import cause, folders_in, is_remote, remove_folder

INLINE: Final = "inline"
_PREFIX: Final = "beam_joins-blocks-"
_ATTACHED: Final = "_beam_joins_blocks"
_LOCK: Final = "lock"


def block_folder(pipeline: Pipeline, asked: str | None) -> BlockFolder | None:
    """The folder for the blocks of a pipeline, in the folder ``asked`` or, where all workers are on this
    machine, in that for temporary files; ``None`` where blocks travel as they are.

    It is made when the pipeline runs and removed when that has ended. Raises ``ValueError`` for an empty name.
    """
    if not hasattr(pipeline, _ATTACHED):
        setattr(pipeline, _ATTACHED, _attached(pipeline, asked))
    folder: BlockFolder | None = getattr(pipeline, _ATTACHED)
    return folder


def _attached(pipeline: Pipeline, asked: str | None) -> BlockFolder | None:
    if asked == INLINE or pipeline.options.view_as(StandardOptions).streaming:  # a restored run has no folder
        return None
    if asked == "":
        raise InputError(f"--beam_joins_blocks={asked}: give a folder that all workers reach by this path, or {INLINE}")
    if asked is None and not is_one_machine(pipeline):
        return None
    in_store = asked is not None and is_remote(asked)
    parent = (asked or "").rstrip("/") if in_store else os.path.abspath(asked or tempfile.gettempdir())
    folder = BlockFolder(os.path.join(parent, f"{_PREFIX}{uuid4().hex}"), asked is None and reads_once(pipeline))
    made = _MadeInStore(folder.path) if in_store else _Made(folder.path)
    around_run(pipeline, made.make, lambda result: made.remove())
    return folder


class _Made:
    """The folder while the run lasts, locked, so that no other process takes it for a folder left behind."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: FileLock | None = None

    def make(self) -> None:
        path = self._path
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _remove_left(os.path.dirname(path))
            self._lock = _made(path)
        except OSError as error:
            raise _not_made(path, error.strerror or str(error)) from error
        atexit.register(self.remove)

    def remove(self) -> None:
        if self._lock is None:
            return
        atexit.unregister(self.remove)
        with suppress(OSError):  # under another name no worker that is still there writes into it
            os.rename(self._path, gone := f"{self._path}-")
            shutil.rmtree(gone, ignore_errors=True)
        self._lock.close()
        self._lock = None


class _MadeInStore:
    """The folder while the run lasts, with a lease, so that no other process takes it for a folder left behind."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._claim = new_claim()
        self._is_made = False

    def make(self) -> None:
        if reason := unreachable(self._path):
            raise reason.kind(f"--beam_joins_blocks: {os.path.dirname(self._path)} cannot be reached: {reason}")
        try:
            _remove_left_in_store(os.path.dirname(self._path))
            take_lease(f"{self._path}/{_LOCK}", self._claim, None)
        except OSError as error:
            raise _not_made(self._path, cause(error)) from error
        self._is_made = True
        atexit.register(self.remove)

    def remove(self) -> None:
        if self._is_made:
            self._is_made = False
            atexit.unregister(self.remove)
            with suppress(OSError):  # the next run removes what stays
                end_lease(f"{self._path}/{_LOCK}", self._claim)
                remove_folder(self._path)


def _not_made(path: str, reason: str) -> OutputError:
    return OutputError(
        f"cannot make the folder {path} for the blocks of the run: {reason}; name another place with --beam_joins_blocks=DIR"
    )


def _made(path: str) -> FileLock:
    while True:
        os.mkdir(path, 0o700)
        with suppress(FileNotFoundError):
            lock = FileLock(path, is_folder=True)
            with suppress(OSError):  # a filesystem without locks
                lock.take(wait=True)
            if os.path.exists(path):
                return lock
            lock.close()  # another process has taken it for a folder left behind


def _remove_left(parent: str) -> None:
    """Remove the folders of processes that were killed."""
    for name in os.listdir(parent):
        if name.startswith(_PREFIX):
            with suppress(OSError):
                lock = FileLock(os.path.join(parent, name), is_folder=True)
                try:
                    lock.take(wait=False)
                    shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
                finally:
                    lock.close()


def _remove_left_in_store(parent: str) -> None:
    """Remove the folders whose runs have no lease any more."""
    for folder in folders_in(parent, _PREFIX):
        claim = claim_at(f"{folder}/{_LOCK}").claim
        if claim is None or claim.is_dead:
            with suppress(OSError):  # another run may remove it too
                remove_folder(folder)
