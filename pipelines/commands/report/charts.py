"""The charts of the report, as HTML and SVG without scripts: they take their colors and sizes from the page."""

from calendar import month_abbr
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, Literal, NamedTuple

import numpy as np

from beam_joins.pipelines.results.figure import WIDTHS, TimeCounts, add_times

_MOST_BUCKETS: Final = 200
_MOST_TICKS: Final = 5
_OUTSIDE: Final = 0.001
"""This part of the changes, at each end, may lie outside of the chart."""
_SECOND, _MINUTE, _HOUR, _DAY = 10**6, 60 * 10**6, 3600 * 10**6, 86400 * 10**6
_UNITS: Final = {1_000: "millisecond", _SECOND: "second", _MINUTE: "minute", _HOUR: "hour", _DAY: "day"}
_STEPS: Final = (
    *(step * 1_000 for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(step * unit for unit in (_SECOND, _MINUTE) for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14)),
)
_MONTHS: Final = (1, 3, 6, *(12 * step * 10**n for n in range(5) for step in (1, 2, 5)))
"""Distances of ticks, in microseconds and, where they are longer, in months."""


class Bar(NamedTuple):
    """A bar: its label, its length in the unit of the chart, the text beside it, and what pointing at it shows."""

    label: str
    length: float
    text: str
    hover: str = ""
    marked: bool = False


