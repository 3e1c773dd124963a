"""A partition of a Kafka topic as a source, over confluent-kafka, which is imported only where records are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol

from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.sources.follow import Piece, Range

_BEGINNING: Final = -2
"""What Kafka calls the first offset that is kept; every offset is larger."""
_AT_A_TIME: Final = 10_000
_WAIT_SECONDS, _ANSWER_SECONDS = 0.1, 30.0
_NOT_OURS: Final = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}


class Reading(Protocol):
    """What makes elements of records."""

    def piece(self, after: int, messages: Sequence[Any]) -> Piece:
        """The elements of these records."""


@dataclass
class Topics:
    """Partitions of topics, each named by a pair; a place is an offset.

    A consumer stays open from one visit to the next, and seeks only where it is not at the place already.
    """

    config: Mapping[str, Any]
    records: Reading
    start: str
    follow: bool
    _open: dict[tuple[str, int], tuple[Any, int]] = field(default_factory=dict)

    def range(self, element: tuple[str, int]) -> Range:
        """From the first record that is kept, or from the next one; without ``follow``, to the last one that is there."""
        earliest = self.start == "earliest"
        end = None if self.follow and earliest else end_of(*element, self.config)
        return (_BEGINNING if earliest else end), (None if self.follow else end)

    def pieces(self, element: tuple[str, int], place: int, end: int | None) -> Iterator[Piece]:
        """The records from that offset on, until none comes for a tenth of a second."""
        consumer, at = self._open.pop(element, (None, -1))
        if consumer is None:
            consumer = kafka_consumer(self.config)
        if at != place:
            consumer.assign([_partition(*element, place)])
        try:
            while end is None or place < end:
                messages, after = _sorted_out(consumer.consume(_AT_A_TIME, _WAIT_SECONDS), place, end)
                if after == place:
                    break
                place = after
                yield self.records.piece(place, messages)
        except GeneratorExit:
            self._open[element] = consumer, place
            raise
        except BaseException:
            consumer.close()
            raise
        self._open[element] = consumer, place

    def close(self) -> None:
        """Close the consumers."""
        while self._open:
            self._open.popitem()[1][0].close()


def kafka() -> Any:
    """The module confluent_kafka. Raises ImportError, which says how to install it."""
    try:
        import confluent_kafka  # noqa: PLC0415, an extra
    except ImportError:
        raise ImportError("ReadKafka needs confluent-kafka: pip install 'beam-joins[kafka]'") from None
    return confluent_kafka


def partitions_of(topic: str, config: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The partitions that a topic has. Raises InputError if there is no such topic, or no broker answers."""
    consumer = kafka_consumer(config)
    try:
        found = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    except kafka().KafkaException as error:
        raise InputError(f"no broker answers at {config['bootstrap.servers']}: {error}") from error
    finally:
        consumer.close()
    if found.error is not None:
        raise InputError(f"the topic {topic} cannot be read: {found.error.str()}")
    return [(topic, partition) for partition in sorted(found.partitions)]


def end_of(topic: str, partition: int, config: Mapping[str, Any]) -> int:
    """The offset behind the last record that a consumer with these settings is given. Raises InputError if no broker says it."""
    levels = kafka().IsolationLevel
    uncommitted = config.get("isolation.level") == "read_uncommitted"
    client = kafka_admin().AdminClient(dict(config))  # no result comes after its end
    # a consumer's get_watermark_offsets gives the end for the beginning, or the other way round, where one of its two requests has failed
    (found,) = client.list_offsets(
        {_partition(topic, partition): kafka_admin().OffsetSpec.latest()},
        isolation_level=levels.READ_UNCOMMITTED if uncommitted else levels.READ_COMMITTED,
        request_timeout=_ANSWER_SECONDS,
    ).values()
    try:
        return int(found.result(2 * _ANSWER_SECONDS).offset)
    except (kafka().KafkaException, TimeoutError) as error:
        raise InputError(f"where partition {partition} of {topic} ends is not known: {error}") from error


def kafka_admin() -> Any:
    """The module confluent_kafka.admin."""
    return import_module("confluent_kafka.admin")


def kafka_consumer(config: Mapping[str, Any]) -> Any:
    """A consumer that belongs to no group: how far it is stands in the runner's checkpoints."""
    return kafka().Consumer({"group.id": "beam_joins", **config, **_NOT_OURS})


def _partition(topic: str, partition: int, offset: int | None = None) -> Any:
    return kafka().TopicPartition(topic, partition, *(() if offset is None else (offset,)))


def _sorted_out(messages: list[Any], place: int, end: int | None) -> tuple[list[Any], int]:
    """The records among them before the end, and the place behind them. Where there are none, marks of transactions are stepped over."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            if end is None or message.offset() < end:
                records.append(message)
            place = message.offset() + 1
        elif error.code() == kafka().KafkaError._PARTITION_EOF:
            place = max(place, message.offset())
        else:
            raise kafka().KafkaException(error)
    return records, place
