"""Plain Beam with state: a stateful DoFn keyed by the row's key, with a bag of changes and a timer at the
end.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import apache_beam as beam
from apache_beam.coders import BooleanCoder, NullableCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow

from benchmarks.contestants.beam_pipeline import contestant, pipeline, read, write
from benchmarks.contestants.command import Task
from benchmarks.contestants.row_lives import Row, old_and_new, table_rows

Change = tuple[int, str, bool, int | None]
"""Position, column, deleted, value."""

_CHANGE_CODER: Final = TupleCoder([VarIntCoder(), StrUtf8Coder(), BooleanCoder(), NullableCoder(VarIntCoder())])


class PerKey(beam.DoFn):
    """Keeps a key's changes until the input has ended, then gives what ``rows`` makes of them."""

    CHANGES = BagStateSpec("changes", _CHANGE_CODER)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, rows: Callable[[int, Iterable[Change]], Iterator[Row]]) -> None:
        self._rows = rows

    def process(
        self,
        element: tuple[int, Change],
        changes: Any = beam.DoFn.StateParam(CHANGES),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        """Keep a change."""
        changes.add(element[1])
        end.set(GlobalWindow().max_timestamp())

    @on_timer(END)
    def expire(self, key: Any = beam.DoFn.KeyParam, changes: Any = beam.DoFn.StateParam(CHANGES)) -> Iterator[Row]:
        """All results of the key."""
        yield from self._rows(key, changes.read())
        changes.clear()


def keyed(row: Row, column: str) -> tuple[int, Change]:
    """A change of a table by its key."""
    return row["id"], (row["seq"], column, row["deleted"], row[column])


def compute(asked: Task, runner: str) -> None:
    """Write the result of a task."""
    with pipeline(runner) as made:
        left = read(made, asked, "left") | "left by key" >> beam.Map(keyed, "a").with_output_types(tuple[int, Change])
        if asked.work == "changelog":
            write(left | "old and new" >> beam.ParDo(PerKey(old_and_new)), asked)
            return
        right = read(made, asked, "right") | "right by key" >> beam.Map(keyed, "b").with_output_types(tuple[int, Change])
        write((left, right) | beam.Flatten() | "join" >> beam.ParDo(PerKey(table_rows)), asked)


if __name__ == "__main__":
    sys.exit(contestant("beam_stateful", ("tables", "changelog"), compute))
