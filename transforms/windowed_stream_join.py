"""WindowedStreamJoin: two streams, by key and by closeness in time (KIP-77; left and outer as mended by KIP-633)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import encode_key, key_coder, value_coder
from beam_joins.fields import Fields
from beam_joins.interval import Spans, matches
from beam_joins.joiner import Joiner, of_records
from beam_joins.spans import Span, span_micros
from beam_joins.transforms.engine.block_writer import DROPPED, MAIN, BlockWriter
from beam_joins.transforms.engine.changelog_columns import in_columns
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.stream_form import (
    SIDES,
    StreamColumns,
    StreamForm,
    StreamInColumns,
    StreamInRecords,
    column_stream_rows,
    keyed_records,
)
from beam_joins.transforms.engine.stream_rows import OfRow, alone, stream_rows, stream_type, two_inputs
from beam_joins.transforms.engine.stream_transform import StreamTransform
from beam_joins.transforms.engine.table_form import no_rows
from beam_joins.transforms.engine.table_rows import canonical_part
from beam_joins.transforms.engine.table_type import common_key_type
from beam_joins.typed_rows import Schema
from tests.reference.stream_join import StreamHow


class WindowedStreamOutputs(NamedTuple):
    """The joined stream, the records that came too late, and those that could not be used; the latter two are of ``Dropped``."""

    joined: PCollection[Any]
    late: PCollection[Any] | None
    dropped: PCollection[Any] | None


class WindowedStreamJoin(StreamTransform):
    """Records of two streams with the same key and with times close to each other.

    ``(PCollection[tuple[K, V]], PCollection[tuple[K, W]]) -> PCollection[tuple[K, R]]``. A left and a right record match if
    ``left time - before <= right time <= left time + after``, bounds included; every matching pair gives one result
    ``(key, joiner(left value, right value))``, at the larger of both times.

    * ``joiner(left value, right value)``; if it gives ``None`` the result is ``(key, None)``, as in Kafka Streams: a stream may say that.
    * ``how``: ``"inner"``; ``"left"`` gives a left record without a match too, ``joiner(left value, None)``, at its own time; ``"outer"``
      does so for both sides. A record that finds a match never had a result without one.
    * ``before``, ``after``, ``grace``: seconds, a ``timedelta`` or a Beam ``Duration``; 0 or more.
    * ``sequence_by(key, value)``, or the name of a field of the values: the order of arrival, a whole number of 64 bits, comparable
      between both streams. Of several, as in :class:`~beam_joins.TableFromChangelog`, the first counts: records of one position come
      together. By default records come in the order of event time, and none is late. The time of a pair is that of its element, cut to the
      millisecond, as Beam carries it between stages.
    * ``key``, ``timestamp_by``: for streams in columns, ``PCollection[pyarrow.Table]`` or ``PCollection[pyarrow.RecordBatch]``, and only
      there: the column or the columns of the key, and that of the event time (microseconds, or an Arrow timestamp with a time zone).
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    The values of streams in columns are their rows; the joiner may be one of columns, as in :class:`~beam_joins.ForeignKeyJoin`, and the
    result is of record batches with the columns ``key``, ``value`` and ``timestamp``. A joiner of one record needs ``schema`` there, a
    ``pyarrow.Schema``: the columns of what it gives.

    The stream time of a key is the largest timestamp of those of its records, of both sides, that come earlier in the sequence. (In Kafka
    Streams other keys of the task count too, so what is late depends on the partitions.) A record more than ``grace`` behind it is late
    and is not joined. The outputs of :meth:`with_outputs` are ``joined``; ``late``, of ``Dropped`` with the reasons ``"late_left"`` and
    ``"late_right"``; ``dropped``, of ``Dropped`` with the reasons ``"null_value"``, ``"null_sequence"`` and, in an inner join,
    ``"null_key"``. All of them are counted. Where a side keeps records without a match, one with a null key gives its result at once.

    Equal records are separate records. Both sides may be the same stream.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option, when applied to tables, to windowed or unbounded input, to one stream in
    columns and one in records, or to keys of different types or without a deterministic coder, and in the run for elements that are not
    pairs.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     views = pipeline | "views" >> beam.Create([("ad", "view 1", 100), ("ad", "view 2", 500)])
    ...     clicks = pipeline | "clicks" >> beam.Create([("ad", "click", 130)])
    ...     views, clicks = (
    ...         stream | name >> beam.Map(lambda row: TimestampedValue(row[:2], row[2])).with_output_types(tuple[str, str])
    ...         for name, stream in (("view times", views), ("click times", clicks))
    ...     )
    ...     seen = (views, clicks) | WindowedStreamJoin(
    ...         lambda view, click: f"{view}: {click or 'no click'}", how="left", before=0, after=60, grace=10
    ...     )
    ...     _ = seen | beam.Map(print)
    ('ad', 'view 1: click')
    ('ad', 'view 2: no click')
    """

    def __init__(
        self,
        joiner: Joiner,
        *,
        how: StreamHow = "inner",
        before: Span,
        after: Span,
        grace: Span,
        key: str | Sequence[str] | None = None,
        timestamp_by: str | None = None,
        sequence_by: Fields | OfRow | None = None,
        schema: Schema | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(joiner, how, StreamHow, sequence_by=sequence_by, schema=schema, partitions=partitions)
        self._schema = schema
        self._spans = Spans(span_micros("before", before), span_micros("after", after), span_micros("grace", grace))
        self._columns = StreamColumns(key, timestamp_by, sequence_by)

    def build(self, pvalue: Any) -> WindowedStreamOutputs:
        """The joined stream, the late records and the dropped ones."""
        streams = two_inputs("WindowedStreamJoin", pvalue, "two streams: (left, right)")
        kept = {"inner": (), "left": (0,), "outer": (0, 1)}[self._how]
        form: StreamForm
        handling, functions, sequence = self.handling, self.handling.functions, self.called_sequence
        if self._in_columns(streams):
            columns = self._columns._replace(sequence=sequence) if callable(self._columns.sequence) else self._columns
            arguments = partial(keyed_records, columns)
            rows = [
                functions.route_batches(column_stream_rows(side, columns, keeps_null=i in kept), arguments)
                for i, side in enumerate(SIDES)
            ]
            form, without_key, timed = StreamInColumns(self._joiner, functions, self._schema), [], False
        else:
            joiner = of_records("WindowedStreamJoin", self._joiner)
            left, right = (stream_type("WindowedStreamJoin", stream, self._sequence) for stream in streams)
            keys = key_coder(common_key_type("WindowedStreamJoin", left, right), "the key of WindowedStreamJoin")
            values = value_coder(left.value), value_coder(right.value)
            null = ["" if i in kept else "null_key" for i in (0, 1)]
            rows = [
                functions.route(
                    stream_rows(side, _own_key(keys), values[i], input=i, sequence=sequence, null=null[i], noted=canonical_part(keys))
                )
                for i, side in enumerate(SIDES)
            ]
            form, timed = StreamInRecords(joiner, functions, keys, values), True
            without_key = [self._without_key(i, streams[i]) for i in kept]
        routed = [
            stream
            | side.capitalize() >> Route(rows[i], to=(side, *self.dropping, *handling.tags), partitions=self._partitions, timed=timed)
            for i, (side, stream) in enumerate(zip(SIDES, streams, strict=True))
        ]
        replayed = (routed[0][SIDES[0]], routed[1][SIDES[1]]) | "Join" >> Replay(
            functions.replay(_Join(self._how, self._spans, form)),
            to=(MAIN, *self.dropping, *handling.tags),
            partitions=self._partitions,
            main_type=form.element_type,
            check=keys_may_meet("WindowedStreamJoin", *SIDES, "left keys", "right keys"),
        )
        handling.collect(*routed, replayed)
        results = [replayed[MAIN], *without_key]
        return WindowedStreamOutputs(
            results | "Joined" >> beam.Flatten() if without_key else results[0],
            replayed.get(DROPPED),
            self.all_dropped(*routed),
        )

    def _in_columns(self, streams: tuple[PCollection[Any], PCollection[Any]]) -> bool:
        """Whether both streams are in columns; raises ``ValueError`` if one is, and for options of columns where none is."""
        left, right = (in_columns(stream) for stream in streams)
        if left != right:
            raise ValueError(
                f"WindowedStreamJoin got {'columns' if left else 'records'} on the left and {'columns' if right else 'records'} on the"
                " right: give both streams in one form, batches of Arrow rows declared with .with_output_types(pyarrow.Table)"
            )
        named = [name for name, given in (("key", self._columns.key), ("timestamp_by", self._columns.timestamp)) if given is not None]
        if named and not left:
            raise ValueError(
                f"WindowedStreamJoin takes {'= and '.join(named)}= for streams in columns only, and these are of (key, value) pairs at the"
                " times of their elements: leave it out, or declare batches with .with_output_types(pyarrow.Table)"
            )
        return left

    def _without_key(self, side: int, stream: PCollection[Any]) -> PCollection[Any]:
        label = f"{SIDES[side].capitalize()} without a key"
        return alone(stream, label, self.handling, lambda key, value: key is None, self._joiner, side)


def _own_key(keys: Coder) -> Callable[[Any, Any], tuple[bytes, bytes] | None]:
    def encode(key: Any, value: Any) -> tuple[bytes, bytes] | None:
        if key is None:
            return None
        encoded = encode_key(keys, key, "the key")
        return encoded, encoded

    return encode


class _Join:
    def __init__(self, how: StreamHow, spans: Spans, form: StreamForm) -> None:
        self._how: StreamHow = how
        self._spans = spans
        self._form = form

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        inputs = read_blocks(blocks)
        rows = [inputs.get(side, no_rows()) for side in SIDES]
        found = matches(rows[0], rows[1], self._how, self._spans)
        for i, side in enumerate(SIDES):
            late = rows[i].filter(pa.array(found.late[i]))
            writer.drop_rows(f"late_{side}", len(late), partial(self._form.records, late, i))
        return self._form.elements(rows[0], rows[1], found)
