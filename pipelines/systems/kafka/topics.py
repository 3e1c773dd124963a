"""A partition of a Kafka topic as a source, over confluent-kafka, which is imported only where records are
read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol

from beam_joins.errors import InputError, Unavailable
from beam_joins.extras import needs
from beam_joins.pipelines.changelogs.source_reads import Range, ReadPiece
from beam_joins.transforms.connect.checks import text

_BEGINNING: Final = -2
"""Kafka's number for the first offset that is kept; every offset is larger."""
_AT_A_TIME: Final = 10_000
_WAIT_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 8.0
"""The longest wait for the first answer of a broker, in seconds."""
SILENT: Final[Mapping[str, Any]] = {"log_level": 0}
"""librdkafka writes each attempt to connect to the standard error."""
_NOT_OURS: Final = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}


class TopicReading(Protocol):
    """Converts records to elements."""

    def piece(self, after: int, messages: Sequence[Any]) -> ReadPiece:
        """The elements of these records."""


@dataclass
class Topics:
    """A source of topics' partitions, each a pair of topic and number; a place is an offset.

    A consumer stays open from one visit to the next, and seeks only where it is not at the place already.
    """

    config: Mapping[str, Any]
    records: TopicReading
    start: str
    follow: bool
    _open: dict[tuple[str, int], tuple[Any, int]] = field(default_factory=dict)

    def range(self, element: tuple[str, int]) -> Range:
        """From the first retained record, or from the next one; without ``follow`` to the last existing one."""
        end = end_of(
            *element, self.config
        )  # also asked where it is not needed: the broker that leads the partition may not be reachable
        return (_BEGINNING if self.start == "earliest" else end), (None if self.follow else end)

    def pieces(self, element: tuple[str, int], place: int, end: int | None) -> Iterator[ReadPiece]:
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


def client_settings(bootstrap_servers: str, config: Mapping[str, Any] | None, client: str) -> dict[str, Any]:
    """The settings of a client of librdkafka, from the options that readers and writers have. Raises ``ValueError``."""
    text("bootstrap_servers", bootstrap_servers, "HOST:PORT, several with commas between")
    if not (config is None or isinstance(config, Mapping)) or not all(isinstance(name, str) for name in config or ()):
        raise ValueError(f"config={config!r}: give settings of librdkafka's {client} by their names, or None")
    return {**(config or {}), "bootstrap.servers": bootstrap_servers}


def kafka() -> Any:
    """The module confluent_kafka. Raises MissingExtra."""
    with needs("kafka"):
        import confluent_kafka  # noqa: PLC0415, an extra
    return confluent_kafka


class NoTopic(InputError):
    """A topic that is not there."""


def partitions_of(topic: str, config: Mapping[str, Any], to: str = "read") -> list[tuple[str, int]]:
    """The partitions that a topic has. Raises NoTopic, InputError if it cannot be seen, and Unavailable if no broker answers."""
    reasons: list[Any] = []
    consumer = kafka_consumer({**SILENT, "error_cb": reasons.append, **config})
    try:
        metadata = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    except kafka().KafkaException as error:
        consumer.poll(0)  # which calls error_cb
        raise _unreachable(config, f"which partitions {topic} has", reasons or error.args) from None
    finally:
        consumer.close()
    if metadata.error is not None:
        absent = metadata.error.code() == kafka().KafkaError.UNKNOWN_TOPIC_OR_PART
        kind = Unavailable if metadata.error.retriable() and not absent else NoTopic if absent else InputError
        raise kind(f"the topic {topic} cannot be {to}: {metadata.error.str()}")
    return [(topic, partition) for partition in sorted(metadata.partitions)]


def identity_of(topic: str, config: Mapping[str, Any]) -> str:
    """The id of a topic, which changes when the topic is deleted and made anew; empty where brokers have none."""
    client = admin(config)
    (described,) = client.describe_topics(kafka().TopicCollection([topic]), request_timeout=_ANSWER_SECONDS).values()
    try:
        identity = described.result(2 * _ANSWER_SECONDS).topic_id
    except (kafka().KafkaException, TimeoutError):  # an older broker; where none answers, the reading says so
        return ""
    return "" if identity is None or not identity.get_most_significant_bits() else str(identity)


