"""Page views of a made-up site: some weeks of them, skewed, out of order, and now and then without a page.

One seed gives the same views on every machine: the only source of chance is ``random.Random.random``, whose sequence Python promises to keep.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from beam_joins.pipelines.changelog_files.whole_files import appear_whole
from beam_joins.pipelines.made_up.shop import zipf_steps
from beam_joins.pipelines.sample import JsonLines

FIRST_WEEK: Final = 1_767_571_200_000_000
"""Monday, 2026-01-05, 00:00 UTC, in microseconds."""
WEEKS: Final = 5
DEFAULT_VIEWS: Final = 20_000
PAGES: Final = ("/", "/shop", "/search", "/blog", "/about", "/jobs", "/help", "/contact", "/press", "/sale", "/old-shop", "/terms")
NEW: Final = {"/sale": 2}
"""The week in which a page appears, counted from 0."""
GONE: Final = {"/old-shop": 3}
"""The first week in which a page is no longer there."""
MOST_LATE: Final = 500
"""The most lines by which a view can come behind its turn."""

_WEEK = 7 * 24 * 60 * 60 * 1_000_000


def page_views(*, views: int = DEFAULT_VIEWS, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The views in the order of their lines; every week has a fifth more than the one before.

    >>> views = list(page_views(views=100))
    >>> len(views), sorted(views[0])
    (100, ['at', 'page', 'visitor'])
    """
    if views < 0:
        raise ValueError("the number of views must be 0 or more")
    chance = Random(seed).random
    popularity = zipf_steps(len(PAGES))
    late: dict[int, list[dict[str, Any]]] = {}
    for line, at in enumerate(_times(views)):
        page: str | None = None
        while page is None or not _is_there(page, at):
            page = PAGES[bisect_right(popularity, int(chance() * popularity[-1]))]
        view = {"page": None if chance() < 0.0005 else page, "visitor": int(chance() * 5_000), "at": at}
        if chance() < 0.05:
            late.setdefault(line + 1 + int(chance() * MOST_LATE), []).append(view)
        else:
            yield view
        yield from late.pop(line, ())
    for held in sorted(late):
        yield from late[held]


def views_on_first_use(directory: Path) -> Path:
    """The default views as JSON lines; written if they are not there yet. Raises OSError if they cannot be."""
    path = directory / "views.jsonl"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with appear_whole(path) as ((file,), _):
            lines = JsonLines(file)
            for view in page_views():
                lines.write(view)
            lines.close()
    return path


def _times(views: int) -> Iterator[int]:
    """The times of the views, in microseconds, evenly within each week."""
    shares = [6**week * 5 ** (WEEKS - week) for week in range(WEEKS)]
    done = 0
    for week in range(WEEKS):
        upto = views * sum(shares[: week + 1]) // sum(shares)
        for view in range(upto - done):
            yield FIRST_WEEK + week * _WEEK + view * _WEEK // (upto - done)
        done = upto


def _is_there(page: str, at: int) -> bool:
    week = (at - FIRST_WEEK) // _WEEK
    return NEW.get(page, 0) <= week < GONE.get(page, WEEKS)
