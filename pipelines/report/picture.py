"""The picture of a pipeline: its steps as boxes in columns, each to the right of those that it takes from."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Final

from beam_joins.pipelines.command.steps import Step

_WIDTH, _HEIGHT, _APART, _ROW = 184, 50, 44, 74
_MARGIN: Final = 8


def picture(steps: Sequence[Step], said: Mapping[str, str], left_out: Collection[str] = ()) -> str:
    """The steps as SVG, each with what is ``said`` of it below its name; without those that begin with a word that is left out.

    >>> drawn = picture([Step("Read", ()), Step("Join", ("Read",)), Step("Tally", ("Join",))], {"Join": "7 rows"}, ["Tally"])
    >>> drawn.count("<rect"), drawn.count("<path"), "7 rows" in drawn, "Tally" in drawn
    (2, 2, True, False)
    """
    shown = [step for step in steps if step.name.split(" ")[0] not in left_out]
    names = {step.name for step in shown}
    column: dict[str, int] = {}
    for step in shown:
        column[step.name] = max((column[name] + 1 for name in step.takes if name in names), default=0)
    rows: dict[int, list[str]] = {}
    for step in shown:
        rows.setdefault(column[step.name], []).append(step.name)
    most = max(map(len, rows.values()), default=0)
    place = {
        name: (_MARGIN + at * (_WIDTH + _APART), _MARGIN + round((n + (most - len(of_column)) / 2) * _ROW))
        for at, of_column in rows.items()
        for n, name in enumerate(of_column)
    }
    width, height = 2 * _MARGIN + len(rows) * (_WIDTH + _APART) - _APART, 2 * _MARGIN + most * _ROW - (_ROW - _HEIGHT)
    lines = [_line(place[taken], place[step.name]) for step in shown for taken in step.takes if taken in names]
    boxes = [_box(name, said.get(name, ""), *place[name]) for name in place]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" '
            f'aria-label="The steps of the pipeline" font-family="system-ui, sans-serif">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#8a94a6"/></marker></defs>',
            *lines,
            *boxes,
            "</svg>",
        ]
    )


def _line(begin: tuple[int, int], end: tuple[int, int]) -> str:
    x, y, to_x, to_y = begin[0] + _WIDTH, begin[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = to_x - _APART // 2
    return (
        f'<path d="M{x} {y}H{middle - 10}Q{middle} {y} {middle} {(y + to_y) // 2}T{to_x - 1} {to_y}" fill="none" stroke="#8a94a6" '
        'stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def _box(name: str, said: str, x: int, y: int) -> str:
    middle = x + _WIDTH // 2
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#eef3fa" stroke="#4c78a8"/>'
        f'<text x="{middle}" y="{y + (21 if said else 30)}" text-anchor="middle" font-size="14" font-weight="600" fill="#1f2a3d">{escape(name)}</text>'
        f'<text x="{middle}" y="{y + 39}" text-anchor="middle" font-size="12" fill="#4a5468">{escape(said)}</text>'
    )
