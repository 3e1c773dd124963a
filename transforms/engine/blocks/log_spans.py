"""Spans of a log whose places come in the order of time: where its records lie, and their times.

A log that has begun again, as MySQL's after RESET MASTER, has its names and numbers a second time: a record of it is
later than all that were read before, and its place is among theirs. Times may be a little out of order, as a statement
begins before its transaction is committed, so that one record alone says nothing unless it is all that has come.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

IN_TIME: Final = "in order of time: "
"""Begins the name of such a log where records name it."""
_SPAN, _PAST = "span: ", "past span: "
"""Begin the notes of spans of this run and of those before it."""
NOTES: Final = (_SPAN, _PAST)
_FILE_BITS: Final = 40
"""The bits of a position behind the number of a file, of a log in files."""
_KEPT: Final = 8
_UNEVEN, _UNEVEN_AT_ONCE = 10_000_000, 600_000_000
"""So many microseconds times may be out of order, between runs and within one."""


class Span(NamedTuple):
    """The first and the last position of records in a file of a log, and their first and last time."""

    log: str
    file: int
    first: int
    last: int
    since: int
    until: int


def note_spans(noted: set[str], logs: Any, positions: pa.Array, times: Any) -> None:
    """Note the spans of records in the logs that they name."""
    if not isinstance(logs, pa.Array | pa.ChunkedArray) or logs.null_count == len(logs):
        return
    rows = pa.table({"log": logs, "position": positions, "time": pa.array(times)})
    rows = rows.filter(pc.and_(pc.starts_with(rows["log"], IN_TIME), rows["position"].is_valid()))
    if not len(rows):
        return
    rows = rows.append_column("file", pc.shift_right(rows["position"], _FILE_BITS))
    ends = [(name, end) for name in ("position", "time") for end in ("min", "max")]
    spans = rows.group_by(["log", "file"], use_threads=False).aggregate(ends).to_pylist()
    found = [
        Span(
            each["log"].removeprefix(IN_TIME),
            *(each[name] for name in ("file", "position_min", "position_max", "time_min", "time_max")),
        )
        for each in spans
    ]
    others = {note for note in noted if note.startswith(_SPAN)}
    noted -= others
    noted |= _written(_SPAN, [*_read(_SPAN, others), *found])


def in_earlier_runs(notes: Iterable[str]) -> set[str]:
    """The notes of a run and those before it, as those of earlier runs: of each log the last files alone.

    >>> notes = {"text", *_written(_SPAN, [Span("a", 1, 5, 7, 0, 9)]), *_written(_PAST, [Span("a", 1, 2, 3, 0, 4)])}
    >>> sorted(in_earlier_runs(notes))
    ['past span: ["a",1,2,7,0,9]', 'text']
    """
    notes = set(notes)
    spans = _merged([*_read(_SPAN, notes), *_read(_PAST, notes)])
    kept = list[Span]()
    for log in {each.log for each in spans}:
        kept += sorted(each for each in spans if each.log == log)[-_KEPT:]
    return {note for note in notes if not note.startswith(NOTES)} | _written(_PAST, kept)


def begun_again(notes: Iterable[str]) -> str | None:
    """The log that has begun again, if one has.

    >>> past = _written(_PAST, [Span("a", 5, 100, 900, 10, 50)])
    >>> begun_again({*past, *_written(_SPAN, [Span("a", 5, 80, 1_000, 20, 70)])})
    >>> begun_again({*past, *_written(_SPAN, [Span("a", 1, 4, 700, 51, 60)])})
    'a'
    """
    notes = set(notes)
    now, past = _merged(_read(_SPAN, notes)), _merged(_read(_PAST, notes))
    for log in sorted({each.log for each in now}):
        if _has_begun_again([each for each in now if each.log == log], [each for each in past if each.log == log]):
            return log
    return None


def _has_begun_again(now: Sequence[Span], past: Sequence[Span]) -> bool:
    if past:
        until = max(each.until for each in past)
        all_before = max(each.last for each in now) < max(each.last for each in past)
        if all_before and min(each.since for each in now) > until:
            return True
        beside = {each.file: each for each in past}
        for each in now:
            if (before := beside.get(each.file)) is not None and each.since > until:
                is_far = each.first < before.last and each.since > until + _UNEVEN
                if each.first <= before.first or is_far:
                    return True
    for each in now:
        later = [other for other in (*past, *now) if other.file > each.file]
        uneven = _UNEVEN if any(other.file > each.file for other in past) else _UNEVEN_AT_ONCE
        if later and each.until > max(other.until for other in later) + uneven:
            return True
    return False


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged = dict[tuple[str, int], Span]()
    for each in spans:
        other = merged.get((each.log, each.file), each)
        merged[each.log, each.file] = Span(
            each.log,
            each.file,
            min(each.first, other.first),
            max(each.last, other.last),
            min(each.since, other.since),
            max(each.until, other.until),
        )
    return list(merged.values())


def _read(begin: str, notes: Iterable[str]) -> list[Span]:
    return [Span(*json.loads(note.removeprefix(begin))) for note in sorted(notes) if note.startswith(begin)]


def _written(begin: str, spans: Iterable[Span]) -> set[str]:
    return {begin + json.dumps(span, separators=(",", ":")) for span in _merged(spans)}
