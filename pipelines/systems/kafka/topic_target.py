"""A topic that a table is written to, and its runs, each in one transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beam_joins.errors import InputError
from beam_joins.pipelines.results.merge_once import MergedRun
from beam_joins.pipelines.results.run_mark import Mark, NotAsLeft
from beam_joins.pipelines.systems.kafka.schema_registry import SchemaRegistry
from beam_joins.pipelines.systems.kafka.topic_messages import TopicMessages
from beam_joins.pipelines.systems.kafka.topic_producer import Numbers, TopicProducer, last_run
from beam_joins.pipelines.systems.kafka.topics import NoTopic, create_topic, identity_of, partitions_of


@dataclass(frozen=True)
class TopicTarget:
    """A topic, the settings of its producer, the number of partitions that it has to have, and the registry of its schemas."""

    topic: str
    config: Mapping[str, Any]
    partitions: int | None
    registry: Mapping[str, Any] | None

    @property
    def path(self) -> str:
        """The name of the topic in sentences."""
        return f"the topic {self.topic} of {self.config['bootstrap.servers']}"

    def described(self, *, compacted: bool) -> Mark:
        """The identity of the topic and the number of its partitions; it is created if it is missing, and a number is given.

        Raises InputError for a topic that is missing, or has another number of partitions.
        """
        try:
            count = len(partitions_of(self.topic, self.config, "written"))
        except NoTopic as error:
            if self.partitions is None:
                raise InputError(f"{error}: create it, or give partitions= to have it created") from None
            create_topic(self.topic, self.partitions, self.config, compacted=compacted)
            count = self.partitions
        if self.partitions not in (None, count):
            raise InputError(f"{self.path} has {count} partitions, and partitions={self.partitions}: give the number that it has")
        return {"id": identity_of(self.topic, self.config), "partitions": count}

    def exists(self) -> bool:
        """Whether the topic is there. Raises InputError if that cannot be told."""
        try:
            return bool(partitions_of(self.topic, self.config, "written"))
        except NoTopic:
            return False

    def require_left(self, now: Mark, last: Mark | None) -> None:
        """Raises NotAsLeft for a topic that is not the one of the ``last`` run, or has another number of partitions."""
        if last is None:
            return
        if "" not in (last["id"], now["id"]) and last["id"] != now["id"]:
            raise NotAsLeft(self.path, "it has been made anew")
        if last["partitions"] != now["partitions"]:
            had = f"it has {now['partitions']} partitions, and had {last['partitions']}"
            raise NotAsLeft(self.path, f"{had}: records of one key would be in two of them")

    def producer(self, messages: TopicMessages, now: Mark, *, transactional_id: str | None = None) -> TopicProducer:
        """A producer of messages to the topic as it is ``now``, whose schemas are registered.

        Raises OutputError if the registry does not take them, and InputError for settings that librdkafka does not take.
        """
        schemas = {"key": messages.key_schema, "value": messages.value_schema}
        registry = None if self.registry is None else SchemaRegistry(self.registry)
        numbers = (
            None if schema is None or registry is None else registry.register(f"{self.topic}-{name}", schema)
            for name, schema in schemas.items()
        )
        config = self.config if transactional_id is None else {"transactional.id": transactional_id, **self.config}
        return TopicProducer(self.topic, now["partitions"], config, Numbers.of(*numbers), tombstones=messages.has_tombstones)


@dataclass(frozen=True)
class TopicRun:
    """The messages of a run, which one process writes in one transaction."""

    target: TopicTarget
    messages: TopicMessages
    application: str
    number: int
    anew: bool

    def write(self, checksum: int, into: Callable[[TopicProducer], None], last: Mark | None, *, is_empty: bool) -> tuple[int, Mark]:
        """Write messages, unless this run has done so; gives the number of records, and the mark of the run. ``into`` writes them to
        a producer. Raises NotAsLeft for a topic that is not as the ``last`` run has left it.
        """
        target, group = self.target, f"beam_joins.{self.application}"
        now = target.described(compacted=self.messages.upserts)
        target.require_left(now, last)
        producer = target.producer(self.messages, now, transactional_id=f"{group}.{target.topic}")
        producer.take_over()
        number, before = last_run(target.topic, target.config, group)
        # brokers forget numbers, after a week
        number = last["run"] if number is None and last is not None else number
        run = MergedRun(self.application, self.number, checksum, self.anew, last)
        if not run.is_done(target.path, number, before) and not is_empty:
            with producer.transaction(group, self.number, str(checksum)):
                into(producer)
            number = self.number
        return producer.records, {**now, "run": number}
