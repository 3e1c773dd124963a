"""The elements of Kafka topics, of all partitions that they have when the run begins."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.options.spans import Span
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.source_reads import read_with
from beam_joins.pipelines.systems.kafka.topics import TopicReading, Topics, client_settings, kafka, partitions_of
from beam_joins.transforms.connect.checks import choice, flag

Start = Literal["earliest", "latest"]


class TopicRecords(beam.PTransform[PBegin, PCollection[Any]]):
    """The elements that ``records`` makes of the records of topics, which ``option`` names, of type ``made``; the
    other options are those of :class:`~beam_joins.pipelines.systems.kafka.read_kafka.ReadKafka`.
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        records: TopicReading,
        made: Any,
        *,
        bootstrap_servers: str,
        out_of_orderness: Span,
        idle_after: Span | None,
        start: Start,
        config: Mapping[str, Any] | None,
        follow: bool,
        option: str = "topics",
    ) -> None:
        super().__init__()
        self.topics = [topics] if isinstance(topics, str) or not isinstance(topics, Sequence) else list(topics)
        if not self.topics or not all(isinstance(topic, str) and topic for topic in self.topics):
            raise ValueError(f"{option}={topics!r}: give the name of a topic, or several")
        choice("start", start, Start)
        flag("follow", follow)
        self.config = client_settings(bootstrap_servers, config, "consumer")
        kafka()
        source = Topics(self.config, records, start, follow)
        self._read = read_with(source, EventTime.of(out_of_orderness, idle_after), follow=follow).with_output_types(made)

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        config = self.config
        partitions = (
            begin
            | "Topics" >> beam.Create(self.topics, reshuffle=False)
            | "Partitions" >> beam.FlatMap(lambda topic: partitions_of(topic, config)).with_output_types(tuple[str, int])
            | "Spread" >> beam.Reshuffle()
        )
        elements: PCollection[Any] = partitions | "Read" >> self._read
        return elements
