"""Compares snapshots of a table with the ones before them, so that a run reads their changes alone.

The process that builds the pipeline reads each new snapshot once, and keeps of the last one its keys and digests of its rows.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import xxhash

from beam_joins.columns.sorting import combine_chunks, integers
from beam_joins.elements.iso_times import text_of_micros
from beam_joins.errors import InputError
from beam_joins.kernels.snapshots import DIGEST_TYPE, changes_between, of_snapshot
from beam_joins.keys.key_columns import Ints
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, cuts_of
from beam_joins.pipelines.changelogs.snapshot_files import IN_PART, PART_START, write_table
from beam_joins.pipelines.changelogs.snapshot_times import time_of_file
from beam_joins.pipelines.formats.changelog_columns import KEY, OPERATION, PLACE, TIME, shown
from beam_joins.pipelines.formats.file_parts import File, Part, SnapshotFile
from beam_joins.pipelines.formats.read_plan import JSON, KEY_TYPES, ReadPlan

_REMARKS: Final = 3
_KINDS: Final = {kind: name for name, kind in KEY_TYPES.items()}


class LastSnapshot(NamedTuple):
    """The last snapshot that runs have read, as a state remembers it: its time, the time of its changes (a corrected one has later
    ones), its number of rows, and the paths of its files.
    """

    time: int
    changed: int
    rows: int
    files: Sequence[str]
    shown: str


class Compared(NamedTuple):
    """A changelog whose files are read for changes alone, and the last snapshot with its rows."""

    changelog: Changelog
    last: LastSnapshot | None
    rows: pa.Table | None


class _Changes(NamedTuple):
    """The files of a snapshot, to be read for its changes, its rows, to compare the next one with, and the remark on it."""

    files: list[File]
    rows: pa.Table
    remark: str


class _Digests(NamedTuple):
    """The rows of a snapshot: key, digest, and where each is, by the number of a file, the start of a part and a place in it.
    ``faulty`` are the places of records that the run reports.
    """

    rows: pa.Table
    faulty: list[tuple[int, int, int]]


def compared(changelog: Changelog, last: LastSnapshot | None, before: pa.Table | None, folder: str, again: str = "") -> Compared:
    """The changes of the snapshots in the files of a changelog, each compared with the one before it; ``before`` are the rows of
    the ``last`` one of earlier runs. What is found is written below ``folder``; ``again`` is the option that reads all of them
    anew.

    Raises InputError for a snapshot of an earlier time than the last one, one with too few rows, or with two rows of a key.
    """
    remarks, files = list[str](), list[File]()
    for time, of_time in _by_time(changelog):
        changed = _require_later(changelog, last, time, of_time, again)
        digests = _digests(changelog, of_time, time, before)
        _require_whole(changelog, last, of_time, len(digests.rows) + len(digests.faulty))
        made = _changes(changelog, of_time, changed, before, digests, folder)
        files += made.files
        remarks.append(f"snapshot of {text_of_micros(time)}, {_named(of_time)}: {made.remark}")
        before = made.rows
        last = LastSnapshot(time, changed, len(before), [file.path for file in of_time], _named(of_time))
    if len(remarks) > 1 and not _says_time(changelog):
        flag = changelog.columns.flag("timestamp_in_path")
        remarks.append(f"the {changelog.name} are in the order of the last writes of their files ({flag} takes times from paths)")
    if len(remarks) > _REMARKS:
        remarks = [f"{counted(len(remarks), 'snapshot')} of {changelog.name}, these the last ones", *remarks[-_REMARKS:]]
    return Compared(replace(as_changes(changelog), files=tuple(files), snapshot_remarks=tuple(remarks)), last, before)


def as_changes(changelog: Changelog) -> Changelog:
    """A changelog of snapshots with the columns of their changes."""
    first = tuple({**row, TIME: 0, OPERATION: "u"} for row in changelog.first)
    return replace(changelog, columns=changelog.columns.of_changes(), first=first, times=())


def _by_time(changelog: Changelog) -> Iterator[tuple[int, list[File]]]:
    """The snapshots in the order of their times, with their files. Raises InputError for files whose last writes have one time."""
    timed = [(time_of_file(changelog.name, file, changelog.columns), file) for file in changelog.files]
    timed.sort(key=lambda each: (each[0], each[1].path))
    for time, of_time in itertools.groupby(timed, key=lambda each: each[0]):
        files = [file for _, file in of_time]
        if len(files) > 1 and not _says_time(changelog):
            raise InputError(
                f"{changelog.name}: {files[0].shown} and {files[1].shown} were written at the same time, which does not say which of "
                f"these snapshots is the later one: give {changelog.columns.flag('timestamp_in_path')}"
            )
        yield time, files


def _says_time(changelog: Changelog) -> bool:
    """Whether rows or paths say the times of snapshots."""
    snapshots = changelog.columns.snapshots
    return snapshots is not None and bool(snapshots.timestamp or snapshots.in_path)


def _named(files: Sequence[File]) -> str:
    """The files of a snapshot, by name."""
    return files[0].shown if len(files) == 1 else f"{files[0].shown} and {counted(len(files) - 1, 'more file')}"


def _require_later(changelog: Changelog, last: LastSnapshot | None, time: int, files: Sequence[File], again: str) -> int:
    """The time of the changes of a snapshot; raises InputError for one that is not behind the last one, nor corrects it."""
    if last is None or time > last.time:
        return time if last is None else max(time, last.changed + 1)
    if time == last.time and {file.path for file in files} == {*last.files}:
        return last.changed + 1
    of_last = "is of the time of" if time == last.time else "is of an earlier time than"
    raise InputError(
        f"{changelog.name}: {_named(files)}, of {text_of_micros(time)}, {of_last} the snapshot that was read last, {last.shown}, of "
        f"{text_of_micros(last.time)}: take it away, or {again}, which reads all snapshots in the order of their times"
    )


def _require_whole(changelog: Changelog, last: LastSnapshot | None, files: Sequence[File], rows: int) -> None:
    """Raise InputError for a snapshot with too few rows, which may have been cut short."""
    snapshots = changelog.columns.snapshots
    if last is not None and snapshots is not None and rows < last.rows * snapshots.min_share:
        raise InputError(
            f"{changelog.name}: {_named(files)} has {counted(rows, 'row')}, where the snapshot before it, {last.shown}, has "
            f"{last.rows:,}: all others would be deleted. Where it is whole, give {changelog.columns.flag('min_share')}, the least "
            f"share of rows (now {snapshots.min_share:g})"
        )


def _digests(changelog: Changelog, files: Sequence[File], time: int, before: pa.Table | None) -> _Digests:
    """The rows of a snapshot. Raises InputError for rows of another time."""
    columns, kinds = changelog.columns, _kinds(changelog, before)
    plan = ReadPlan(columns=columns, key=kinds, key_names=columns.key, members=changelog.rows_have, forms=(JSON,))
    keys, digests, places, faulty = list[pa.Array](), list[bytes](), list[Ints](), list[tuple[int, int, int]]()
    for number, file in enumerate(files):
        for start, stop in cuts_of(file):
            part = Part(0, file, start, stop)
            for made in _made(changelog.name, part, plan):
                faulty += [(number, start, place) for place, _ in made.faults]
                for batch in made.elements:
                    if columns.timestamp is not None:
                        _require_time(changelog, file, batch[TIME], time)
                    keys.append(batch[KEY])
                    digests += map(xxhash.xxh3_128_digest, batch[JSON].to_pylist())
                    here = integers(batch[PLACE])
                    places.append(np.stack([np.full(len(here), number), np.full(len(here), start), here], axis=1))
    at = np.concatenate(places) if places else np.zeros((0, 3), np.int64)
    named = {"file": at[:, 0], PART_START: at[:, 1], IN_PART: at[:, 2]}
    of_rows = {"key": combine_chunks(pa.chunked_array(keys, plan.key_type)), "digest": pa.array(digests, DIGEST_TYPE)}
    return _Digests(pa.table({**of_rows, **named}), faulty)


def _made(name: str, part: Part, plan: ReadPlan) -> Iterator[Any]:
    try:
        yield from ColumnReader(plan).made(part)
    except InputError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{name}: {part.file.shown} {error or 'is cut off'}") from error


def _kinds(changelog: Changelog, before: pa.Table | None) -> tuple[str, ...]:
    """The kinds of the key's columns: those of the snapshot before, or of the first records."""
    if before is not None and len(before):
        kind = before.schema.field("key").type
        types = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
        return tuple(_KINDS[each] for each in types)
    return tuple(changelog.first_kind_of(column) or "text" for column in changelog.columns.key)


