"""WindowedAggregate: aggregates a stream by key and window into a windowed table."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import WindowFn

from beam_joins.functions.fields import Fields
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.windowed_aggregate import WindowedAggregateState, step
from beam_joins.options.spans import Span, span_micros
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import DROPPED, MAIN, BlockWriter
from beam_joins.transforms.engine.construction.input_checks import require_global
from beam_joins.transforms.engine.construction.option_checks import OF_AGGREGATE, function, initial_of
from beam_joins.transforms.engine.construction.output_types import (
    HandledWindowedTableOutputs,
    StreamInput,
    Table,
    WindowedTableOutputs,
)
from beam_joins.transforms.engine.construction.pipeline_changes import OF_RECORDS
from beam_joins.transforms.engine.construction.table_type import WHOLE, as_table
from beam_joins.transforms.engine.construction.windows import grid_of, windows_of, without_merging
from beam_joins.transforms.engine.stages.replay import Replay
from beam_joins.transforms.engine.stages.table_rows import records_of
from beam_joins.transforms.engine.streams import OfRow, Stream, StreamOptions
from beam_joins.transforms.engine.transform_outputs import WithOutputs
from beam_joins.transforms.engine.turns.operator import Turn, in_time


class WindowedAggregate(WithOutputs[StreamInput, Table, WindowedTableOutputs, HandledWindowedTableOutputs]):
    """Aggregates a stream by key and window: ``PCollection[tuple[K, V]]`` to a table keyed by
    ``Windowed[K]``, whose values are the aggregates.

    * ``window_fn``: Beam's ``FixedWindows`` (tumbling) or ``SlidingWindows`` (hopping), or another function
      that assigns intervals and does not merge them. It is called for every record's timestamp; the
      collection itself stays in the global window.
    * ``initial`` is the aggregate of no records, or a function without arguments that returns it.
    * ``add(aggregate, value)`` returns the aggregate with one record more, or ``None`` for no row. It may
      change the aggregate in place and return it. A value may be ``None``: a stream has no tombstones.
    * ``sequence_by(key, value)`` returns the position, an int of 64 bits; or a field name of the value. The
      default is the event time: the element's timestamp, cut to the millisecond, as Beam carries it between
      stages.
    * ``grace``: the time after its end in which a window still takes records: seconds, a ``timedelta`` or a
      Beam ``Duration``. The clock is the latest time among the records of the same key up to that position.
      With ``None``, and without ``sequence_by``, no record is late.
    * ``key``, ``timestamp_by``: only for a stream of Arrow batches, ``PCollection[pyarrow.Table]`` or
      ``PCollection[pyarrow.RecordBatch]``: the columns of the key, one or several, and of the event time. The
      rows are the values. ``stream_schema`` is the stream's ``pyarrow.Schema``, if its reader does not know it.

    All records of one key and position are added in the order of the further numbers of ``sequence_by``, of
    time, then of their encoded values, with one change for each window. The timestamp of a result is the
    largest of the records in its window.

    The result is a windowed table: keyed by ``Windowed(key, Window(start, end))``, partitioned by the key
    alone. ``TableTableJoin`` and ``WindowedTableJoin`` join it, ``WindowedTableToStream`` turns it into a
    stream.

    :meth:`with_outputs` gives ``table``, ``dropped`` and ``late``. Dropped are records with a ``"null_key"``,
    a ``"null_sequence"`` or, of Arrow batches, a ``"null_timestamp"``. A record is late once for each window
    that no longer takes it: ``Dropped("late", (Windowed(key, window), value), timestamp)``. Both are counted.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option, session windows among them; when applied to
    windowed input, to keys whose coder is not deterministic or to batches without the columns; and in the run
    for elements that are not pairs.

    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import FixedWindows, TimestampedValue
    >>> from beam_joins import TableToChanges
    >>> with beam.Pipeline() as pipeline:  # doctest: +NORMALIZE_WHITESPACE
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([TimestampedValue(("home", "ann"), 3), TimestampedValue(("home", "bob"), 62)])
    ...         | WindowedAggregate(FixedWindows(60), initial=0, add=lambda count, view: count + 1)
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key=Windowed(key='home', window=Window(start=0, end=60000000)), old=None, new=1, timestamp=3000000, position=3000000)
    Change(key=Windowed(key='home', window=Window(start=60000000, end=120000000)), old=None, new=1,
        timestamp=62000000, position=62000000)
    """

    outputs = (WindowedTableOutputs, HandledWindowedTableOutputs)
    rules = OF_RECORDS._replace(options={"stream_schema": "kept"})

    def __init__(
        self,
        window_fn: WindowFn,
        *,
        initial: Any,
        add: Callable[[Any, Any], Any],
        grace: Span | None = None,
        key: str | Sequence[str] | None = None,
        timestamp_by: str | None = None,
        sequence_by: Fields | OfRow | None = None,
        stream_schema: pa.Schema | None = None,
    ) -> None:
        super().__init__()
        self._window_fn = without_merging(window_fn)
        self._initial = initial_of(initial)
        self._add = function("add", add, OF_AGGREGATE)
        self._grace = None if grace is None else span_micros("grace", grace)
        self._streams = StreamOptions.of("WindowedAggregate", key, timestamp_by, sequence_by, [stream_schema])
        self._schema = stream_schema

    def build(self, pvalue: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any] | None, PCollection[Any] | None]:
        """The windowed table, the dropped records and the late ones."""
        require_global("WindowedAggregate", pvalue)
        stream, handling = Stream(self._streams, pvalue, self._schema), self.handling
        functions = handling.functions
        routed = stream.routed("Route", "records", handling, self.dropping, null_values=True)
        fold = Fold(functions, functions.function("initial", self._initial), self._add)
        made = stream.type._replace(value=Any, windowed=True, windows=grid_of(self._window_fn))
        windows, grace = windows_of(self._window_fn), self._grace

        def aggregated(
            inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn
        ) -> Generator[ChangeBatch, None, WindowedAggregateState]:
            rows, behind = in_time(inputs["records"], turn.passed)
            writer.drop_rows("late", len(behind), lambda: records_of(behind, stream.type))
            (changes, late), state = step(turn.state or WindowedAggregateState(), rows, windows, fold, grace, turn.until)
            writer.drop_rows("late", len(late), lambda: records_of(late, made, "group"))
            if len(changes):
                yield changes
            return state

        replayed = (routed["records"],) | "Aggregate" >> Replay(
            functions.replay(aggregated),
            to=(MAIN, *self.dropping, *handling.tags),
            main_type=ChangeBatch,
            by_time=stream.type.order == "time",
            stored={},
        )
        handling.collect(routed, replayed)
        return as_table(replayed[MAIN], made, WHOLE), self.all_dropped(routed), replayed.get(DROPPED)
