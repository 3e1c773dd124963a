"""Produces the messages of a table to a topic: those of a run in one transaction, which counts once, or as they come."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.errors import InputError, OutputError, Unavailable
from beam_joins.pipelines.systems.kafka.registered_avro import NUMBERED
from beam_joins.pipelines.systems.kafka.topics import SILENT, admin, configured, kafka

_DEFAULTS: Final = {
    **SILENT,
    "partitioner": "murmur2_random",  # Java's, so that records are where Kafka Streams and Connect look for them
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    "delivery.report.only.error": True,
    # the longest that brokers allow by default
    "transaction.timeout.ms": 900_000,
}
_ANY_PARTITION: Final = -1
_NOW: Final = 0
_POLL_EACH: Final = 1_000
_REMEDIES: Final = {
    "TOPIC_AUTHORIZATION_FAILED": "let the user that config= names write to the topic",
    "GROUP_AUTHORIZATION_FAILED": "let the user that config= names read the consumer group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED": "let the user that config= names write transactions",
    "MSG_SIZE_TOO_LARGE": "give the topic a larger max.message.bytes, and config= a larger message.max.bytes",
    "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH": "another run of this application has begun to write: let one run at a time",
    "INVALID_TRANSACTION_TIMEOUT": "give config= a transaction.timeout.ms that is at most the brokers' transaction.max.timeout.ms",
    "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION": "the topic is not there any more: create it",
}
"""What to do on errors, by the names of their codes in librdkafka."""
_SECONDS: Final = 60.0
"""The longest wait for the broker's answer at the begin and at the end of a transaction, and for the last records."""


class Numbers(NamedTuple):
    """The bytes before keys and values in Avro, the numbers of their schemas; empty in other formats."""

    key: bytes = b""
    value: bytes = b""

    @classmethod
    def of(cls, key: int | None, value: int | None) -> "Numbers":
        """Those of schemas with these numbers."""
        return cls(*(b"" if number is None else NUMBERED + number.to_bytes(4, "big") for number in (key, value)))


