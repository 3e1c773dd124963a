"""The first changes of a batch as a table of text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from beam_joins.elements.iso_times import NO_TIME, text_of_micros

SHOWN_ROWS: Final = 10
_WIDEST: Final = 48


def batch_text(count: int, columns: Mapping[str, Sequence[Any]]) -> str:
    """A batch of ``count`` changes; ``columns`` have the first of them, times and positions as numbers.

    >>> print(batch_text(12, {"key": [1, 20], "new": [{"name": "Ann"}, None], "timestamp": [5_000_000, NO_TIME]}))
    ChangeBatch of 12 changes
    key  new              timestamp
    1    {'name': 'Ann'}  1970-01-01T00:00:05Z
    20   None             None
    ... 10 more
    """
    shown = len(next(iter(columns.values()), ()))
    texts = [[name, *map(_CELLS.get(name, _cell), values)] for name, values in columns.items()]
    return "\n".join(
        [f"ChangeBatch of {count:,} change{'s' * (count != 1)}", *_lines(texts), *([f"... {count - shown:,} more"] * (count > shown))]
    )


def _lines(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in cells]
    for row in zip(*cells, strict=True):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _position(position: int) -> str:
    return str(None if position == NO_TIME else position)


def _time(micros: int) -> str:
    return _position(micros) if micros == NO_TIME else text_of_micros(micros)


_CELLS: Final = {"timestamp": _time, "position": _position}
