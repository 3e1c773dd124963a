"""WindowedStreamJoin: joins two streams by key within a distance of time (KIP-77; left and outer joins as
corrected by KIP-633).
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints.typehints import KV

from beam_joins.functions.fields import Fields
from beam_joins.functions.joiner import Joiner, joiner_in_columns
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.interval import Spans
from beam_joins.keys.key_columns import joined_keys
from beam_joins.options.join_types import WindowedHow, keeps_unmatched
from beam_joins.options.spans import Span, span_micros
from beam_joins.transforms.engine.blocks.block_writer import DROPPED, MAIN
from beam_joins.transforms.engine.blocks.observed_kinds import keys_may_meet
from beam_joins.transforms.engine.construction.arrow_input import as_arrow, is_arrow
from beam_joins.transforms.engine.construction.input_checks import common_key_type, two_inputs
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.output_types import HandledWindowedStreamOutputs, StreamInput, WindowedStreamOutputs
from beam_joins.transforms.engine.construction.pipeline_changes import OF_RECORDS
from beam_joins.transforms.engine.stages.replay import Replay
from beam_joins.transforms.engine.stages.replay_options import union_with_stored
from beam_joins.transforms.engine.stages.stream_join import (
    SIDES,
    batches_joined,
    join_in_columns,
    joined_streams,
    joiner_of_pairs,
    pairs_joined,
    result_schema,
)
from beam_joins.transforms.engine.streams import OfRow, Stream, StreamOptions
from beam_joins.transforms.engine.transform_outputs import WithOutputs

_NAME = "WindowedStreamJoin"


class WindowedStreamJoin(
    WithOutputs[tuple[StreamInput, StreamInput], PCollection[Any], WindowedStreamOutputs, HandledWindowedStreamOutputs]
):
    """Joins the records of two streams with the same key and close event times.

    ``(PCollection[tuple[K, V]], PCollection[tuple[K, W]]) -> PCollection[tuple[K, R]]``. A left and a right
    record match if ``left time - before <= right time <= left time + after``, bounds included; every matching
    pair gives one result ``(key, joiner(left value, right value))``, at the larger of both times.

    * ``joiner``: a function of the left and the right value, or ``with_key(fn)`` with ``fn(key, left value,
      right value)``; if it returns ``None`` the result is ``(key, None)``, as in Kafka Streams: a value of a
      stream may be ``None``. Of streams of Arrow batches also columns, ``{"ad": "left.ad", "url":
      "right.url"}``.
    * ``how``: ``"inner"``; ``"left"`` also emits a left record without a match, ``joiner(left value, None)``,
      at its own time; ``"outer"`` does so for both sides. A record with a match has no unmatched result.
    * ``before``, ``after``: how far the right record's time may lie before and after the left record's:
      seconds, a ``timedelta`` or a Beam ``Duration``. One of them may be negative, as in Kafka's ``JoinWindows``, if their
      sum is not: ``before=-10, after=60`` is 10 to 60 seconds after it.
    * ``grace``: how far behind the stream time of its key a record may be, in the same form.
    * ``sequence_by``: a field of the values, or a function of key and value: the order of arrival, a whole
      number of 64 bits, comparable between both streams. Of several numbers, as in
      :class:`~beam_joins.TableFromChangelog`, the first is the position: records of one position arrive
      together. By default records arrive in the order of event time, and none is late. The event time of a
      pair is its element's timestamp, cut to the millisecond, as Beam carries it between stages.
    * ``key``: only for streams of Arrow batches, ``PCollection[pyarrow.Table]`` or
      ``PCollection[pyarrow.RecordBatch]``: the column of the key, or several.
    * ``timestamp_by``: only for streams of Arrow batches: the column of the event time, microseconds or an
      Arrow timestamp with a time zone.
    * ``stream_schemas``: the ``pyarrow.Schema`` of the left and of the right stream of Arrow batches, if their
      readers do not know them.
    * ``schema``: of Arrow batches with a joiner of one record, the ``pyarrow.Schema`` of its results.

    The values of a stream of Arrow batches are its rows. The result is record batches with the columns
    ``key``, ``value`` and ``timestamp``.

    The stream time of a key is the largest timestamp of its earlier records in the sequence, of both sides.
    (In Kafka Streams other keys of the task count too, so lateness depends on the partitions.) A record more
    than ``grace`` behind the stream time is late and is not joined. The outputs of :meth:`with_outputs` are
    ``stream``; ``dropped``, of ``Dropped`` with the reasons ``"null_value"``, ``"null_sequence"``, of Arrow
    batches ``"null_timestamp"`` and, in an inner join, ``"null_key"``; ``late``, of ``Dropped`` with the
    reasons ``"late_left"`` and ``"late_right"``. All of them are counted. Where a side keeps records without
    a match, a record with a null key is an unmatched result.

    Equal records are separate records. Both sides may be the same stream.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option, when applied to tables, to windowed input, to a
    stream of Arrow batches and a stream of pairs, to batches without the columns, or to keys of different
    types or without a deterministic coder, and in the run for elements that are not pairs.

    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> with beam.Pipeline() as pipeline:
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

    outputs = (WindowedStreamOutputs, HandledWindowedStreamOutputs)
    rules = OF_RECORDS._replace(options={"joiner": "kept", "schema": "kept", "stream_schemas": "kept"})

    def __init__(
        self,
        joiner: Joiner,
        *,
        how: WindowedHow = "inner",
        before: Span,
        after: Span,
        grace: Span,
        key: str | Sequence[str] | None = None,
        timestamp_by: str | None = None,
        sequence_by: Fields | OfRow | None = None,
        stream_schemas: tuple[pa.Schema, pa.Schema] | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        joiner_in_columns(joiner, schema=schema)
        self._joiner = joiner
        self._how: WindowedHow = choice("how", how, WindowedHow)
        bounds = span_micros("before", before, negative=True), span_micros("after", after, negative=True)
        if sum(bounds) < 0:
            raise ValueError(
                f"before={before!r} and after={after!r} are negative together: no record matches; give a sum of 0 or more"
            )
        self._spans = Spans(*bounds, span_micros("grace", grace))
        if stream_schemas is not None and (not isinstance(stream_schemas, tuple) or len(stream_schemas) != 2):
            raise ValueError(f"stream_schemas={stream_schemas!r}: give the pyarrow.Schema of the left and of the right stream")
        self._schemas = stream_schemas or (None, None)
        self._streams = StreamOptions.of(_NAME, key, timestamp_by, sequence_by, self._schemas)
        self._schema = schema

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None, PCollection[Any] | None]:
        """The joined stream, the dropped records and the late ones."""
        streams = two_inputs(_NAME, pvalue, "two streams: (left, right)")
        _require_one_form(*map(is_arrow, streams))
        left, right = (Stream(self._streams, stream, schema) for stream, schema in zip(streams, self._schemas, strict=True))
        types, handling, schema = (left.type, right.type), self.handling, None
        values = types[0].value_column, types[1].value_column
        if left.in_columns:
            values = tuple(union_with_stored(streams[0], "Join", side, kind) for side, kind in zip(SIDES, values, strict=True))
            types = types[0]._replace(value=values[0]), types[1]._replace(value=values[1])
            join = join_in_columns(_NAME, self._joiner, handling.functions, self._schema, values, SIDES)
            results = batches_joined(join)
            key_type, element_type = None, pa.RecordBatch
            schema = result_schema(joined_keys(*(pa.nulls(0, of_stream.key_column) for of_stream in types)).type, join)
        else:
            joiner = joiner_of_pairs(_NAME, self._joiner, self._schema)
            key_type, element_type = common_key_type(_NAME, *types), KV[Any, Any]
            results = pairs_joined(joiner, handling.functions, types)
        routed = [
            stream.routed(side.capitalize(), side, handling, self.dropping, null_keys=keeps_alone, key_type=key_type)
            for side, stream, keeps_alone in zip(SIDES, (left, right), keeps_unmatched(self._how), strict=True)
        ]
        replayed = tuple(blocks[side] for side, blocks in zip(SIDES, routed, strict=True)) | "Join" >> Replay(
            handling.functions.replay(joined_streams(self._how, self._spans, results, types)),
            to=(MAIN, *self.dropping, *handling.tags),
            main_type=element_type,
            check=keys_may_meet(_NAME, *SIDES, "left keys", "right keys"),
            by_time=types[0].order == "time",
            closes=None if self._how == "inner" else max(self._spans.before, self._spans.after) + self._spans.grace,
            stored={side: of_stream.columns for side, of_stream in zip(SIDES, types, strict=True)},
        )
        handling.collect(*routed, replayed)
        joined = replayed[MAIN] if schema is None else as_arrow(replayed[MAIN], schema)
        return joined, self.all_dropped(*routed), replayed.get(DROPPED)


def _require_one_form(*in_columns: bool) -> None:
    forms = ["columns" if each else "records" for each in in_columns]
    if len(set(forms)) > 1:
        raise ValueError(
            f"{_NAME} got {forms[0]} on the left and {forms[1]} on the right: give both streams in one form, batches of Arrow rows"
            " declared with .with_output_types(pyarrow.Table)"
        )
