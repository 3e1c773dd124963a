"""WindowedStreamJoin: two streams, by key and by closeness in time (KIP-77; left and outer as mended by KIP-633)."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.stream_join import Joined, Late, StreamHow, StreamJoin
from coders.key import encode_key, key_coder, value_coder
from transforms.duration import Span, span_micros
from transforms.replay import DROPPED, MAIN, Operator, Outlet, Replay, Route, at
from transforms.stream_rows import OfRow, alone, stream_rows, stream_type, two_inputs
from transforms.stream_transform import StreamTransform
from transforms.table_type import common_key_type

_SIDES = ("left", "right")


class WindowedStreamOutputs(NamedTuple):
    """The joined stream, the records that came too late, and those that could not be used; the latter two are of ``Dropped``."""

    joined: PCollection[Any]
    late: PCollection[Any]
    dropped: PCollection[Any]


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
      between both streams. By default records come in the order of event time, and none is late.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`transforms.replay`.

    The stream time of a key is the largest timestamp of those of its records, of both sides, that come earlier in the sequence. (In Kafka
    Streams other keys of the task count too, so what is late depends on the partitions.) A record more than ``grace`` behind it is late
    and is not joined. The outputs of :meth:`with_outputs` are ``joined``; ``late``, of ``Dropped`` with the reasons ``"late_left"`` and
    ``"late_right"``; ``dropped``, of ``Dropped`` with the reasons ``"null_value"``, ``"null_sequence"`` and, in an inner join,
    ``"null_key"``. All of them are counted. Where a side keeps records without a match, one with a null key gives its result at once.

    Equal records are separate records. Both sides may be the same stream.

    Raises ``ValueError`` at construction for a wrong option, when applied to tables, to windowed or unbounded input, or to keys of
    different types or without a deterministic coder, and in the run for elements that are not pairs.

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
        joiner: Callable[[Any, Any], Any],
        *,
        how: StreamHow = "inner",
        before: Span,
        after: Span,
        grace: Span,
        sequence_by: str | OfRow | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(joiner, how, StreamHow, sequence_by=sequence_by, partitions=partitions)
        self._before = span_micros("before", before)
        self._after = span_micros("after", after)
        self._grace = span_micros("grace", grace)

    def build(self, pvalue: Any) -> WindowedStreamOutputs:
        """The joined stream, the late records and the dropped ones."""
        streams = two_inputs("WindowedStreamJoin", pvalue, "two streams: (left, right)")
        left, right = (stream_type("WindowedStreamJoin", stream, self._sequence) for stream in streams)
        keys = key_coder(common_key_type("WindowedStreamJoin", left, right), "the key of WindowedStreamJoin")
        values = value_coder(left.value), value_coder(right.value)
        kept = {"inner": (), "left": (0,), "outer": (0, 1)}[self._how]
        routed = [
            stream
            | side.capitalize()
            >> Route(
                stream_rows(
                    side,
                    _own_key(keys),
                    values[i],
                    input=i,
                    sequence=self._sequence,
                    null="" if i in kept else "null_key",
                ),
                to=(side,),
                partitions=self._partitions,
                timed=True,
            )
            for i, (side, stream) in enumerate(zip(_SIDES, streams, strict=True))
        ]
        replayed = (routed[0]["left"], routed[1]["right"]) | "Join" >> Replay(
            _Join(self._joiner, self._how, self._before, self._after, self._grace, keys, values),
            partitions=self._partitions,
            main_type=typehints.KV[Any, Any],
        )
        results = [replayed[MAIN], *(self._without_key(i, streams[i]) for i in kept)]
        return WindowedStreamOutputs(
            results | "Joined" >> beam.Flatten() if kept else results[0],
            replayed[DROPPED],
            [outputs[DROPPED] for outputs in routed] | "Dropped" >> beam.Flatten(),
        )

    def _without_key(self, side: int, stream: PCollection[Any]) -> PCollection[Any]:
        joiner = self._joiner
        return alone(
            stream,
            f"{_SIDES[side].capitalize()} without a key",
            lambda key, value: key is None,
            (lambda value: joiner(None, value)) if side else (lambda value: joiner(value, None)),
        )


def _own_key(keys: Coder) -> Callable[[Any, Any], tuple[bytes, bytes] | None]:
    def encode(key: Any, value: Any) -> tuple[bytes, bytes] | None:
        if key is None:
            return None
        encoded = encode_key(keys, key, "the key")
        return encoded, encoded

    return encode


class _Join(Operator):
    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        how: StreamHow,
        before: int,
        after: int,
        grace: int,
        keys: Coder,
        values: tuple[Coder, Coder],
    ) -> None:
        self._joiner = joiner
        self._how: StreamHow = how
        self._spans = {"before": before, "after": after, "grace": grace}
        self._keys = keys
        self._values = values

    def core(self) -> StreamJoin[Any]:
        return StreamJoin(self._join, self._how, **self._spans)

    def finish(self, core: StreamJoin[Any]) -> Iterable[Joined[Any]]:
        return core.finish()

    def _join(self, left: bytes | None, right: bytes | None) -> Any:
        left_values, right_values = self._values
        return self._joiner(None if left is None else left_values.decode(left), None if right is None else right_values.decode(right))

    def write(self, output: Joined[Any] | Late, outlet: Outlet) -> WindowedValue | None:
        if isinstance(output, Late):
            key, value, timestamp, _, side = output.record
            assert value is not None, "null values are dropped on the way here"
            outlet.drop(f"late_{_SIDES[side]}", (self._keys.decode(key), self._values[side].decode(value)), timestamp)
            return None
        return at((self._keys.decode(output.key), output.value), output.timestamp)
