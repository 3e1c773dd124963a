"""Inputs that are Kafka topics: ``--left 'kafka://HOST:PORT/TOPIC?format=debezium'``."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from beam_joins.errors import InputError
from beam_joins.pipelines.base.kafka_address import KafkaAddress, is_kafka, kafka_address
from beam_joins.pipelines.commands.command_spec import Names

if TYPE_CHECKING:
    from beam_joins.pipelines.io.sources.topic_rounds import TopicRound
    from beam_joins.transforms.connect import StateFolder


def take_topics(names: Names, args: Namespace) -> None:
    """Have the sides whose path is the address of a topic read envelopes; the path is then the address without
    secrets.

    Raises InputError for an address that is none or does not say the envelopes, and for one topic with two
    brokers or settings.
    """
    topics: dict[str, KafkaAddress] = {}
    for side in names.sides:
        if not is_kafka(side.path(args)):
            continue
        address = kafka_address(side.path(args))
        format_ = side.value_of(args, "format") or address.format
        if format_ not in ("debezium", "maxwell"):
            raise InputError(
                f"--{side.path_option}: give the envelopes of the topic: ?format=debezium or ?format=maxwell in the address"
            )
        side.set(args, "format", format_)
        side.set(args, "table", side.value_of(args, "table") or address.table)
        setattr(args, side.path_option, address.shown)
        if any(address.topic == other.topic and address.config != other.config for other in topics.values()):
            raise InputError(f"the topic {address.topic} is read from two brokers, or with two settings: give both sides one address")
        topics[side.name] = address
    args.topics = topics


def rounds_in_run(topics: Mapping[str, KafkaAddress], state: "StateFolder") -> "dict[str, TopicRound]":
    """What has come for each side since the last run. Raises InputError, and ImportError without confluent-kafka."""
    if not topics:
        return {}
    from beam_joins.pipelines.io.sources.topic_rounds import read_topic_in_run

    return _once_each(topics, lambda address: read_topic_in_run(address.topic, address.config, state))


def _once_each(topics: Mapping[str, KafkaAddress], read: "Callable[[KafkaAddress], TopicRound]") -> "dict[str, TopicRound]":
    """What is read for each side; a topic of both is read once."""
    rounds = {address.topic: read(address) for address in {address.topic: address for address in topics.values()}.values()}
    return {side: rounds[address.topic] for side, address in topics.items()}


@contextmanager
def topic_records(names: Names, args: Namespace, most_records: int | None = None) -> Iterator[None]:
    """The records of the topics lie in files while the block runs."""
    if not args.topics:
        yield
        return
    from beam_joins.pipelines.io.sources.topic_rounds import read_topic

    with TemporaryDirectory(prefix="beam-joins-topic-") as folder:
        rounds = _once_each(args.topics, lambda address: read_topic(address.topic, address.config, {}, folder, most_records))
        for side in names.sides:
            if side.name in rounds:
                if not rounds[side.name].records:
                    raise InputError(f"--{side.path_option}: the topic {args.topics[side.name].topic} has no records")
                setattr(args, side.path_option, rounds[side.name].pattern)
        yield