def _require_time(changelog: Changelog, file: File, times: pa.Array, time: int) -> None:
    other = times.filter(pa.array(integers(times) != time))
    if len(other):
        columns = changelog.columns
        raise InputError(
            f"{changelog.name}: {file.shown} has rows of {text_of_micros(time)} and of {text_of_micros(other[0].as_py())} in column "
            f"'{columns.timestamp}' ({columns.flag('timestamp_by')}), where all rows of a snapshot have one time: name the "
            f"column with the time of the export, or give {columns.flag('timestamp_in_path')}"
        )


def _changes(
    changelog: Changelog, files: Sequence[File], changed: int, before: pa.Table | None, digests: _Digests, folder: str
) -> _Changes:
    """The changes of a snapshot. One with bad records, which may be of any rows, deletes none."""
    rows = digests.rows
    earlier = rows.select(["key", "digest"]).slice(0, 0) if before is None else before
    changes = changes_between(earlier, rows)
    if changes.twice is not None:
        raise InputError(_twice(changelog, files, rows, changes.twice))
    now = of_snapshot(rows)
    if before is None:
        return _Changes([replace(file, snapshot=SnapshotFile(changed)) for file in files], now, counted(len(rows), "row"))
    gone = before.filter(pa.array(changes.deleted))
    if digests.faulty and len(gone):
        now, gone = pa.concat_tables([now, gone]), gone.slice(0, 0)
    upserted = rows.filter(pa.array(changes.upserted))
    made = list[File]()
    for number, file in enumerate(files):
        places = "" if changes.upserted.all() else _written(folder, _places(upserted, digests.faulty, number))
        is_deleting = not number and len(gone)
        deleted = _written(folder, _columns_of(combine_chunks(gone["key"]), changelog.columns.key)) if is_deleting else ""
        made.append(replace(file, snapshot=SnapshotFile(changed, places, deleted)))
    for_bad = f", and {counted(len(digests.faulty), 'bad record')}, for which none is deleted" if digests.faulty else ""
    return _Changes(made, now, f"{counted(len(rows), 'row')}, {len(upserted):,} inserted or updated, {len(gone):,} deleted{for_bad}")


