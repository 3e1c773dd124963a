"""Page views of each week against those of the week before: a windowed count joined with itself, a week apart ("Join Semantics")."""

import datetime as dt
from typing import Any, Final, NamedTuple

from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows

from beam_joins import WindowedAggregate, WindowedTableJoin
from beam_joins.windowed import Window, Windowed

DAY: Final = 24 * 60 * 60
WEEK: Final = 7 * DAY
WEEKS: Final = FixedWindows(WEEK, offset=4 * DAY)
"""Weeks from Monday to Monday, UTC: 1970 began on a Thursday."""

_EPOCH: Final = dt.date(1970, 1, 1)
_MICROS: Final = 1_000_000
_FIRST, _LAST = ((dt.date(year, 1, 1) - _EPOCH).days * DAY * _MICROS for year in (2, 9999))


class WeekOverWeek(NamedTuple):
    """A windowed table of (views, views of the week before or None) for every page and week, and the views that were dropped."""

    table: PCollection[Any]
    dropped: PCollection[Any]


def week_over_week(views: PCollection[tuple[Any, Any]]) -> WeekOverWeek:
    """Count a stream of (page, anything) by week, and set every count beside that of the week before.

    A view that comes late changes the week that it belongs to and the one after, for both are rows of one table.
    """
    counts = views | "Count by week" >> WindowedAggregate(WEEKS, initial=0, add=lambda count, view: count + 1).with_outputs()
    compared = (counts.table, counts.table) | "With the week before" >> WindowedTableJoin(
        lambda views, before: (views, before), how="left", shift=lambda week: week.shift(-WEEK)
    )
    return WeekOverWeek(compared, counts.dropped)


def has_week(micros: int) -> bool:
    """Whether a time lies in the years 2 to 9998, whose weeks begin on a day that has a date.

    >>> has_week(0), has_week(10**18)
    (True, False)
    """
    return _FIRST <= micros < _LAST


def row_of(page_and_week: Windowed[Any], counts: tuple[int, int | None]) -> dict[str, Any]:
    """A row as it is written; ``change`` is in percent of the week before.

    >>> row_of(Windowed("/home", Window(4 * DAY * 1_000_000, 11 * DAY * 1_000_000)), (30, 20))
    {'page': '/home', 'week': '1970-01-05', 'views': 30, 'last_week': 20, 'change': 50.0}
    """
    views, before = counts
    change = None if before is None else round(100 * (views - before) / before, 1)
    return {"page": page_and_week.key, "week": _day(page_and_week.window), "views": views, "last_week": before, "change": change}


def _day(week: Window) -> str:
    return str(_EPOCH + dt.timedelta(microseconds=week.start))
