"""Kafka topics as inputs of a command: ``--left 'kafka://HOST:PORT/TOPIC?format=debezium'``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.spooled import InputOptions, Spooled
from beam_joins.pipelines.systems.kafka.kafka_address import KafkaAddress, kafka_address

if TYPE_CHECKING:
    from beam_joins.pipelines.formats.changelog_columns import Envelopes
    from beam_joins.transforms.connect.runs import StateFolder


class TopicInputs(NamedTuple):
    """The inputs that are topics: :class:`~beam_joins.pipelines.changelogs.spooled.Inputs`."""

    topics: Mapping[str, KafkaAddress]
    options: Mapping[str, Mapping[str, str]]
    named: Mapping[str, str]
    """The options that name them."""
    noun: str = "topic"
    elements: str = "records"

    @classmethod
    def of(cls, inputs: Mapping[str, InputOptions], others: Sequence[str]) -> "TopicInputs":
        """The inputs with these addresses. Raises InputError for an address that is none or does not say the envelopes, and for
        one topic with two brokers or settings.
        """
        topics, options = dict[str, KafkaAddress](), dict[str, Mapping[str, str]]()
        for name, each in inputs.items():
            address = kafka_address(each.address)
            format_ = each.format or address.options.get("format")
            if format_ not in ("debezium", "maxwell"):
                raise InputError(f"{each.option}: give the envelopes of the topic: ?format=debezium or ?format=maxwell in the address")
            if any(address.topic == other.topic and address.config != other.config for other in topics.values()):
                raise InputError(
                    f"the topic {address.topic} is read from two brokers, or with two settings: give both sides one address"
                )
            topics[name], options[name] = address, {"format": format_, "table": each.table or address.options.get("table", "")}
        return cls(topics, options, {name: each.option for name, each in inputs.items()})

    @property
    def shown(self) -> Mapping[str, str]:
        """The addresses without settings, some of them secrets."""
        return {name: each.shown for name, each in self.topics.items()}

    @property
    def sources(self) -> Mapping[str, str]:
        """The topic of each input."""
        return {name: each.topic for name, each in self.topics.items()}

    def read(self, envelopes: "Mapping[str, Envelopes]", state: "StateFolder | None", folder: str, most_rows: int | None) -> Spooled:
        """The new records since the last run; without a state all records. Raises InputError, and ImportError without
        confluent-kafka.
        """
        from beam_joins.pipelines.changelogs.changelog_files import find_files  # noqa: PLC0415  # with Beam
        from beam_joins.pipelines.systems.kafka.topic_rounds import read_topic, read_topic_in_run  # noqa: PLC0415

        rounds = {
            topic: read_topic(topic, config, {}, folder, most_rows) if state is None else read_topic_in_run(topic, config, state)
            for topic, config in {each.topic: each.config for each in self.topics.values()}.items()
        }
        files = {}
        for name, topic in self.sources.items():
            read = rounds[topic]
            if state is None and not read.records:
                raise InputError(f"{self.named[name]}: the topic {topic} has no records")
            spooled = find_files(name, read.pattern, envelopes[name]) if read.records else ()
            files[name] = [replace(file, shown=f"topic {topic}") for file in spooled]
        remarks = [f"topic {topic}: {counted(read.records, 'record')}" for topic, read in rounds.items() if read.records]
        return Spooled(files, {}, remarks)

    def forget(self, name: str, read: dict[str, Any]) -> None:
        """Have a topic be read from its beginning; ``read`` is the progress of the inputs of a state."""
        read.pop(f"topic {self.sources[name]}", None)
