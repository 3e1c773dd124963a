"""What ``python -m pipelines.page_views`` prints: the weeks, and what was read, dropped and written."""

from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any, Final

from beam_joins.pipelines.changelog_files.read_changelog import READ
from beam_joins.pipelines.changelog_files.tally import Tally, add_up
from beam_joins.pipelines.jobs.summary import REASONS

WEEKS_SHOWN: Final = 4
PAGES_SHOWN: Final = 10


def weeks_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The busiest pages of the last weeks, the latest week last.

    >>> rows = [{"page": "/", "week": "2026-01-05", "views": 1200, "last_week": 1000, "change": 20.0}]
    >>> print(weeks_table([*rows, {"page": "/new", "week": "2026-01-05", "views": 3, "last_week": None, "change": None}]))
    week of 2026-01-05 (Monday, UTC)              views      last week     change
      /                                           1,200          1,000    +20.0 %
      /new                                            3              -          -
    """
    busiest: dict[str, list[Mapping[str, Any]]] = {}
    pages: dict[str, int] = {}
    for row in rows:
        week = row["week"]
        pages[week] = pages.get(week, 0) + 1
        insort(busiest.setdefault(week, []), row, key=_rank)
        del busiest[week][PAGES_SHOWN:]
    weeks = sorted(busiest)
    lines = [f"(earlier weeks: {len(weeks) - WEEKS_SHOWN:,})"] if len(weeks) > WEEKS_SHOWN else []
    for week in weeks[-WEEKS_SHOWN:]:
        lines.append(f"{f'week of {week} (Monday, UTC)':<36} {'views':>14} {'last week':>14} {'change':>10}")
        lines += map(_line, busiest[week])
        if pages[week] > PAGES_SHOWN:
            lines.append(f"  (more pages: {pages[week] - PAGES_SHOWN:,})")
    return "\n".join(lines) or "no page views"


def totals(tallies: Iterable[Tally], seconds: Mapping[str, float], written: str) -> str:
    """What was read, dropped and written, and how long it took.

    >>> print(totals([Tally("views", "read", 1200), Tally("views", "null_key", 2)], {"run": 1.25}, ""))
    views read                                    1,200
    views dropped                                     2  without a key (null_key)
    seconds                                         1.2
    """
    lines = []
    for (place, what), tally in sorted(add_up(tallies).items(), key=lambda item: item[0][1] != READ):
        if place:
            reason = "" if what == READ else f"  {REASONS.get(what, what)} ({what})"
            lines.append(f"{'views read' if what == READ else 'views dropped':<36} {tally.records:>14,}{reason}")
            lines += [f"  {example}" for example in tally.examples]
    if written:
        lines.append(written)
    lines.append(f"{'seconds':<36} {sum(seconds.values()):>14.1f}")
    return "\n".join(lines)


def _rank(row: Mapping[str, Any]) -> tuple[int, str]:
    return -row["views"], str(row["page"])


def _line(row: Mapping[str, Any]) -> str:
    before, change = row["last_week"], row["change"]
    said = ("-", "-") if before is None else (f"{before:,}", f"{change:+,.1f} %")
    return f"  {row['page']!s:<34} {row['views']:>14,} {said[0]:>14} {said[1]:>10}"
