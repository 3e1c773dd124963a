"""The figures of growing input as a picture: time above, memory below, a column for each thing that varies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullLocator

from benchmarks.harness.growth_report import SERIES, Grown

# Okabe and Ito's colours, which colour-blind readers tell apart; markers differ too.
_LOOKS: Final = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))


def plot(grown: Sequence[Grown], path: Path) -> None:
    """Write ``path`` with the endings .png and .svg."""
    good = [each for each in grown if not each.trouble]
    series = [name for name in SERIES if any(each.series == name for each in good)]
    if not series:
        return
    mpl.rcParams.update({"font.size": 9, "svg.hashsalt": "growth", "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(3.4 * len(series) + 0.6, 5.6), layout="constrained")
    axes = figure.subplots(2, len(series), squeeze=False, sharex="col", sharey="row")
    contestants = list(dict.fromkeys(each.contestant for each in good))
    for column, name in enumerate(series):
        for number, contestant in enumerate(contestants):
            line = sorted((each for each in good if (each.series, each.contestant) == (name, contestant)), key=lambda each: each.value)
            colour, marker = _LOOKS[number % len(_LOOKS)]
            _time(axes[0, column], line, contestant, colour, marker)
            _memory(axes[1, column], line, colour, marker)
        _horizontal(axes[1, column], SERIES[name], sorted({each.value for each in good if each.series == name}))
    for row, label in enumerate(("seconds of work\nper million changes", "peak memory (GB)")):
        axes[row, 0].set_ylabel(label)
        for axis in axes[row]:
            axis.set_ylim(bottom=0)
            axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    handles = [
        *axes[0, 0].get_lines(),
        Line2D([], [], color="black", label="memory: largest Python process"),
        Line2D([], [], color="black", linestyle="--", label="memory: JVM"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def _time(axis: Axes, line: Sequence[Grown], label: str, colour: str, marker: str) -> None:
    told = [each for each in line if not each.too_short]
    axis.plot([each.value for each in told], [each.per_million for each in told], color=colour, marker=marker, label=label)


def _memory(axis: Axes, line: Sequence[Grown], colour: str, marker: str) -> None:
    values = [each.value for each in line]
    axis.plot(values, [each.python / 1e9 for each in line], color=colour, marker=marker)
    if any(each.jvm for each in line):
        axis.plot(values, [each.jvm / 1e9 for each in line], color=colour, marker=marker, linestyle="--")


def _horizontal(axis: Axes, label: str, values: Sequence[int]) -> None:
    axis.set_xscale("log")
    axis.set_xlabel(f"{label} (log scale)")
    axis.set_xticks(values)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(EngFormatter(sep="") if max(values) >= 1000 else "{x:.0f}")
