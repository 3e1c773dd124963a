"""Tables from topics of Kafka in which changes are in the envelopes of the tools that capture them."""

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.content import Emit
from beam_joins.pipelines.read_table import MARKS, marked_table
from beam_joins.pipelines.sources.envelopes import EnvelopedRecords, TopicFormat
from beam_joins.pipelines.sources.schema_registry import registry_settings
from beam_joins.pipelines.sources.topic_records import Start, TopicRecords
from beam_joins.spans import Span
from beam_joins.transforms.engine.arrow_input import as_arrow
from beam_joins.transforms.engine.options import choice


class ReadKafkaTable(beam.PTransform[PBegin, Any]):
    """The table of a changelog in Kafka topics with envelopes, whose format says what is sequence, event time and delete: ReadTable for topics.

    * ``topics``: a name or several. Values are JSON, or with ``schema_registry`` Avro. Changes of a row must be in one partition, as connectors write them.
    * ``format``: ``"debezium"`` (with a schema or without, or unwrapped with ``__deleted``) or ``"maxwell"``.
    * ``key``: the columns of the primary key. A dot leads into a nested column: ``"customer.id"``.
    * ``table``: the table whose rows count, by its full name or the last part of it; by default all rows of the topics.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``, of which those of the key are some. By default values are dicts, their numbers exact.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.
    * ``schema_registry``: where the schemas of values in Avro are, as Confluent's AvroConverter writes them (the byte 0, the number of the schema, the record):
      an address, or the settings of confluent-kafka's ``SchemaRegistryClient``, such as ``{"url": ..., "basic.auth.user.info": "USER:PASSWORD"}``. For
      ``"debezium"``. Workers ask it, not the process that builds the pipeline.
    * ``bootstrap_servers``, ``out_of_orderness``, ``idle_after``, ``start``, ``config`` and ``follow``: as of :class:`~beam_joins.pipelines.kafka.ReadKafka`.

    The event time is that of the envelopes. A change that a connector sends again has its position and changes nothing. Records about no row are counted
    (``skipped_heartbeat``, ... in the namespace ``beam_joins``); tombstones are passed over.

    Raises ``ValueError`` at construction for an option that is not of its form, ImportError without confluent-kafka or, for ``schema_registry``, its
    client, and InputError at run time, with partition and offset, for a value that is no such envelope or does not fit the schema, or whose Avro schema the
    registry does not give.

    >>> ReadKafkaTable("shop.orders", format="wal2json", key="id", bootstrap_servers="localhost:9092")
    Traceback (most recent call last):
    ValueError: format='wal2json': choose one of 'debezium', 'maxwell'
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        format: TopicFormat,
        key: str | Sequence[str],
        bootstrap_servers: str,
        table: str = "",
        schema: pa.Schema | None = None,
        schema_registry: str | Mapping[str, Any] | None = None,
        emit: Emit = "updates",
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        start: Start = "earliest",
        config: Mapping[str, Any] | None = None,
        follow: bool = True,
    ) -> None:
        super().__init__()
        choice("format", format, TopicFormat)
        self._key = [key] if isinstance(key, str) else list(key)
        tops = tuple(dict.fromkeys(column.partition(".")[0] for column in self._key))
        if not tops:
            raise ValueError(f"key={key!r}: give a column, or several")
        if not (schema is None or isinstance(schema, pa.Schema)):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema or None")
        missing = [] if schema is None else [column for column in tops if column not in schema.names]
        if missing:
            raise ValueError(f"key={key!r}: schema= has no column {missing[0]!r}")
        if schema_registry is not None and format != "debezium":
            raise ValueError(f"schema_registry= is for format='debezium': Avro is not what format={format!r} is written in")
        registry = None if schema_registry is None else registry_settings(schema_registry)
        self._schema = None if schema is None else pa.schema([*schema, *MARKS])
        self._emit: Emit = emit
        self._records = TopicRecords(
            topics,
            EnvelopedRecords(format, table, tops, self._schema, registry),
            dict[str, Any] if schema is None else pa.RecordBatch,
            bootstrap_servers=bootstrap_servers,
            out_of_orderness=out_of_orderness,
            idle_after=idle_after,
            start=start,
            config=config,
            follow=follow,
        )

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        rows = begin | "Records" >> self._records
        if self._schema is not None:
            rows = as_arrow(rows, self._schema)
        table: PCollection[Any] = rows | "Table" >> marked_table(self._key, emit=self._emit, in_columns=self._schema is not None)
        return table
