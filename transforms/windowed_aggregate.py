"""WindowedAggregate: a stream aggregated by key and window, as a windowed table."""

from collections.abc import Callable
from typing import Any

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp

from beam_joins.change import Change, Dropped
from beam_joins.coders.key import encode_key, key_coder, value_coder
from beam_joins.copied import copied
from beam_joins.fields import Fields, place, place_of_row
from beam_joins.record import LeftOut, Record
from beam_joins.spans import Span, span_micros
from beam_joins.transforms.aggregate_table import OF_AGGREGATE, initial_of
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.core_operator import CoreOperator
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import Outputs, WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route, RowRouter
from beam_joins.transforms.engine.stream_rows import OfRow, pair, stream_type
from beam_joins.transforms.engine.table_type import as_table, require_bounded
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.windowed import Window, Windowed
from tests.reference.windowed_aggregate import WindowedAggregate as WindowedAggregateCore


class WindowedAggregate(WithOutputs):
    """A stream aggregated by key and window: ``PCollection[tuple[K, V]]`` to ``PCollection[Change[Windowed[K], A]]``.

    * ``window_fn``: Beam's ``FixedWindows`` (tumbling) or ``SlidingWindows`` (hopping), or another that gives intervals and merges none. It
      is asked for the windows of every record's timestamp; the collection itself stays in the global window.
    * ``initial`` is the aggregate of no records, or a function without arguments that gives it.
    * ``add(aggregate, value)`` gives the aggregate with one record more; if it gives ``None`` the window has no row. It may write into the
      aggregate that it is given and return it. A value may be ``None``: a stream has no tombstones.
    * ``sequence_by(key, value)`` gives the position, an int of 64 bits; or name the field of the value. By default it is the event time,
      which is the element's, cut to the millisecond, as Beam carries it between stages.
    * ``grace`` is how long after its end a window still takes records: seconds, a ``timedelta`` or a Beam ``Duration``. The clock is the
      latest time among the records of the same key up to that position. With ``None`` no record is late. It matters only with ``sequence_by``: by
      event time no record is late.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    All records of one key and position are added, in the order of the further numbers of ``sequence_by``, of time, then of their encoded
    values; one change follows for each window. A result has the largest timestamp of the records that its window has counted.

    The result is a windowed table: keyed by ``Windowed(key, Window(start, end))``, partitioned by the key alone. It is joined with
    ``TableTableJoin`` and ``WindowedTableJoin``, and written to a stream through ``WindowedTableToStream``.

    Dropped, counted, and an output of :meth:`with_outputs`, are records with a ``"null_key"`` or a ``"null_sequence"``, and for each window
    that no longer takes it a record that is ``"late"``: ``Dropped("late", (Windowed(key, window), value), timestamp)``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option, session windows among them; when applied to windowed or unbounded input or to
    keys whose coder is not deterministic; and in the run for elements that are no pairs.

    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import FixedWindows, TimestampedValue
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([TimestampedValue(("home", "ann"), 3), TimestampedValue(("home", "bob"), 62)])
    ...         | WindowedAggregate(FixedWindows(60), initial=0, add=lambda count, view: count + 1)
    ...         | beam.Map(print)
    ...     )
    Change(key=Windowed(key='home', window=Window(start=0, end=60000000)), old=None, new=1, timestamp=3000000, position=3000000)
    Change(key=Windowed(key='home', window=Window(start=60000000, end=120000000)), old=None, new=1, timestamp=62000000, position=62000000)
    """

    def __init__(
        self,
        window_fn: WindowFn,
        *,
        initial: Any,
        add: Callable[[Any, Any], Any],
        grace: Span | None = None,
        sequence_by: Fields | OfRow | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        self._window_fn = _without_merging(window_fn)
        self._initial = initial_of(initial)
        self._add = function("add", add, OF_AGGREGATE)
        self._grace = None if grace is None else span_micros("grace", grace)
        self._sequence, self._sequence_by = None if sequence_by is None else place_of_row("sequence_by", sequence_by), sequence_by
        self._partitions = partition_count(partitions)

    def build(self, pvalue: PCollection[Any]) -> Outputs:
        """The windowed table and the dropped records."""
        require_bounded("WindowedAggregate", pvalue)
        stream = stream_type("WindowedAggregate", pvalue, self._sequence)
        keys, values = key_coder(stream.key, "the key of WindowedAggregate"), value_coder(stream.value)
        handling, functions = self.handling, self.handling.functions
        sequence = functions.function("sequence_by", self._sequence_by, self._sequence)
        routed = pvalue | "Route" >> Route(
            functions.route(_all_rows(keys, values, sequence)),
            to=("records", *self.dropping, *handling.tags),
            partitions=self._partitions,
            timed=True,
        )

        def decode(value: bytes | None) -> Any:
            return None if value is None else values.decode(value)

        windows, initial = windows_of(self._window_fn), functions.function("initial", self._initial)
        operator = _Windows(windows, initial, self._add, self._grace, functions, keys, decode)
        replayed = (routed["records"],) | "Aggregate" >> Replay(
            functions.replay(operator), to=(MAIN, *self.dropping, *handling.tags), partitions=self._partitions, main_type=Change
        )
        handling.collect(routed, replayed)
        return Outputs(as_table(replayed[MAIN], stream._replace(value=Any, windowed=True)), self.all_dropped(routed, replayed))


def windows_of(window_fn: WindowFn) -> Callable[[int], list[Window]]:
    """The windows that a time in microseconds falls into.

    >>> from apache_beam.transforms.window import FixedWindows
    >>> windows_of(FixedWindows(1))(1_500_000)
    [Window(start=1000000, end=2000000)]
    """
    fixed_or_sliding: Any = window_fn
    if type(window_fn) not in (FixedWindows, SlidingWindows):
        return lambda micros: [
            Window(window.start.micros, window.end.micros)
            for window in window_fn.assign(WindowFn.AssignContext(Timestamp(micros=micros)))
        ]
    # What assign() does, without its objects: ten times as fast, once for every record.
    size, offset = fixed_or_sliding.size.micros, fixed_or_sliding.offset.micros
    period = window_fn.period.micros if isinstance(window_fn, SlidingWindows) else size

    def windows(micros: int) -> list[Window]:
        last = micros - (micros - offset) % period
        return [Window(start, start + size) for start in range(last, micros - size, -period)]

    return windows


def _without_merging(window_fn: Any) -> WindowFn:
    remedy = "give FixedWindows or SlidingWindows of apache_beam.transforms.window"
    if not isinstance(window_fn, WindowFn):
        raise ValueError(f"window_fn={window_fn!r} is no WindowFn: {remedy}")
    if isinstance(window_fn, GlobalWindows):
        raise ValueError(f"window_fn={window_fn!r} has no windows to tell apart: {remedy}")
    if window_fn.is_merging():
        raise ValueError(
            f"window_fn={window_fn!r} merges windows, and add= alone cannot merge their aggregates: {remedy}; sessions are not supported"
        )
    if isinstance(window_fn, FixedWindows | SlidingWindows):
        span_micros("window_fn.size", window_fn.size)
    return window_fn


def _all_rows(keys: Coder, values: Coder, sequence_by: OfRow | None) -> RowRouter:
    """The records of a stream, those without a value too."""

    def rows(element: Any, timestamp: int, writer: BlockWriter) -> None:
        key, value = pair(element)
        if key is None:
            return writer.drop("null_key", element, timestamp)
        placed = (timestamp, b"") if sequence_by is None else place("sequence_by", sequence_by(key, value))
        if placed is None:
            return writer.drop("null_sequence", element, timestamp)
        encoded_key = encode_key(keys, key, "the key")
        encoded = None if value is None else values.encode(value)
        return writer.send("records", encoded_key, Record(encoded_key, encoded, timestamp, placed[0], 0, placed[1]))

    return rows


class _Windows(CoreOperator):
    def __init__(
        self,
        windows: Callable[[int], list[Window]],
        initial: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        grace: int | None,
        functions: StageFunctions,
        keys: Coder,
        decode: Callable[[bytes | None], Any],
    ) -> None:
        self._windows = windows
        self._initial = initial
        self._add = add
        self._grace = grace
        self._functions = functions
        self._keys = keys
        self._decode = decode

    def core(self) -> WindowedAggregateCore[Any]:
        def add(aggregate: Any, encoded: bytes | None) -> Any:
            try:
                result = self._add(copied(aggregate), self._decode(encoded))
            except Exception as error:
                assert core.adding is not None
                record, window = core.adding
                key, value = Windowed(self._keys.decode(record.key), window), self._decode(encoded)
                self._functions.failed("add", error, (aggregate, value), record.timestamp, key=key, record=(key, value))
                raise LeftOut from None
            return copied(result)

        core: WindowedAggregateCore[Any] = WindowedAggregateCore(self._windows, self._initial, add, self._grace)
        return core

    def write(self, output: Change[Windowed[bytes], Any] | Dropped, writer: BlockWriter) -> Any:
        if isinstance(output, Dropped):
            reason, (window, record), timestamp = output
            late = Windowed(self._keys.decode(record.key), window), self._decode(record.value)
            return writer.drop(reason, late, timestamp)
        (key, window), old, new, timestamp, position = output
        # the core keeps the new aggregate: whoever takes this one may write into it
        return timestamped(Change(Windowed(self._keys.decode(key), window), old, copied(new), timestamp, position), timestamp)