def _places(upserted: pa.Table, faulty: Sequence[tuple[int, int, int]], number: int) -> pa.Table:
    """The places of the rows of a file that are read: those that are inserted or updated, and bad records, for the run to report."""
    of_file = upserted.filter(pa.array(integers(upserted["file"]) == number)).select([PART_START, IN_PART])
    bad = [(start, place) for of, start, place in faulty if of == number]
    more = pa.table({PART_START: [start for start, _ in bad], IN_PART: [place for _, place in bad]}, of_file.schema)
    return pa.concat_tables([of_file, more])


def _twice(changelog: Changelog, files: Sequence[File], rows: pa.Table, twice: tuple[int, int]) -> str:
    """The sentence on two unlike rows of a key."""
    found = rows.take(pa.array(twice)).to_pylist()
    wheres = [
        f"{file.shown}, {file.reader.where(Part(0, file, row[PART_START], 0), row[IN_PART])}"
        for row in found
        for file in [files[row["file"]]]
    ]
    key = found[0]["key"]
    named = ", ".join(shown(each) for each in (key.values() if isinstance(key, dict) else [key]))
    columns = changelog.columns
    return (
        f"{changelog.name}: two rows of one snapshot have the key {named} ({', '.join(columns.key)}), and are not equal: {wheres[0]}, "
        f"and {wheres[1]}: name the columns that tell rows apart with {columns.flag('key')}"
    )


def _columns_of(keys: pa.Array, names: Sequence[str]) -> pa.Table:
    """The columns of keys."""
    return pa.table(keys.flatten() if pa.types.is_struct(keys.type) else [keys], names=list(names))


def _written(folder: str, table: pa.Table) -> str:
    path = os.path.join(folder, f"{uuid4().hex[:12]}.changes")
    if is_local(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    write_table(path, table)
    return path
