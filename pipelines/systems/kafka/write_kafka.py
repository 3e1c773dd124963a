"""WriteKafka: writes the changes of a table to a Kafka topic, those of a run in one transaction, which counts once."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch
from beam_joins.errors import InputError
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.formats.output_records import Anew
from beam_joins.pipelines.formats.types.target_types import json_lines_type, parquet_type
from beam_joins.pipelines.results.counts import at_bundle_end
from beam_joins.pipelines.results.merge_once import CHECKSUMS, MergedTable
from beam_joins.pipelines.results.run_mark import Mark, MarkFile, NotAsLeft
from beam_joins.pipelines.results.sorted_output import ChangesInOrder, merge
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from beam_joins.pipelines.systems.kafka.topic_messages import (
    KeyFormat,
    MessagesPart,
    TopicMessages,
    TopicRecordsOf,
    ValueFormat,
    checksum_of,
    messages_in,
)
from beam_joins.pipelines.systems.kafka.topic_producer import TopicProducer
from beam_joins.pipelines.systems.kafka.topic_target import TopicRun, TopicTarget
from beam_joins.pipelines.systems.kafka.topics import client_settings, kafka
from beam_joins.transforms.connect.checks import choice, columns, require_global, require_tables, text
from beam_joins.transforms.connect.runs import ForEach, KeptSignatures, folder_for
from beam_joins.transforms.connect.tables import PlainRows, TableType, in_batches, table_type

__all__ = ["WriteKafka"]

_MOST_PARTITIONS: Final = 1 << 31


class WriteKafka(beam.PTransform[PCollection[Any], PCollection[int]]):
    """Writes the changes of a table to a topic, in the order of their positions; gives the number of records.

    A record has the key of its row, the event time of the change as its time, and headers ``position`` and ``timestamp``
    (microseconds). Java's partitioner says its partition: where Kafka Streams, Connect and ksqlDB look for the key.

    Bounded input is one transaction a run, by one worker. The number of the run is committed with it, with ``--beam_joins_state``
    that of the state, else the time when the pipeline was built: a run that is repeated with the same changes writes nothing, and
    consumers with ``isolation.level=read_committed`` see each change once. A run that is repeated with more changes writes them
    all. Brokers forget the number after ``offsets.retention.minutes``, a week by default. Unbounded input is written at least
    once, as its changes come: consumers can drop the repeated ones by their positions.

    * ``topic``: the name of the topic.
    * ``bootstrap_servers``: HOST:PORT, several with commas between.
    * ``records``: the values: ``"upserts"``, the row after the change, and a tombstone after a delete, as a compacted topic
      has them; ``"pairs"``, the rows before and after it in Debezium's form, with a tombstone behind a delete; ``"changes"``,
      as of :class:`~beam_joins.io.WriteChangelog`.
    * ``key``: how the columns of the key are named; by default as those that it was made of, ``key`` where there was one.
    * ``key_format``: ``"text"``, ``"json"``, an object, or ``"avro"``, a record; by default text where the key is one
      column of text, whole numbers or UUIDs, and else JSON.
    * ``value``: ``"json"`` or ``"avro"``.
    * ``schema_registry``: where schemas of Avro are registered, for the subjects ``TOPIC-key`` and ``TOPIC-value``: an
      address or settings, as of :class:`~beam_joins.io.ReadKafkaChangeEvents`.
    * ``table``: the name of the table in pairs.
    * ``partitions``: their number. A topic that is missing is created with so many, compacted if its records are upserts;
      one with another number is refused. By default the topic must be there.
    * ``application``: the name of these runs, by default the label of the transform: a consumer group, with the prefix
      ``beam_joins.``.
    * ``config``: further settings of librdkafka's producer.

    Raises ``ValueError`` at construction for a wrong option, and ImportError without confluent-kafka; when applied for a table
    of Python objects, for columns that the formats do not have, and for upserts of a table that begins anew. In the run
    :class:`~beam_joins.InputError` for a topic that is missing, or that with a state is not the one of the last run, or had a
    later run of the application; OutputError if the topic cannot be written.

    >>> WriteKafka("orders", bootstrap_servers="localhost:9092", records="rows")
    Traceback (most recent call last):
    ValueError: records='rows': choose one of 'upserts', 'pairs', 'changes'
    """

    def __init__(
        self,
        topic: str,
        *,
        bootstrap_servers: str,
        records: TopicRecordsOf = "upserts",
        key: str | Sequence[str] | None = None,
        key_format: KeyFormat | None = None,
        value: ValueFormat = "json",
        schema_registry: str | Mapping[str, Any] | None = None,
        table: str = "",
        partitions: int | None = None,
        application: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        text("topic", topic, "the name of a topic")
        text("table", table, "the name of a table", empty=True)
        choice("records", records, TopicRecordsOf)
        choice("value", value, ValueFormat)
        if key is not None:
            columns("key", key)
        if key_format is not None:
            choice("key_format", key_format, KeyFormat)
        if application is not None:
            text("application", application, "a name, or leave it out")
        if not (
            partitions is None
            or (isinstance(partitions, int) and not isinstance(partitions, bool) and 0 < partitions < _MOST_PARTITIONS)
        ):
            raise ValueError(f"partitions={partitions!r}: give a number of partitions, or None")
        if ("avro" in (value, key_format)) != (schema_registry is not None):
            raise ValueError("value='avro' or key_format='avro' and schema_registry= belong together: give both or none")
        settings = client_settings(bootstrap_servers, config, "producer")
        kafka()
        registry = None if schema_registry is None else registry_settings(schema_registry)
        self._target = TopicTarget(topic, settings, partitions, registry)
        self._records: TopicRecordsOf = records
        self._formats: dict[str, Any] = {"key_format": key_format, "value": value, "table": table, "topic": topic}
        self._key = key
        self._application = application
        self._built = time.time_ns() // 1_000

    def expand(self, pcoll: PCollection[Any]) -> PCollection[int]:
        """Apply the transform."""
        require_global("WriteKafka", pcoll)
        require_tables("WriteKafka", pcoll)
        folder = folder_for(pcoll)
        anew = Anew.of(pcoll, folder)
        messages = TopicMessages(self._rows(table_type(pcoll)), self._records, **self._formats).begun(anew)
        batches: Any = in_batches(pcoll)
        if not pcoll.is_bounded:
            write = _ProduceEach(self._target, messages)
            produced: PCollection[int] = batches | "Write" >> beam.ParDo(write).with_output_types(int)
            return produced
        application = self._application or pcoll.pipeline.transforms_stack[-1].full_label
        left = None if folder is None else MarkFile.of(folder, f"the topic {self._target.topic}, {application}")
        run = TopicRun(self._target, messages, application, self._built if folder is None else folder.run, anew is not None)
        parts = batches | "Encode" >> beam.ParDo(ForEach(messages.parts)).with_output_types(MessagesPart)
        written: PCollection[int] = parts | "Write" >> CallOnce(partial(_written, run, left), int)
        return written

    def merged(self, of_table: TableType) -> MergedTable:
        """The topic for one process that writes all changes of a run in one transaction. Raises ``ValueError``."""
        messages = TopicMessages(self._rows(of_table), self._records, **self._formats)
        return _FileOfRun(TopicRun(self._target, messages, self._application or type(self).__name__, self._built, anew=False))

    def _rows(self, of_table: TableType) -> PlainRows:
        stored = json_lines_type if self._formats["value"] == "json" and self._records != "pairs" else parquet_type
        return PlainRows("WriteKafka", of_table, self._key, stored=stored)


def _written(run: TopicRun, left: MarkFile | None, written: Iterable[MessagesPart]) -> list[int]:
    """Write the parts of a run; gives the number of records."""
    parts, head = list(written), run.messages.head
    checksum = sum(part.checksum for part in parts) % CHECKSUMS
    into = lambda producer: merge(producer, [part.file for part in parts], head=head, removes=False)  # noqa: E731
    try:
        last = None if left is None or run.anew else left.last
        records, mark = run.write(checksum, into, last, is_empty=not parts and head is None)
    except NotAsLeft as error:
        raise InputError(f"{error}: write to another topic, with an empty state") from error
    if left is not None and mark["run"] is not None:
        left.put(mark)
    return [records]


@dataclass(frozen=True)
class _FileOfRun:
    """The messages of a run in a file, which one process writes."""

    run: TopicRun

    @property
    def records(self) -> TopicMessages:
        return self.run.messages

    def exists(self) -> bool:
        return self.run.target.exists()

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        target = self.run.target
        if create or target.exists():
            target.require_left(target.described(compacted=self.run.messages.upserts), last)

    def merge(self, file: str, *, run: int | None, anew: bool, last: Mark | None = None) -> Mark | None:
        checksum = sum(map(checksum_of, messages_in(file))) % CHECKSUMS
        number = self.run.number if run is None else run
        is_empty = not any(map(len, messages_in(file)))

        def into(producer: TopicProducer) -> None:
            for messages in messages_in(file):
                producer.write(messages)

        _, mark = replace(self.run, number=number, anew=anew and run is not None).write(checksum, into, last, is_empty=is_empty)
        return None if mark["run"] is None else mark


class _ProduceEach(KeptSignatures):
    """Writes the messages of batches as they come; gives the number of records of each bundle."""

    def __init__(self, target: TopicTarget, messages: TopicMessages) -> None:
        self._target, self._messages = target, messages
        self._producer: TopicProducer | None = None
        self._before = 0

    def process(self, batch: ChangeBatch) -> None:
        """Write the messages of a batch."""
        if self._producer is None:
            now = self._target.described(compacted=self._messages.upserts)
            self._producer = self._target.producer(self._messages, now)
        for rows in ChangesInOrder(self._messages.of_changes)(batch):
            self._producer.write(rows["record"])

    def finish_bundle(self) -> Iterable[Any]:
        """Wait until the records are delivered."""
        if self._producer is not None:
            self._producer.flush()
            count, self._before = self._producer.records - self._before, self._producer.records
            if count:
                yield at_bundle_end(count)
