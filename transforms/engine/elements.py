"""Elements that become columns when they are routed: some thousand of a bundle at a time, each with its event time."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection

from beam_joins.function_failed import FunctionFailed
from beam_joins.keys.columns import Ints
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.replay import Route, element_time
from beam_joins.transforms.engine.user_functions import StageFunctions

ELEMENTS = 4096

ElementColumns = Callable[[list[Any], Ints, BlockWriter], None]
"""Puts the rows of elements, whose event times in microseconds are given, into the writer."""

ElementRow = Callable[[Any, int, BlockWriter], tuple[Any, ...] | None]
"""The cells of an element at an event time in microseconds; ``None`` if it has no row, which it may have dropped."""


class ElementRoute(beam.PTransform[Any, Any]):
    """Elements into blocks of rows, by partition: a :class:`~beam_joins.transforms.engine.replay.Route` whose ``columns`` get many elements at once."""

    def __init__(self, columns: ElementColumns, *, to: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = columns
        self._to = to

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        columns = self._columns

        def rows(elements: _Elements, arrival: int, writer: BlockWriter) -> None:
            columns(elements.elements, elements.times, writer)

        collect = _Collect()  # type: ignore[no-untyped-call]
        return pcoll | "Collect" >> beam.ParDo(collect) | "Rows" >> Route(rows, to=self._to)


def columns_of_rows(
    row: ElementRow, columns: Callable[[list[tuple[Any, ...]], BlockWriter], None], functions: StageFunctions
) -> ElementColumns:
    """``columns`` of the rows that ``row`` makes of each element; an element for which a user's function raises goes to ``bad``.

    ``columns`` gets at least one row.
    """

    def collected(elements: list[Any], times: Ints, writer: BlockWriter) -> None:
        rows = []
        for element, time in zip(elements, times.tolist(), strict=True):
            try:
                cells = row(element, time, writer)
            except FunctionFailed as failed:
                functions.caught(element, failed, time)
            else:
                if cells is not None:
                    rows.append(cells)
        functions.give(writer)
        if rows:
            columns(rows, writer)

    return collected


class _Elements(NamedTuple):
    elements: list[Any]
    times: Ints


class _Collect(beam.DoFn):
    """Collects the elements of a bundle; all are in the global window."""

    def start_bundle(self) -> None:
        self._elements: list[Any] = []
        self._times: list[int] = []

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        self._elements.append(element)
        self._times.append(element_time(timestamp))
        return self._collected() if len(self._elements) >= ELEMENTS else []

    def finish_bundle(self) -> Iterator[Any]:
        yield from self._collected()

    def _collected(self) -> list[Any]:
        elements, times = self._elements, self._times
        self._elements, self._times = [], []
        return [timestamped(_Elements(elements, np.array(times, np.int64)), min(times))] if elements else []
