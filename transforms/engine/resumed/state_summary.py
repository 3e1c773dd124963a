"""Describes, verifies and copies the state in a folder, without a lock: files never change once the manifest names them."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.coders.snapshot import Described, files_of, read_file, rows_of
from beam_joins.errors import CorruptData, StateRefused
from beam_joins.transforms.engine.resumed.manifest import JOURNAL, MANIFEST, Manifest, Remembered, read_manifest, write_manifest
from beam_joins.transforms.engine.resumed.state_files import StateFiles

_ATTEMPTS: Final = 5


class TransformState(NamedTuple):
    """The state of one transform: its full ``label``, its class, the stored ``rows`` (also of older versions and of deletes that
    are not merged yet), their ``bytes`` in so many ``files``, and the largest position and event time (microseconds) so far of
    all transforms connected with it.
    """

    label: str
    transform: str
    rows: int
    bytes: int
    files: int
    frontier: int | None
    latest: int | None


class StateSummary(NamedTuple):
    """The state after the last committed ``run``; ``inputs`` is the progress of readers."""

    run: int
    partitions: int | None
    inputs: Mapping[str, Any]
    transforms: tuple[TransformState, ...]


def last_run(path: str) -> tuple[int, dict[str, Any]]:
    """The number of the last run that was committed to the folder at a path, and its ``inputs``; 0 and none before the
    first one.
    """
    last = _read(_files(path)) or Manifest()
    return last.run, dict(last.inputs)


def state_summary(path: str) -> StateSummary:
    """The state in the folder at a path, as of its last committed run.

    Raises :class:`StateRefused` for a folder without one, and :class:`~beam_joins.coders.CorruptData` for a manifest that is not
    as it was written.
    """
    files, manifest = read_state(path)
    transforms = tuple(_of_stage(files, manifest, label, each) for label, each in manifest.stages.items())
    return StateSummary(manifest.run, manifest.partitions, manifest.inputs, transforms)


def read_state(path: str) -> tuple[StateFiles, Manifest]:
    """The files and the manifest of the state in the folder at a path. Raises as :func:`state_summary` does."""
    files = _files(path)
    return files, _required(files, _read(files))


def verify_state(path: str) -> int:
    """Verify the checksums of all files of the state in a folder; gives their number.

    Raises :class:`StateRefused` for a folder without a state, and :class:`~beam_joins.coders.CorruptData` that names all files
    that are missing or not as they were written.
    """
    files = _files(path)
    described = _required(files, _read(files)).described

    def fault(file: Described) -> str:
        try:
            read_file(file, files.get)
        except CorruptData as error:
            return str(error)
        return ""

    if faults := list(filter(None, files.side_by_side(fault, described))):
        raise CorruptData("; ".join(faults))
    return len(described)


def copy_state(path: str, to: str) -> StateSummary:
    """Copy the state of the last committed run into another folder, which has none; runs may go on meanwhile.

    Raises :class:`StateRefused` for a folder without a state or that is being committed to, and for a target that has a state;
    :class:`~beam_joins.coders.CorruptData` for a file that is not as it was written; and :class:`~beam_joins.OutputError`.
    """
    files, target = _files(path), _files(to)
    if target.exists(MANIFEST):
        raise StateRefused(f"{target.root} has a state: name another folder")
    for _ in range(_ATTEMPTS):
        manifest = _required(files, _read(files))
        text = write_manifest(manifest)
        if files.exists(JOURNAL):
            continue
        try:
            threads = target if files.is_local else files
            written = list(threads.side_by_side(partial(_copied, files, target), manifest.described))
        except CorruptData:
            if _read(files) == manifest:
                raise
            continue  # another run has been committed, and has removed a file
        target.put(MANIFEST, text.encode())
        target.sync([*written, MANIFEST])
        return state_summary(to)
    raise StateRefused(f"a run is being committed to {files.root}: copy it again, once the run has ended or the next one has begun")


def _files(path: str) -> StateFiles:
    files = StateFiles(path)
    files.require_reachable()
    return files


def _read(files: StateFiles) -> Manifest | None:
    text = files.text(MANIFEST)
    return None if text is None else read_manifest(text, files.path(MANIFEST))


def _required(files: StateFiles, manifest: Manifest | None) -> Manifest:
    if manifest is None:
        raise StateRefused(f"{files.root} has no state: no run with this folder has ended")
    return manifest


def _files_of(remembered: Remembered) -> list[Described]:
    return [file for parts in remembered.partitions.values() for _, part in parts for file in files_of(part)]


def _of_stage(files: StateFiles, manifest: Manifest, label: str, remembered: Remembered) -> TransformState:
    described = _files_of(remembered)
    rows = sum(files.side_by_side(lambda file: rows_of(file, files.get), described))
    size = sum(file["bytes"] for file in described)
    kind = manifest.transforms[label.rpartition("/")[0]]["transform"]
    return TransformState(label, kind, rows, size, len(described), remembered.frontier, remembered.latest)


def _copied(files: StateFiles, target: StateFiles, file: Described) -> str:
    name: str = file["file"]
    content: list[pa.Buffer] = []

    def get(name: str) -> pa.Buffer:
        content.append(files.get(name))
        return content[0]

    read_file(file, get)
    target.put(name, content[0])
    return name
