"""The times of snapshots: in a column of their rows, in the paths of their files, or those of the last writes of these."""

import datetime as dt
import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from beam_joins.elements.iso_times import NO_TIME
from beam_joins.errors import InputError
from beam_joins.pipelines.formats.changelog_columns import Columns, micros_of, shown
from beam_joins.pipelines.formats.file_parts import File

_DIGITS: Final = {
    "Y": r"\d{4}",
    **dict.fromkeys("ymdHMS", r"\d{2}"),
    "j": r"\d{3}",
    "f": r"\d{1,6}",
    "z": r"(?:[+-]\d{2}:?\d{2}|Z)",
    "%": "%",
}
"""The parts of a form of times, as ``strptime`` has them, and what they match."""
_DAY: Final = ({"j"}, {"m", "d"})


def require_form(form: str) -> str:
    """A form of times in paths; raises ValueError, a sentence, for one that does not say a day.

    >>> require_form("orders-%Y-%m-%d")
    'orders-%Y-%m-%d'
    """
    parts = {match[1] for match in re.finditer("%(.?)", form)}
    if other := sorted(parts - _DIGITS.keys()):
        raise ValueError(f"%{other[0]} is none of {', '.join(f'%{part}' for part in _DIGITS)}")
    if not parts & {"Y", "y"} or not any(day <= parts for day in _DAY):
        raise ValueError(f"{form!r} does not say a day: write it as strptime does, such as %Y-%m-%d")
    return form


def time_of_file(name: str, file: File, columns: Columns) -> int:
    """The time of the snapshot that a file is of, in microseconds. Raises InputError for one that does not say it."""
    snapshots = columns.snapshots
    if columns.timestamp is not None:
        return _time_in_rows(name, file, columns)
    if snapshots is None or not snapshots.in_path:
        return file.written // 1_000
    times = {time for match in _pattern(snapshots.in_path).findall(file.path) if (time := _time(match, snapshots.in_path)) is not None}
    flag = columns.flag("timestamp_in_path")
    if not times:
        raise InputError(f"{name}: there is no time in the form {snapshots.in_path} in {file.path} ({flag})")
    if len(times) > 1:
        raise InputError(
            f"{name}: several times in the form {snapshots.in_path} are in {file.path}: add what stands beside it ({flag})"
        )
    return times.pop()


def times_in_paths(name: str, files: Iterable[File], columns: Columns) -> set[int]:
    """The times of the snapshots that files are of, where their paths have these. Raises InputError for a path without one."""
    has_times = columns.snapshots is not None and columns.snapshots.in_path
    return {time_of_file(name, file, columns) for file in files} if has_times else set()


def _time_in_rows(name: str, file: File, columns: Columns) -> int:
    row = next(iter(file.reader.first(file)), None)
    if row is None:
        raise InputError(
            f"{name}: {file.shown} has no row that says its time ({columns.flag('timestamp_by')}): give "
            f"{columns.flag('timestamp_in_path')}"
        )
    try:
        time = columns.time_of(row)
    except KeyError:
        raise InputError(
            f"{name}: {file.shown} has no column '{columns.timestamp}' ({columns.flag('timestamp_by')}): it has {', '.join(row)}"
        ) from None
    except (ValueError, OverflowError):
        value = shown(row.get(columns.timestamp or ""))
        raise InputError(f"{name}: {file.shown}: column '{columns.timestamp}' is not a time: {value}") from None
    assert time != NO_TIME
    return time


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """The pattern of a form of times; digits beside it are no part of a time."""
    pieces = re.split("(%.)", form)
    return re.compile(
        "(?<![0-9])" + "".join(_DIGITS[each[1]] if each[:1] == "%" else re.escape(each) for each in pieces) + "(?![0-9])"
    )


def _time(text: str, form: str) -> int | None:
    """The time of a text in a form, in UTC if it does not say; ``None`` for a day that is none.

    >>> _time("2026-11-29", "%Y-%m-%d"), _time("2026-13-29", "%Y-%m-%d")
    (1795910400000000, None)
    """
    try:
        return micros_of(dt.datetime.strptime(text, form))
    except ValueError:
        return None