def create_topic(topic: str, partitions: int, config: Mapping[str, Any], *, compacted: bool) -> None:
    """Create a topic, unless another process has just done so. Raises InputError if the brokers do not allow it."""
    settings = {"cleanup.policy": "compact"} if compacted else {}
    client = admin(config)  # no result comes after its end
    (made,) = client.create_topics([kafka_admin().NewTopic(topic, partitions, config=settings)]).values()
    try:
        made.result(2 * _ANSWER_SECONDS)
    except kafka().KafkaException as error:
        if error.args[0].code() != kafka().KafkaError.TOPIC_ALREADY_EXISTS:
            raise InputError(f"the topic {topic} is missing and cannot be created: {error.args[0].str()}") from error


def end_of(topic: str, partition: int, config: Mapping[str, Any]) -> int:
    """The offset after the last record that a consumer with these settings receives.

    Raises Unavailable if no broker says it.
    """
    levels = kafka().IsolationLevel
    uncommitted = config.get("isolation.level") == "read_uncommitted"
    reasons: list[Any] = []
    client = admin({"error_cb": reasons.append, **config})  # no result comes after its end
    # a consumer's get_watermark_offsets gives the end for the beginning, or the other way round, where one of
    # its two requests has failed
    (offset,) = client.list_offsets(
        {_partition(topic, partition): kafka_admin().OffsetSpec.latest()},
        isolation_level=levels.READ_UNCOMMITTED if uncommitted else levels.READ_COMMITTED,
        request_timeout=_ANSWER_SECONDS,
    ).values()
    try:
        return int(offset.result(2 * _ANSWER_SECONDS).offset)
    except (kafka().KafkaException, TimeoutError) as error:
        client.poll(0)
        raise _unreachable(config, f"where partition {partition} of {topic} ends", reasons or error.args) from None


def kafka_admin() -> Any:
    """The module confluent_kafka.admin."""
    kafka()
    return import_module("confluent_kafka.admin")


def kafka_consumer(config: Mapping[str, Any]) -> Any:
    """A consumer without a group: its progress is in the runner's checkpoints."""
    with configured():
        return kafka().Consumer({"group.id": "beam_joins", **config, **_NOT_OURS})


def admin(config: Mapping[str, Any]) -> Any:
    """A client for what is about topics and groups. Raises InputError for settings that librdkafka does not take."""
    with configured():
        return kafka_admin().AdminClient({**SILENT, **config})


@contextmanager
def configured(client: str = "a consumer") -> Iterator[None]:
    """Within the block an error of librdkafka is an InputError on the configuration of a client."""
    try:
        yield
    except (kafka().KafkaException, TypeError, ValueError) as error:
        raise InputError(f"config= is no configuration of {client}: {reason(error.args)}") from None


def _unreachable(config: Mapping[str, Any], what: str, reasons: Sequence[Any]) -> Unavailable:
    """The error for a broker that does not answer, with the most useful reason."""
    return Unavailable(
        f"no Kafka broker at {config['bootstrap.servers']} says {what} ({reason(reasons)}):"
        " see that it runs, that its address and the security settings are right, and that the workers reach it"
    )


def reason(reasons: Sequence[Any]) -> str:
    """The first of the texts of errors that says something."""
    texts = [" ".join((each.str() if isinstance(each, kafka().KafkaError) else str(each)).split()) for each in reasons]
    return next(filter(None, texts), "no answer").partition(" (after ")[0]


def _partition(topic: str, partition: int, offset: int | None = None) -> Any:
    return kafka().TopicPartition(topic, partition, *(() if offset is None else (offset,)))


def _sorted_out(messages: list[Any], place: int, end: int | None) -> tuple[list[Any], int]:
    """The records before the end, and the place after them.

    Where there are none, marks of transactions are stepped over.
    """
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
