"""The windows that Beam's window functions give to times, for many times at once."""

from typing import Any

import numpy as np
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp

from beam_joins.elements.windowed import Grid
from beam_joins.kernels.windowed_aggregate import Assign
from beam_joins.keys.key_columns import Ints
from beam_joins.options.spans import span_micros

_LIMIT = 1 << 63


def windows_of(window_fn: WindowFn) -> Assign:
    """The windows that times in microseconds fall into: for each the index of its time, its start and its
    end.

    The run raises ``ValueError`` for a window that does not fit in 64 bits.

    >>> from apache_beam.transforms.window import FixedWindows
    >>> [of.tolist() for of in windows_of(FixedWindows(1))(np.array([1_500_000]))]
    [[0], [1000000], [2000000]]
    """
    grid = grid_of(window_fn)
    if grid is not None:
        return _of_size(grid, window_fn)

    def assigned(times: Ints) -> tuple[Ints, Ints, Ints]:
        windows = [
            (i, window.start.micros, window.end.micros)
            for i, micros in enumerate(times.tolist())
            for window in window_fn.assign(WindowFn.AssignContext(Timestamp(micros=micros)))
        ]
        index, start, end = np.array(windows, np.int64).reshape(-1, 3).T
        return index, start, end

    return assigned


def grid_of(window_fn: Any) -> Grid | None:
    """All windows of a window function of Beam's own; ``None`` for any other.

    >>> from apache_beam.transforms.window import FixedWindows
    >>> grid_of(FixedWindows(7, offset=3))
    Grid(size=7000000, period=7000000, offset=3000000)
    """
    if type(window_fn) not in (FixedWindows, SlidingWindows):
        return None
    size = window_fn.size.micros
    return Grid(size, window_fn.period.micros if isinstance(window_fn, SlidingWindows) else size, window_fn.offset.micros)


def _of_size(grid: Grid, window_fn: Any) -> Assign:
    size, period, offset = grid

    def assigned(times: Ints) -> tuple[Ints, Ints, Ints]:
        if len(times) and not -_LIMIT + size + period + offset <= times.min() <= times.max() < _LIMIT - size - period - offset:
            raise ValueError(
                f"{window_fn!r}: the windows of {int(times[np.argmax(np.abs(times / 2))])} microseconds do not fit in "
                "64 bits: give the elements timestamps"
            )
        last = times - (times - offset) % period
        # as many as begin behind the time less the size
        counts = np.maximum(-(-(last - times + size) // period), 0)
        index = np.repeat(np.arange(len(times)), counts)
        nth = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = last[index] - nth * period
        return index, start, start + size

    return assigned


def without_merging(window_fn: Any) -> WindowFn:
    """The given window function; raises ``ValueError`` for a function that merges windows, or has none."""
    remedy = "give FixedWindows or SlidingWindows of apache_beam.transforms.window"
    if not isinstance(window_fn, WindowFn):
        raise ValueError(f"window_fn={window_fn!r} is no WindowFn: {remedy}")
    if isinstance(window_fn, GlobalWindows):
        raise ValueError(f"window_fn={window_fn!r} has no windows to tell apart: {remedy}")
    if window_fn.is_merging():
        raise ValueError(
            f"window_fn={window_fn!r} merges windows, and add= alone cannot merge their aggregates: {remedy}; sessions "
            "are not supported"
        )
    if isinstance(window_fn, FixedWindows | SlidingWindows):
        span_micros("window_fn.size", window_fn.size)
    return window_fn
