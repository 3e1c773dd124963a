"""ReadKafkaChangeEvents: reads the table of the change events of a CDC tool in Kafka topics."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.options.spans import Span
from beam_joins.pipelines.changelogs.read_table import Reads, ReadTable
from beam_joins.pipelines.systems.kafka.event_topics import EventTopics, TopicFormat
from beam_joins.pipelines.systems.kafka.topic_records import Start
from beam_joins.transforms.connect import checks

__all__ = ["ReadKafkaChangeEvents"]


class ReadKafkaChangeEvents(ReadTable):
    r"""Reads the table of the change events of a CDC tool in Kafka topics (``pip install 'beam-joins[kafka]'``).

    Values are envelopes of Debezium or Maxwell. Changes of a row must be in one partition, as connectors write them;
    a tombstone deletes the row of its key where the delete event of Debezium is not there any more.

    * ``topics``, ``bootstrap_servers``, ``start``, ``config``, ``out_of_orderness``, ``idle_after``: as of
      :class:`~beam_joins.io.ReadKafka`.
    * ``follow``: ``False`` reads the records up to the ends that the partitions have, and ends. With a state each run goes on at
      the offsets of the run before; the process that builds the pipeline reads the records then. Values in Avro are all
      read again, and earlier ones dropped as late.
    * ``format``: ``"debezium"`` or ``"maxwell"``.
    * ``key``: the columns of the primary key. A dot in a name leads into a nested column.
    * ``table``, ``unavailable_value``, ``emit``, ``without_earlier``: as of :class:`~beam_joins.io.ReadChangeEvents`.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``; by default values are dicts, their numbers exact.
    * ``schema_registry``: the registry with the schemas of values in Avro, as Confluent's AvroConverter writes them (the
      byte 0, the number of the schema, the record): an address, or the settings of confluent-kafka's
      ``SchemaRegistryClient``, such as ``{"url": ..., "basic.auth.user.info": "USER:PASSWORD"}``. Only workers connect.

    Raises ``ValueError`` at construction for a wrong option, and ImportError without confluent-kafka; in the run
    InputError, naming partition and offset, or with offsets of a state the topic, for an event that cannot be read. With a
    state InputError when it is applied, for a topic that is not the one of the run before, or has lost records.

    >>> ReadKafkaChangeEvents("shop", format="wal2json", key="id", bootstrap_servers="localhost:9092")
    Traceback (most recent call last):
    ValueError: format='wal2json': choose one of 'debezium', 'maxwell'
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        bootstrap_servers: str,
        format: TopicFormat,
        key: str | Sequence[str],
        table: str = "",
        schema: pa.Schema | None = None,
        schema_registry: str | Mapping[str, Any] | None = None,
        unavailable_value: str | Sequence[str] = (),
        emit: Emit = "updates",
        without_earlier: Literal["fail", "drop"] = "fail",
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        start: Start = "earliest",
        config: Mapping[str, Any] | None = None,
        follow: bool = True,
    ) -> None:
        checks.choice("format", format, TopicFormat)
        checks.text("table", table, "the name of a table", empty=True)
        checks.choice("emit", emit, Emit)
        checks.choice("without_earlier", without_earlier, Literal["fail", "drop"])
        names = checks.columns("key", key)
        if not (schema is None or isinstance(schema, pa.Schema)):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema or None")
        consumer: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "start": start, "config": config, "follow": follow}
        consumer |= {"out_of_orderness": out_of_orderness, "idle_after": idle_after}
        events = EventTopics(topics, format, table, names, schema, schema_registry, unavailable_value, consumer)

        def reads(begin: PBegin) -> Reads:
            return events.of_run(begin).table(emit=emit, without_earlier=without_earlier)

        super().__init__(reads)
