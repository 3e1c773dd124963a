"""The picture of a pipeline: its steps as boxes in columns, each to the right of those whose output it takes."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.run_progress import Step

_WIDTH, _HEIGHT, _APART, _ROW = 150, 50, 36, 66
_MARGIN: Final = 8


def picture(steps: "Sequence[Step]", texts: Mapping[str, str], hidden: Collection[str] = (), marked: str = "") -> str:
    """The steps as SVG, each with its text below its name and one of them marked; steps whose first word is
    hidden are left out, and what they take goes to those that take from them.

    >>> from beam_joins.pipelines.commands.run_progress import Step
    >>> steps = [Step("Read", ()), Step("Count", ("Read",)), Step("Join", ("Count",)), Step("Tally", ("Join",))]
    >>> drawn = picture(steps, {"Join": "7 rows"}, ["Tally", "Count"])
    >>> drawn.count("<rect"), drawn.count("<path"), "7 rows" in drawn, "Tally" in drawn
    (2, 2, True, False)
    """
    takes_of = {step.name: step.takes for step in steps}
    names = [name for name in takes_of if name.split(" ")[0] not in hidden]

    def taken_by(name: str) -> list[str]:
        """The drawn steps that a step takes from, directly or through hidden ones."""
        nested = ([taken] if taken in names else taken_by(taken) for taken in takes_of.get(name, ()))
        return list(dict.fromkeys(source for sources in nested for source in sources))

    column: dict[str, int] = {}
    for name in names:
        column[name] = max((column[taken] + 1 for taken in taken_by(name)), default=0)
    columns = [[name for name in names if column[name] == number] for number in range(max(column.values(), default=-1) + 1)]
    most = max(map(len, columns), default=0)
    position = {
        name: (_MARGIN + x * (_WIDTH + _APART), _MARGIN + round((y + (most - len(in_column)) / 2) * _ROW))
        for x, in_column in enumerate(columns)
        for y, name in enumerate(in_column)
    }
    width, height = 2 * _MARGIN + len(columns) * (_WIDTH + _APART) - _APART, 2 * _MARGIN + most * _ROW - (_ROW - _HEIGHT)
    arrows = [_arrow(position[taken], position[name]) for name in names for taken in taken_by(name)]
    boxes = [_box(name, texts.get(name, ""), *position[name], marked=name == marked) for name in names]
    return (
        f'<svg class="steps" viewBox="0 0 {width} {height}" width="{width}" style="min-width:{min(width, 820)}px" '
        'role="img" aria-label="The steps of the pipeline">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker></defs>{"".join(arrows)}{"".join(boxes)}</svg>'
    )


def _arrow(begin: tuple[int, int], end: tuple[int, int]) -> str:
    x, y, to_x, to_y = begin[0] + _WIDTH, begin[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = to_x - _APART // 2
    return (
        f'<path class="arrow" d="M{x} {y}H{middle - 10}Q{middle} {y} {middle} {(y + to_y) // 2}T{to_x - 1} {to_y}" '
        'marker-end="url(#tip)"/>'
    )


def _box(name: str, text: str, x: int, y: int, *, marked: bool) -> str:
    middle = x + _WIDTH // 2
    return (
        f'<rect class="{"marked" if marked else ""}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>'
        f'<text x="{middle}" y="{y + (21 if text else 30)}" class="name">{escape(name)}</text>'
        f'<text x="{middle}" y="{y + 39}">{escape(text)}</text>'
    )
