"""A timeline in the terminal: a row for each position at which something happens."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_joins.pipelines.commands.explain.events import DROPPED, LEFT, RESULT, RIGHT, Event

_STYLES = {(True, False): "green", (False, False): "yellow", (False, True): "red"}
"""By whether there was no row before, and whether there is none now."""


def show(events: Sequence[Event], title: str, texts: Mapping[int, str], remarks: Sequence[str]) -> None:
    """Print the timeline, and remarks below it; ``texts`` are those of positions."""
    console = Console()
    table = Table(title=title, title_justify="left", header_style="bold", show_lines=False)
    table.add_column("position", justify="right", no_wrap=True)
    for name in (LEFT, RIGHT, RESULT):
        table.add_column(name)
    for position in dict.fromkeys(event.position for event in events if event.table != DROPPED):
        cells = [
            _cell([event for event in events if (event.position, event.table) == (position, name)]) for name in (LEFT, RIGHT, RESULT)
        ]
        table.add_row(texts[position], *cells)
    console.print(table)
    for event in events:
        if event.table == DROPPED:
            console.print(Text(f"dropped at {texts[event.position]}: {event.new} ({event.key})"))
    for remark in remarks:
        console.print(Text(f"remark: {remark}"))


def _cell(events: Sequence[Event]) -> Text:
    return Text("\n").join(Text(event.change, style=_STYLES[event.old is None, event.new is None]) for event in events)
