"""The charts of a report, drawn with Plotly."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from beam_joins.pipelines.report.references import LEFT, RESULT, ReferenceCounts
from beam_joins.pipelines.report.times import WIDTHS, TimeCounts, added

_LEFT, _RIGHT, _RESULT = COLORS = ("#4c78a8", "#f58518", "#54a24b")
_BARS: Final = 200
"""At most so many bars are drawn over time."""
_OUTSIDE: Final = 0.001
"""This part of the changes, at each end, may lie outside of what is shown."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES: Final = {1_000: "millisecond", 1_000_000: "second", 60_000_000: "minute", 3_600_000_000: "hour", 86_400_000_000: "day"}
_HEIGHT: Final = 340


def speeds(rows: Mapping[str, tuple[int, float]]) -> Any:
    """Rows a second by step, of ``(rows, seconds)`` by name."""
    known = {name: (count, count / seconds) for name, (count, seconds) in rows.items() if count and seconds > 0}
    chart = go.Figure(
        go.Bar(
            y=list(known),
            x=[speed for _, speed in known.values()],
            orientation="h",
            marker_color=_LEFT,
            text=[f" {speed:,.0f}" for _, speed in known.values()],
            textposition="outside",
            cliponaxis=False,
            customdata=[f"{count:,} rows in {rows[name][1]:,.2f} s" for name, (count, _) in known.items()],
            hovertemplate="%{y}: %{customdata}<extra></extra>",
        )
    )
    chart.update_yaxes(autorange="reversed")
    chart.update_xaxes(
        title="rows per second of a worker's time", range=[0, 1.2 * max([speed for _, speed in known.values()], default=1)]
    )
    return _styled(chart, height=90 + 34 * max(1, len(known)))


def phases(seconds: Mapping[str, float]) -> Any:
    """Where the time of the run went."""
    chart = go.Figure()
    for name, taken in seconds.items():
        chart.add_bar(
            x=[taken], y=[""], name=f"{name}, {taken:,.1f} s", orientation="h", hovertemplate=f"{name}: {taken:,.2f} s<extra></extra>"
        )
    chart.update_layout(barmode="stack", legend={"orientation": "h", "traceorder": "normal", "y": 1.05, "yanchor": "bottom"})
    chart.update_xaxes(title="seconds")
    return _styled(chart, height=160)


def over_time(counts: Mapping[str, TimeCounts]) -> Any:
    """Changes by event time, with a line for each place, the last one being the result; a few that lie far from the others may be outside."""
    colors = dict(zip(counts, (*COLORS[: len(counts) - 1], _RESULT), strict=True))
    shown = {name: each for name, each in counts.items() if each.counts}
    width, begin, end = _range(added(shown.values()))
    chart = go.Figure()
    buckets = np.arange(begin, end + 1)
    starts = [_EPOCH + timedelta(microseconds=int(bucket) * width) for bucket in buckets]
    for name, each in shown.items():
        of_bucket = each.wider(width).counts
        chart.add_scatter(
            x=starts,
            y=[of_bucket.get(int(bucket), 0) for bucket in buckets],
            name=name,
            mode="lines",
            line={"shape": "hv", "width": 1.6, "color": colors[name]},
            fill="tozeroy" if colors[name] == _RESULT else None,
            hovertemplate="%{y:,}",
        )
    chart.update_layout(hovermode="x unified", legend={"orientation": "h", "y": 1.12})
    chart.update_yaxes(title=f"changes in {_width_said(width)}", rangemode="tozero", tickformat="~s")
    chart.update_xaxes(title="event time (UTC)")
    return _styled(chart)


