"""ReadKafka: reads Kafka topics with confluent-kafka (``pip install 'beam-joins[kafka]'``), without an
expansion service or Java.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.options.spans import Span
from beam_joins.pipelines.systems.kafka.kafka_records import Records, Value
from beam_joins.pipelines.systems.kafka.topic_records import Start, TopicRecords
from beam_joins.transforms.connect.tables import as_arrow

__all__ = ["ReadKafka"]


class ReadKafka(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads the records of Kafka topics, from all partitions that they have when the run begins.

    Elements are pairs of key (bytes, or None) and value; with a schema, ``pyarrow.RecordBatch``. A job that restarts from a
    savepoint or a checkpoint continues each partition at its offset; nothing is committed to Kafka.

    * ``topics``: the name of a topic, or several.
    * ``bootstrap_servers``: HOST:PORT, several with commas between.
    * ``value``: ``"bytes"``, ``"json"``, or ``"avro"`` for records whose schemas are in a registry. The value of a tombstone
      is None. Records of Avro are dicts: decimals are numbers with all digits, dates and times ISO 8601 text.
    * ``schema_registry``: as of :class:`~beam_joins.io.ReadKafkaChangeEvents`.
    * ``schema``: for JSON objects and records of Avro, a ``pyarrow.Schema``, a ``NamedTuple`` or a dataclass. Columns named
      ``kafka_key``, ``kafka_partition``, ``kafka_offset`` and ``kafka_timestamp`` (microseconds) hold these of the record,
      ``kafka_tombstone`` whether its value is null, and ``kafka_header_NAME`` its header of that name, text or a whole number;
      a tombstone has nulls in all others.
    * ``timestamp_by``: a function of key and value, or a column of the schema, with the event time: microseconds since the
      epoch, or a time with a time zone. By default the record's time in Kafka; with a schema, its column
      ``kafka_timestamp``.
    * ``out_of_orderness``: the distance of a partition's watermark behind its largest event time: seconds, a ``timedelta``
      or a Beam ``Duration``. The watermark of the source is the smallest of its partitions'.
    * ``idle_after``: the time without a record after which a partition's watermark follows the clock, ``out_of_orderness``
      behind it. By default it waits for the next record, so that no result depends on the time of arrival; an empty
      partition then holds the watermark of all.
    * ``start``: the first offset of a job without a checkpoint, ``"earliest"`` or ``"latest"``.
    * ``config``: further settings of librdkafka's consumer, such as those for security.
    * ``follow``: ``False`` reads the records up to the ends that the partitions have when the run begins, and ends.

    Raises ``ValueError`` at construction for an option of a wrong form, and ImportError without confluent-kafka; in the run
    InputError for a missing topic and for a value of another form.

    >>> ReadKafka("orders", bootstrap_servers="localhost:9092", start="first")
    Traceback (most recent call last):
    ValueError: start='first': choose one of 'earliest', 'latest'
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        bootstrap_servers: str,
        value: Value = "bytes",
        schema_registry: str | Mapping[str, Any] | None = None,
        schema: Any = None,
        timestamp_by: Any = None,
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        start: Start = "earliest",
        config: Mapping[str, Any] | None = None,
        follow: bool = True,
    ) -> None:
        super().__init__()
        records = Records.of(value, timestamp_by, schema, schema_registry)
        self._schema = None if records.rows is None else records.rows.schema
        self._elements = TopicRecords(
            topics,
            records,
            tuple[Any, Any] if self._schema is None else pa.RecordBatch,
            bootstrap_servers=bootstrap_servers,
            out_of_orderness=out_of_orderness,
            idle_after=idle_after,
            start=start,
            config=config,
            follow=follow,
        )

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        elements = begin | "Records" >> self._elements
        return elements if self._schema is None else as_arrow(elements, self._schema)
