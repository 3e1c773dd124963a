"""A timeline as SVG: each row is a lane, each of its versions a bar from the position at which it begins to
that of the next one.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from beam_joins.pipelines.commands.explain.events import DROPPED, LEFT, RESULT, RIGHT, Event

_COLORS: Final = {LEFT: ("#dbe7f5", "#4c78a8"), RIGHT: ("#fde5cc", "#f58518"), RESULT: ("#dcefd9", "#54a24b")}
"""The inside of a bar and its border."""
_LANE, _BAR, _GAP, _TOP, _MARGIN = 30, 22, 16, 58, 14
_LETTER: Final = 6.7
"""The width of a letter of a bar, about."""
_LEAST, _MOST = 54.0, 150.0
"""The least and the most distance between two positions."""
_FONT: Final = "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, monospace\""


def draw(events: Sequence[Event], title: str, texts: Mapping[int, str]) -> str:
    """The timeline as SVG, the same for the same events; ``texts`` are those of positions.

    >>> svg = draw([Event("left", "k", None, "a", 3), Event("left", "k", "a", None, 7)], "one row", {3: "3", 7: "7"})
    >>> svg.count("<rect"), svg.count(">3</text>"), svg.count(">7</text>")
    (2, 1, 1)
    """
    events = [event for event in events if event.table != DROPPED]
    positions = sorted({event.position for event in events})
    lanes = {name: sorted({event.key for event in events if event.table == name}) for name in (LEFT, RIGHT, RESULT)}
    label = 30 + round(_LETTER * max((len(key) for keys in lanes.values() for key in keys), default=1)) + 52
    letters = max(map(len, texts.values()), default=0)
    step, anchor = max(_distance(events, positions), _LETTER * letters + 8), "start" if letters > 6 else "middle"
    at = {position: round(label + step * n) for n, position in enumerate(positions)}
    end = round(label + step * len(positions))
    body, y = [], _TOP
    for name, keys in lanes.items():
        fill, border = _COLORS[name]
        body.append(f'<text x="{_MARGIN}" y="{y + 15}" font-weight="700" fill="{border}">{name}</text>')
        for key in keys:
            body.append(f'<text x="{label - 12}" y="{y + 15}" text-anchor="end">{escape(key)}</text>')
            body.append(f'<path d="M{label} {y + _BAR // 2}H{end}" stroke="#e3e8ef"/>')
            body += _bars([event for event in events if (event.table, event.key) == (name, key)], at, end, y, (fill, border))
            y += _LANE
        y += _GAP + (0 if keys else _LANE)
    height = y - _GAP + _MARGIN
    grid = [
        f'<path d="M{x} {_TOP - 6}V{height - _MARGIN}" stroke="#c3ccd9" stroke-dasharray="2 4"/>'
        f'<text x="{x}" y="{_TOP - 12}" text-anchor="{anchor}" fill="#5b6678">{texts[position]}</text>'
        for position, x in at.items()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{end + _MARGIN}" height="{height}" viewBox="0 0 '
            f'{end + _MARGIN} {height}" {_FONT} '
            'font-size="11" fill="#1f2a3d" role="img">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{_MARGIN}" y="22" font-size="13" font-weight="700">{escape(title)}</text>',
            f'<text x="{label - 12}" y="{_TOP - 12}" text-anchor="end" fill="#5b6678">position</text>',
            *grid,
            *body,
            "</svg>",
            "",
        ]
    )


def _distance(events: Sequence[Event], positions: Sequence[int]) -> float:
    """So wide that most versions can be read in their bars."""
    index = {position: n for n, position in enumerate(positions)}
    needed = _LEAST
    for n, event in enumerate(events):
        if event.new is not None:
            later = (other.position for other in events[n + 1 :] if (other.table, other.key) == (event.table, event.key))
            steps = index.get(next(later, -1), len(positions)) - index[event.position]
            needed = max(needed, (_LETTER * len(event.new) + 14) / steps)
    return min(needed, _MOST)


def _bars(events: Sequence[Event], at: dict[int, int], end: int, y: int, colors: tuple[str, str]) -> list[str]:
    bars = []
    for event, later in zip(events, [*events[1:], None], strict=True):
        begin, stop = at[event.position], end if later is None else at[later.position]
        if event.new is None:
            bars.append(f'<path d="M{begin - 4} {y + 7}l8 8m0 -8l-8 8" stroke="{colors[1]}" stroke-width="1.6"/>')
            continue
        width = stop - begin - 3
        letters = int((width - 10) / _LETTER)
        text = event.new if len(event.new) <= letters else f"{event.new[: max(0, letters - 1)]}…"
        bars.append(
            f'<g><title>{escape(event.change)}</title><rect x="{begin}" y="{y}" width="{width}" height="{_BAR}" rx="4" '
            f'fill="{colors[0]}" '
            f'stroke="{colors[1]}"/><text x="{begin + 6}" y="{y + 15}">{escape(text)}</text></g>'
        )
    return bars