def bars(name: str, caption: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars, each with its text.

    >>> drawn = bars("sizes", "Rows", [Bar("a", 3, "3 rows"), Bar("<b>", 6, "6 rows")])
    >>> "width:50.00%" in drawn, "&lt;b&gt;" in drawn
    (True, True)
    """
    longest = max((row.length for row in rows), default=0) or 1
    drawn = "".join(
        f'<div class="bar{" marked" if row.marked else ""}" title="{escape(row.hover)}"><span class="label">{escape(row.label)}</span>'
        f'<span class="track"><i style="width:{100 * row.length / longest:.2f}%"></i></span><span>{escape(row.text)}</span></div>'
        for row in rows
    )
    return f'<div class="bars" id="{name}"><p>{escape(caption)}</p>{drawn}</div>'


def parts(name: str, lengths: Mapping[str, tuple[float, str]]) -> str:
    """One bar cut into parts, by name with their lengths and texts, and a legend."""
    whole = sum(length for length, _ in lengths.values()) or 1
    cut = "".join(
        f'<i class="c{n % 4}" style="width:{100 * length / whole:.2f}%" title="{escape(f"{part}: {text}")}"></i>'
        for n, (part, (length, text)) in enumerate(lengths.items())
    )
    legend = [(f"c{n % 4}", f"{part}, {text}") for n, (part, (_, text)) in enumerate(lengths.items())]
    return f'<div id="{name}">{_legend(legend)}<div class="track whole">{cut}</div></div>'


def over_time(name: str, counts: Mapping[str, TimeCounts]) -> str:
    """Changes by event time, a line for each place and an area for the last one, the result; a few that lie far
    from the others may be outside.
    """
    shown = {place: each for place, each in counts.items() if each.counts}
    if not shown:
        return f'<p id="{name}">There are none.</p>'
    width, first, last = _range(add_times(shown.values()))
    buckets = range(first, last + 1)
    values = {place: [each.wider(width).counts.get(bucket, 0) for bucket in buckets] for place, each in shown.items()}
    step, top = count_ticks(max(map(max, values.values())))
    colors = {place: f"c{n}" for n, place in enumerate([*list(counts)[:-1], *[""] * (3 - len(counts)), list(counts)[-1]])}
    lines = []
    for place, heights in reversed(values.items()):
        path = f"M0 {_y(heights[0], top)}" + "".join(f"V{_y(height, top)}h1" for height in heights)
        area = f'<path class="area {colors[place]}" d="M0 100V{path[4:]}V100z"/>' if colors[place] == "c2" else ""
        lines.append(f'{area}<path class="line {colors[place]}" d="{path}"/>')
    hover = "".join(
        f'<rect x="{n}" width="1" height="100"><title>{moment(bucket * width)}: '
        f"{escape(', '.join(f'{place} {heights[n]:,}' for place, heights in values.items()))}</title></rect>"
        for n, bucket in enumerate(buckets)
    )
    rows = "".join(
        f'<span class="y" style="bottom:{100 * tick / top:.2f}%"><b>{short(tick)}</b></span>' for tick in range(0, top + 1, step)
    )
    begin, end = first * width, (last + 1) * width
    columns = "".join(
        f'<span class="x" style="left:{100 * (tick - begin) / (end - begin):.2f}%">{label}</span>'
        for tick, label in time_ticks(begin, end)
    )
    return (
        f'<div id="{name}">{_legend([(colors[place], place) for place in values])}<div class="plot">{rows}{columns}'
        f'<svg viewBox="0 0 {len(buckets)} 100" preserveAspectRatio="none" aria-hidden="true">{"".join(lines)}{hover}</svg></div>'
        f'<p class="note">Changes in {_width_in_words(width)} by event time, {moment(begin)} to {moment(end)} UTC.</p></div>'
    )


def count_ticks(most: int) -> tuple[int, int]:
    """The distance of the ticks of counts up to ``most``, and the last tick.

    >>> count_ticks(14_900), count_ticks(3), count_ticks(0)
    ((5000, 15000), (1, 3), (1, 1))
    """
    step = next(size * 10**n for n in range(20) for size in (1, 2, 5) if size * 10**n * 4 >= most)
    return step, max(step, -(-most // step) * step)


def time_ticks(begin: int, end: int) -> list[tuple[int, str]]:
    """At most five ticks between two event times in microseconds since 1970, with their labels.

    >>> time_ticks(0, 22 * 3_600_000_000)
    [(0, '1 Jan'), (21600000000, '06:00'), (43200000000, '12:00'), (64800000000, '18:00')]
    >>> [label for _, label in time_ticks(0, 800 * 86_400_000_000)]
    ['1970', 'Jul', '1971', 'Jul', '1972']
    """
    for step in _STEPS:
        ticks = range(-(-begin // step) * step, end, step)
        if len(ticks) <= _MOST_TICKS:
            return [(tick, _label(tick, step)) for tick in ticks]
    first, last = (int(np.datetime64(time, "us").astype("M8[M]").astype(int)) for time in (begin, end - 1))
    for months in _MONTHS:
        ticks = range(-(-first // months) * months, last + 1, months)
        if len(ticks) <= _MOST_TICKS:
            break
    times = [int(np.datetime64(tick, "M").astype("M8[us]").astype(int)) for tick in ticks]
    return [(time, _label(time, 28 * _DAY)) for time in times if begin <= time]


def _label(time: int, step: int) -> str:
    """The largest unit that begins at a tick: a year, a month, a day, or the time of day."""
    date, _, clock = moment(time, "us").partition(" ")
    year, month, day = date.rsplit("-", 2)
    if time % _DAY:
        return clock[:5] if time % _MINUTE == 0 and step >= _MINUTE else clock[3:8] if step >= _SECOND else clock[6:12]
    if step < 28 * _DAY:
        return f"{int(day)} {month_abbr[int(month)]}"
    return month_abbr[int(month)] if month != "01" else year


def moment(time: int, unit: Literal["s", "us"] = "s") -> str:
    """Microseconds since 1970 as date and time.

    >>> moment(90_000_000)
    '1970-01-01 00:01:30'
    """
    return str(np.datetime64(time, "us").astype(f"M8[{unit}]")).replace("T", " ")


def short(count: int) -> str:
    """A count for where there is little space.

    >>> short(950), short(15_000), short(999_805), short(2_500_000)
    ('950', '15k', '1M', '2.5M')
    """
    value, suffixes = float(count), iter(("", "k", "M", "G", "T"))
    suffix = next(suffixes)
    while value >= 999.5 and suffix != "T":
        value, suffix = value / 1000, next(suffixes)
    return f"{value:.3g}{suffix}"


def _legend(names: Sequence[tuple[str, str]]) -> str:
    return f'<p class="legend">{"".join(f"<span><i class={color!r}></i>{escape(name)}</span>" for color, name in names)}</p>'


def _y(count: int, top: int) -> str:
    return f"{100 - 100 * count / top:.4g}"


def _range(counts: TimeCounts) -> tuple[int, int, int]:
    """The width of the buckets to draw, and the first and the last of them."""
    for width in WIDTHS[WIDTHS.index(counts.width) :]:
        wide = counts.wider(width).counts
        buckets = np.array(sorted(wide))
        share = np.cumsum([wide[int(bucket)] for bucket in buckets]) / sum(wide.values())
        first, last = buckets[np.searchsorted(share, (_OUTSIDE, 1 - _OUTSIDE)).clip(max=len(buckets) - 1)].tolist()
        if last - first < _MOST_BUCKETS:
            break
    return width, first, last


def _width_in_words(width: int) -> str:
    """The width of a bucket in words.

    >>> _width_in_words(60_000_000), _width_in_words(6 * 3_600_000_000)
    ('a minute', '6 hours')
    """
    unit, name = max((unit, name) for unit, name in _UNITS.items() if unit <= width)
    count = width // unit
    return f"{'an' if name == 'hour' else 'a'} {name}" if count == 1 else f"{count:,} {name}s"
