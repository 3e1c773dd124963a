"""Reads a slot in a run: the round counts, and the slot advances, when the run commits.

Rows that were read as they are cannot be read a second time, so a run that is done again takes those that the
run before it has left, and the changes since.
"""

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import folders_beginning_with, matching, remove_directory
from beam_joins.pipelines.formats.envelopes.row_change import lsn_text
from beam_joins.pipelines.systems.postgres.slot_rounds import IDLE_BYTES, Round, advance, read_round
from beam_joins.pipelines.systems.postgres.table_snapshots import Slot
from beam_joins.transforms.connect.files import read_whole, write_whole
from beam_joins.transforms.connect.runs import StateFolder

_ROUND: Final = "round.json"
_log: Final = logging.getLogger(__name__)


class _Kept(msgspec.Struct):
    """A round whose run does not count yet, and the request that it answered."""

    slot: str
    publication: str
    tables: dict[str, list[str]]
    before: str | None
    round: Round


def without_tables(before: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The memory of a slot without tables, which are to be read as they are; ``names`` are whole, or their last parts."""

    def is_named(full: str) -> bool:
        return any(f".{full}".endswith(f".{name}") for name in names)

    parts = {part: {full: each for full, each in before.get(part, {}).items() if not is_named(full)} for part in ("tables", "schemas")}
    return {**before, **parts}


def read_in_run(
    slot: Slot, tables: Mapping[str, Sequence[str]], state: StateFolder, anew: Collection[str] = ()
) -> tuple[Round, dict[str, Any]]:
    """The round of the changes committed since the last run with this state, of ``tables`` with the columns of their keys; and the
    state's memory of the slot, which may be added to. Those ``anew`` are read as they are.

    Raises InputError.
    """
    folder, name = os.path.join(state.files.root, "slots", slot.name, f"{state.run:06d}"), f"slot {slot.name}"
    before = state.inputs.get(name)
    if before is not None and anew:
        before = without_tables(before, anew)
    asked = (
        slot.name,
        slot.publication,
        {name: [*key] for name, key in tables.items()},
        None if before is None else " ".join([before["end"], *before["tables"]]),
    )
    kept = _kept(folder, asked)
    if kept is None:
        read = read_round(slot, tables, before, folder, marks=True)
    else:
        read = kept.then(read_round(slot, tables, kept.state, folder, counts=False, marks=True))
    if read.anew:
        with writing(folder):
            write_whole(os.path.join(folder, _ROUND), msgspec.json.encode(_Kept(*asked, read)))
    state.has_arrivals |= bool(read.files) or read.behind >= IDLE_BYTES
    remembered = {**(before or {}), **read.state}
    state.inputs[name] = remembered
    state.when_committed.append(partial(_move_on, slot, read, folder))
    return read, remembered


def _kept(folder: str, asked: tuple[Any, ...]) -> Round | None:
    """The round that a run has left that did not come to its end, if this one is to read the same."""
    path = os.path.join(folder, _ROUND)
    try:
        if (content := read_whole(path)) is None:
            return None
        kept = msgspec.json.decode(content, type=_Kept)
        is_same = (kept.slot, kept.publication, kept.tables, kept.before) == asked
        files = [each for files in kept.round.files.values() for each in files]
        return kept.round if is_same and all(_size(path) == size for path, size in files) else None
    except (OSError, ValueError):
        return None


def _size(path: str) -> int:
    return next((file.bytes for file in matching(path)), -1)


def _move_on(slot: Slot, read: Round, folder: str) -> None:
    """The run counts: the server need not keep what it has read, and nobody needs the files, or those of runs
    before it; a later run may have some by now.
    """
    for each in folders_beginning_with(f"{os.path.dirname(folder)}/"):
        if os.path.basename(each) <= os.path.basename(folder):
            remove_directory(each)
    try:
        advance(slot, read)
    except InputError as error:
        _log.warning("%s; the next run moves the slot to %s", error, lsn_text(read.end))
