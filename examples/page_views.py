"""Page views, week over week: a windowed count joined with itself, shifted by one week.

A view that arrives late changes its week and the next.

It prints, the count of views without a page before or after the report:

    1 view without a page
    week        page     views  last week   change
    2026-01-05  /            6          -        -
    2026-01-05  /shop        3          -        -
    2026-01-12  /            8          6   +33.3%
    2026-01-12  /sale        2          -        -
    2026-01-12  /shop        4          3   +33.3%
    2026-01-19  /           10          8   +25.0%
    2026-01-19  /sale        3          2   +50.0%
    2026-01-19  /shop        2          4   -50.0%
"""

import datetime as dt
import random

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import LatestTable, WindowedAggregate, WindowedTableJoin

DAY = 24 * 60 * 60
WEEK = 7 * DAY
MONDAY = int(dt.datetime(2026, 1, 5, tzinfo=dt.UTC).timestamp())
WEEKS = FixedWindows(WEEK, offset=MONDAY % WEEK)
VIEWS_OF_WEEKS = [{"/": 6, "/shop": 3, None: 1}, {"/": 8, "/shop": 4, "/sale": 2}, {"/": 10, "/shop": 2, "/sale": 3}]

views = [
    TimestampedValue((page, "view"), MONDAY + week * WEEK + view * DAY // 2)
    for week, counts in enumerate(VIEWS_OF_WEEKS)
    for page, count in counts.items()
    for view in range(count)
]
random.Random(7).shuffle(views)


def line(key, counts):
    views, before = counts
    week = dt.datetime.fromtimestamp(key.window.start / 1_000_000, dt.UTC).date()
    last, change = ("-", "-") if before is None else (before, f"{(views - before) / before:+.1%}")
    return f"{week}  {key.key:<7} {views:>6} {last:>10} {change:>8}"


def print_report(lines):
    print(f"{'week':<10}  {'page':<7} {'views':>6} {'last week':>10} {'change':>8}")
    print(*sorted(lines), sep="\n")


with beam.Pipeline() as pipeline:
    counted = pipeline | beam.Create(views) | WindowedAggregate(WEEKS, initial=0, add=lambda count, view: count + 1).with_outputs()
    week_over_week = (counted.table, counted.table) | WindowedTableJoin(
        lambda views, before: (views, before), how="left", shift=lambda week: week.shift(-WEEK)
    )
    _ = week_over_week | LatestTable() | beam.MapTuple(line) | beam.combiners.ToList() | beam.Map(print_report)
    dropped = counted.dropped | "Count dropped" >> beam.combiners.Count.Globally()
    _ = dropped | "Print dropped" >> beam.Map(lambda count: print(f"{count} view without a page"))
