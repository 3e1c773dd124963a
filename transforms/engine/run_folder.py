"""The folder of a run's blocks: where it is, how it comes to be there, and that it does not stay."""

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Final
from uuid import uuid4

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pipeline import Pipeline

from beam_joins.errors import InputError, OutputError
from beam_joins.transforms.engine.around_run import around_run
from beam_joins.transforms.engine.block_files import BlockFolder
from beam_joins.transforms.engine.resumed.file_lock import FileLock
from beam_joins.transforms.engine.runner_abilities import is_one_machine, reads_once

INLINE: Final = "inline"
_PREFIX: Final = "beam_joins-blocks-"
_ATTACHED: Final = "_beam_joins_blocks"


def block_folder(pipeline: Pipeline, asked: str | None) -> BlockFolder | None:
    """The folder for the blocks of a pipeline, in the folder ``asked`` or, where all workers are on this
    machine, in that for temporary files; ``None`` where blocks travel as they are.

    It is made when the pipeline runs and removed when that has ended. Raises ``ValueError`` for a folder that
    is not of a local or mounted filesystem.
    """
    if not hasattr(pipeline, _ATTACHED):
        setattr(pipeline, _ATTACHED, _attached(pipeline, asked))
    folder: BlockFolder | None = getattr(pipeline, _ATTACHED)
    return folder


def _attached(pipeline: Pipeline, asked: str | None) -> BlockFolder | None:
    if asked == INLINE or pipeline.options.view_as(StandardOptions).streaming:  # a restored run has no folder
        return None
    if asked is not None and (not asked or FileSystems.get_scheme(asked) is not None):
        raise InputError(
            f"--beam_joins_blocks={asked}: give a folder that all workers reach by this path, or {INLINE}; a store has no folders"
        )
    if asked is None and not is_one_machine(pipeline):
        return None
    parent = os.path.abspath(asked or tempfile.gettempdir())
    folder = BlockFolder(os.path.join(parent, f"{_PREFIX}{uuid4().hex}"), asked is None and reads_once(pipeline))
    made = _Made(folder.path)
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
            raise OutputError(
                f"cannot make the folder {path} for the blocks of the run: {error.strerror or error}; name another place"
                f" with --beam_joins_blocks=DIR"
            ) from error
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
