"""The elements of Kafka topics, of all partitions that they have when the run begins."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.pipelines.sources.event_time import EventTime
from beam_joins.pipelines.sources.follow import Follow
from beam_joins.pipelines.sources.topics import Reading, Topics, kafka, partitions_of
from beam_joins.spans import Span
from beam_joins.transforms.engine.options import choice

Start = Literal["earliest", "latest"]


class TopicRecords(beam.PTransform[PBegin, PCollection[Any]]):
    """What ``records`` makes of the records of topics, of type ``made``; the other options are those of :class:`~beam_joins.pipelines.kafka.ReadKafka`."""

    def __init__(
        self,
        topics: str | Sequence[str],
        records: Reading,
        made: Any,
        *,
        bootstrap_servers: str,
        out_of_orderness: Span,
        idle_after: Span | None,
        start: Start,
        config: Mapping[str, Any] | None,
        follow: bool,
    ) -> None:
        super().__init__()
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics or not all(isinstance(topic, str) and topic for topic in self._topics):
            raise ValueError(f"topics={topics!r}: give the name of a topic, or several")
        choice("start", start, Start)
        self._config = {**(config or {}), "bootstrap.servers": bootstrap_servers}
        kafka()
        source = Topics(self._config, records, start, follow)
        self._read = beam.ParDo(Follow(source, EventTime.of(out_of_orderness, idle_after))).with_output_types(made)
        self._follow = follow

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        config = self._config
        partitions = (
            begin
            | "Topics" >> beam.Create(self._topics, reshuffle=False)
            | "Partitions" >> beam.FlatMap(lambda topic: partitions_of(topic, config)).with_output_types(tuple[str, int])
            | "Spread" >> beam.Reshuffle()
        )
        elements: PCollection[Any] = partitions | "Read" >> self._read
        elements.is_bounded = not self._follow
        return elements
