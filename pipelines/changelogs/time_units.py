"""Checks the unit of event times: a wrong one puts them into 1970, or far from those of the other input."""

import datetime as dt
from statistics import median_low
from typing import Final

from beam_joins.elements.iso_times import EPOCH
from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog

FAR_APART: Final = 500
"""Units are factors of a thousand apart; the inputs may be of different years, up to a factor of two."""
_DAY: Final = 86_400_000_000
_YEAR: Final = 365 * _DAY


def require_one_unit(first: Changelog, second: Changelog) -> None:
    """Raise InputError if the times looked at of two changelogs cannot be in the units that the options say.

    Compared are the medians of times other than 0. Where both lie within the first day of 1970 they are made
    up, and nothing is refused.
    """
    medians = [(median_low(times), changelog) for changelog in (first, second) if (times := [t for t in changelog.times if t])]
    if len(medians) < 2 or (_says_unit(first) and _says_unit(second)):
        return
    (near, early), (far, late) = sorted(medians, key=lambda pair: abs(pair[0]))
    if abs(far) < max(_DAY, FAR_APART * abs(near)):
        return
    suspect = early if (abs(near) < _YEAR and not _says_unit(early)) or _says_unit(late) else late
    raise InputError(
        f"the times of {early.name} (median {_shown(near)}) and {late.name} ({_shown(far)}) are a factor of "
        f"{abs(far) // abs(near):,} apart:"
        f" say with {suspect.columns.flag('timestamp_unit')} what '{suspect.columns.timestamp}' counts, which is read "
        f"as {suspect.columns.unit}"
    )


def remarks_on(changelog: Changelog) -> list[str]:
    """Remarks of the summary on a changelog's times: nothing, or that all of them lie in 1970."""
    times = changelog.times
    if changelog.columns.enveloped or _says_unit(changelog) or not times or not all(0 <= time < _YEAR for time in times):
        return []
    return [
        f"the times of the first {len(times):,} {changelog.name} all lie in 1970: does '{changelog.columns.timestamp}' count"
        f" {changelog.columns.unit}? ({changelog.columns.flag('timestamp_unit')})"
    ]


def _says_unit(changelog: Changelog) -> bool:
    """Whether the files say themselves what their times count."""
    return bool(changelog.files) and all(file.unit is not None for file in changelog.files)


def _shown(micros: int) -> str:
    try:
        return str((EPOCH + dt.timedelta(microseconds=micros)).date())
    except OverflowError:
        return f"year {1970 + micros // _YEAR:,}"
