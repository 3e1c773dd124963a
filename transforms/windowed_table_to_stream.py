"""WindowedTableToStream: turns a windowed table into a stream by a mapping ("Join Semantics": toStream)."""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.elements.windowed import Window
from beam_joins.function_failed import FunctionFailed
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import require_tables, warn_of_void_rows
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.option_checks import function
from beam_joins.transforms.engine.construction.output_types import Handled, Stream, TableInput
from beam_joins.transforms.engine.construction.pipeline_changes import Rules
from beam_joins.transforms.engine.construction.table_type import TableType, as_windowed_table, table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_rows import changes_in_python
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions
from beam_joins.transforms.engine.turns.ticks import at_event_time
from beam_joins.values.copying import copied

Mapping = Callable[[Any, Window, Any], tuple[Any, Any]]


class WindowedTableToStream(HandlesExceptions[TableInput, Stream, Handled[Stream]]):
    """Turns a windowed table into a stream, a ``PCollection[tuple[K2, V2 | None]]``: ``fn(key, window,
    value)`` returns each element.

    The mapping decides where the window goes. With the window in the key the stream can be read as a table
    again; with the window in the value it can be joined by the source key. For a deleted row ``fn`` gets the
    value ``None``; a value of ``None`` in its result is a tombstone.

    Every element carries its change's timestamp. Raises ``ValueError`` for a ``fn`` that is not a function,
    for a table that is not windowed, and in the run for keys that are not ``Windowed`` and for a result of
    ``fn`` that is not a pair.

    >>> from beam_joins import Change, Window, Windowed
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change(Windowed("home", Window(0, 10)), None, 7, timestamp=0, position=0)])
    ...         | WindowedTableToStream(lambda key, window, count: ((key, window.start), count))
    ...         | beam.Map(print)
    ...     )
    (('home', 0), 7)
    """

    rules = Rules("rebuilt", {"fn": "kept"})

    called_with = MappingProxyType({"fn": (3, "the key, the window and the value")})

    def __init__(self, fn: Mapping) -> None:
        super().__init__()
        self._fn: Mapping = function("fn", fn, "of key, window and value that gives the stream's (key, value)")

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The stream."""
        require_tables("WindowedTableToStream", pvalue)
        table = table_type(pvalue)
        if table.order != "unknown" and not table.windowed:
            raise ValueError(
                "WindowedTableToStream takes a windowed table, such as WindowedAggregate gives: this one is not, use TableToStream"
            )
        warn_of_void_rows(pvalue)
        functions = self.handling.functions
        run = beam.ParDo(ForEach(_mapping(functions, functions.function("fn", self._fn), table, at_event_time(pvalue))))
        mapped = self.handling.apply("Map", run, in_batches(as_windowed_table(pvalue)))
        mapped.element_type = beam.typehints.KV[Any, Any]
        return mapped


def _mapping(
    functions: StageFunctions, fn: Mapping, of_table: TableType, timed: Callable[[Any, int], Any]
) -> Callable[[ChangeBatch], Iterator[Any]]:
    def mapped(batch: ChangeBatch) -> Iterator[Any]:
        for change in changes_in_python(batch, of_table):
            try:
                element = fn(change.key.key, change.key.window, change.new)
            except FunctionFailed as failed:
                functions.caught(change, failed, change.timestamp)
                continue
            if not isinstance(element, tuple) or len(element) != 2:
                raise ValueError(f"fn gave {element!r} for {change.key}: give a (key, value) pair")
            yield timed(copied(element), change.timestamp)
        yield from functions.take()

    return mapped