def busiest(counts: ReferenceCounts, lefts: str, rights: str) -> Any:
    """The right rows that most changes of the result are of; both sides by the names of their rows."""
    rows = counts.busiest
    said = [f"{row[LEFT]:,} {lefts} in the end, changed {row['changed']:,} times" for row in rows]
    chart = go.Figure(
        go.Bar(
            y=[f"{row['reference']} " for row in rows],
            x=[row[RESULT] for row in rows],
            orientation="h",
            marker_color=_RESULT,
            text=[f" {row[RESULT]:,}" for row in rows],
            textposition="outside",
            cliponaxis=False,
            customdata=said,
            hovertemplate="%{y}: %{x:,} changes of the result<br>%{customdata}<extra></extra>",
        )
    )
    chart.update_yaxes(autorange="reversed", type="category", title=f"key of {rights}")
    chart.update_xaxes(title="changes of the result", range=[0, 1.18 * max([row[RESULT] for row in rows], default=1)])
    return _styled(chart, height=_tall(counts))


def distribution(counts: ReferenceCounts, rights: str) -> Any:
    """How many right rows have how many changes of the result, and which part of all changes these are."""
    sizes = range(max(counts.sizes, default=0) + 1)
    of_size = [counts.sizes.get(size, (0, 0)) for size in sizes]
    labels = [f"{2**size:,}" for size in sizes]
    all_changes = max(1, sum(changes for _, changes in of_size))
    chart = go.Figure()
    rows = [rows for rows, _ in of_size]
    chart.add_bar(x=labels, y=rows, name=rights, marker_color=_RIGHT, hovertemplate=f"%{{y:,}} {rights}<extra></extra>")
    chart.add_scatter(
        x=labels,
        y=[changes / all_changes for _, changes in of_size],
        name="part of all changes",
        yaxis="y2",
        mode="lines+markers",
        line={"color": _RESULT},
        hovertemplate="%{y:.1%} of all changes<extra></extra>",
    )
    chart.update_layout(
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "tickformat": ".1%",
            "rangemode": "tozero",
            "showgrid": False,
            "title": "part of all changes",
        },
        legend={"orientation": "h", "y": 1.12},
    )
    chart.update_xaxes(title=f"changes of the result that {rights} have, at least", type="category", tickangle=-45)
    chart.update_yaxes(title=rights, selector={"overlaying": None})
    return _styled(chart, height=_tall(counts))


def _tall(counts: ReferenceCounts) -> int:
    return max(_HEIGHT, 110 + 22 * len(counts.busiest))


def _range(all_counts: TimeCounts) -> tuple[int, int, int]:
    """The width of the buckets to draw, and the first and the last of them."""
    for width in WIDTHS[WIDTHS.index(all_counts.width) :]:
        wide = all_counts.wider(width).counts
        buckets = np.array(sorted(wide))
        share = np.cumsum([wide[int(bucket)] for bucket in buckets]) / max(1, sum(wide.values()))
        if not len(buckets):
            return width, 0, 0
        begin, end = buckets[np.searchsorted(share, (_OUTSIDE, 1 - _OUTSIDE)).clip(max=len(buckets) - 1)].tolist()
        if end - begin < _BARS:
            break
    return width, begin, end


def _width_said(width: int) -> str:
    """The width of a bucket in words.

    >>> _width_said(60_000_000), _width_said(6 * 3_600_000_000)
    ('a minute', '6 hours')
    """
    unit, name = max((unit, name) for unit, name in _NAMES.items() if unit <= width)
    count = width // unit
    return f"{'an' if name == 'hour' else 'a'} {name}" if count == 1 else f"{count:,} {name}s"


def _styled(chart: Any, height: int = _HEIGHT) -> Any:
    chart.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 20, "r": 20, "t": 40, "b": 10},
        font={"family": "system-ui, sans-serif", "size": 13},
        colorway=[*COLORS, "#b279a2", "#9d755d", "#72b7b2"],
    )
    chart.update_xaxes(automargin=True)
    chart.update_yaxes(automargin=True)
    return chart


def divs(charts: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The charts as HTML, by their names, without Plotly itself."""
    config = {"displaylogo": False, "displayModeBar": False, "responsive": True}
    return {name: chart.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config) for name, chart in charts}