class TopicProducer:
    """A producer of messages to a topic of so many partitions; ``config`` are settings of librdkafka's producer.

    ``tombstones``: behind a delete whose value is not null comes a tombstone, so that the topic can be compacted.
    """

    def __init__(self, topic: str, partitions: int, config: Mapping[str, Any], numbers: Numbers, *, tombstones: bool) -> None:
        """Raises InputError for settings that librdkafka does not take."""
        self._config = config
        self._topic, self._partitions, self._numbers, self._tombstones = topic, partitions, numbers, tombstones
        self._failed: Any = None
        self.records = 0
        """The number of records so far."""
        with configured("a producer"):
            self._producer = kafka().Producer({**_DEFAULTS, **config})

    def write(self, messages: pa.Array) -> None:
        """Produce messages; one without a key goes to all partitions. Raises OutputError for one that the topic does not take."""
        with self._saying():
            for key, value, micros, position, deleted in zip(*(column.to_pylist() for column in messages.flatten()), strict=True):
                headers = [("position", b"%d" % position)] if position is not None else []
                headers += [("timestamp", b"%d" % micros)] if micros is not None else []
                # Kafka has no times before 1970, and takes 0 for none
                millis = _NOW if micros is None else max(micros // 1_000, 1)
                values = [None if value is None else self._numbers.value + value, *([None] if deleted and self._tombstones else [])]
                partitions = range(self._partitions) if key is None else (_ANY_PARTITION,)
                whole_key = None if key is None else self._numbers.key + key
                for each in values:
                    for partition in partitions:
                        self._put(each, whole_key, partition, millis, headers)

    def close(self) -> None:
        """Do nothing: records are delivered by :meth:`flush`, or by the end of their transaction."""

    def flush(self) -> None:
        """Wait until all records are delivered. Raises OutputError, and Unavailable if a broker takes none for too long."""
        with self._saying():
            left = self._producer.flush(_SECONDS)
            self._require_delivered()
        if left:
            raise Unavailable(
                f"cannot write to the topic {self._topic}: the broker has not taken {left:,} records in {_SECONDS:.0f} s"
            )

    def take_over(self) -> None:
        """End what an earlier producer of the same transactional id has left open: nothing of it counts."""
        with self._saying():
            self._repeated(lambda: self._producer.init_transactions(_SECONDS))

    @contextmanager
    def transaction(self, group: str, run: int, remark: str) -> Iterator[None]:
        """The records of the block are one transaction, in which the number of the run becomes the offset of a consumer group."""
        client, told = kafka(), False
        with self._saying():
            self._producer.begin_transaction()
            try:
                yield
                consumer = client.Consumer({**SILENT, **self._config, "group.id": group})
                try:
                    place = client.TopicPartition(self._topic, 0, run, remark)
                    of_group = consumer.consumer_group_metadata()
                    self._repeated(lambda: self._producer.send_offsets_to_transaction([place], of_group, _SECONDS))
                finally:
                    consumer.close()
                told = True
                self._repeated(self._producer.commit_transaction)
            except BaseException as error:
                if not told or _is_abortable(error):
                    self._abort()
                self._require_delivered()  # which says why records are not in the transaction
                raise

    def _abort(self) -> None:
        with suppress(kafka().KafkaException):  # what is left open, the next producer ends
            self._producer.abort_transaction(_SECONDS)

    def _repeated(self, call: Callable[[], None]) -> None:
        """Calls what may be repeated, until it succeeds, or a minute has passed."""
        until = time.monotonic() + _SECONDS
        while True:
            try:
                return call()
            except kafka().KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    def _put(self, value: bytes | None, key: bytes | None, partition: int, millis: int, headers: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                about: dict[str, Any] = {"on_delivery": self._delivered, "timestamp": millis, "headers": headers}
                self._producer.produce(self._topic, value, key, partition, **about)
                break
            except BufferError:  # the queue is full
                self._producer.poll(1)
                self._require_delivered()
        self.records += 1
        if not self.records % _POLL_EACH:
            self._producer.poll(0)
            self._require_delivered()

    def _delivered(self, error: Any, message: Any) -> None:
        self._failed = self._failed or error

    def _require_delivered(self) -> None:
        if self._failed is not None:
            raise kafka().KafkaException(self._failed)

    @contextmanager
    def _saying(self) -> Iterator[None]:
        try:
            yield
        except kafka().KafkaException as error:
            raise said(error, f"cannot write to the topic {self._topic}") from error


def last_run(topic: str, config: Mapping[str, Any], group: str) -> tuple[int | None, int | None]:
    """The number and the checksum of the last run that is committed, as a group has them; ``None`` where it has none."""
    client = kafka()
    asked = client.ConsumerGroupTopicPartitions(group, [client.TopicPartition(topic, 0)])
    asking = admin(config)  # no result comes after its end
    (answer,) = asking.list_consumer_group_offsets([asked], require_stable=True, request_timeout=_SECONDS).values()
    try:
        (place,) = answer.result(2 * _SECONDS).topic_partitions
    except client.KafkaException as error:
        raise said(error, f"cannot see what the topic {topic} has of {group}") from error
    checksum = place.metadata or ""
    return (None, None) if place.offset < 0 else (place.offset, int(checksum) if checksum.isdecimal() else None)


def said(error: Any, what: str) -> InputError:
    """An error of librdkafka as a sentence that says what to do."""
    reported, code = error.args[0], kafka().KafkaError
    text = reported.str().rstrip(".")
    for names, remedy in _REMEDIES.items():
        if any(reported.code() == getattr(code, name) for name in names.split()):
            return OutputError(f"{what} ({text}): {remedy}")
    absent = [getattr(code, name) for name in ("_TIMED_OUT", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")]
    if reported.retriable() or reported.code() in absent:
        return Unavailable(f"{what} ({text}): see that the broker runs, and run again")
    return OutputError(f"{what} ({text})")


def _is_abortable(error: BaseException) -> bool:
    return isinstance(error, kafka().KafkaException) and bool(error.args[0].txn_requires_abort())
