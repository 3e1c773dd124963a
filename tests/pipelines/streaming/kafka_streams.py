"""Kafka Streams, and the partitioner of Java's producer, in a JVM of their own that py4j drives."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, get_field, launch_gateway

_STORE = "rows"


class KafkaStreams:
    """Kafka Streams with the brokers of an address; its stores are in a folder."""

    def __init__(self, gateway: JavaGateway, address: str, folder: Path) -> None:
        self._gateway, self._address, self._folder = gateway, address, folder
        self._kafka = gateway.jvm.org.apache.kafka

    @classmethod
    @contextmanager
    def started(cls, java: Path, jars: list[Path], address: str, folder: Path) -> Iterator["KafkaStreams"]:
        class_path = os.pathsep.join(map(str, jars))
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        port, token = launch_gateway(
            classpath=class_path, javaopts=options, java_path=str(java), die_on_exit=True, enable_auth=True, use_shell=False
        )[:2]
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        try:
            yield cls(gateway, address, folder)
        finally:
            gateway.shutdown()

    def partition(self, key: bytes, partitions: int) -> int:
        """The partition to which Java's producer sends records with a key."""
        return int(self._kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey(key, partitions))

    @contextmanager
    def table(self, topic: str) -> Iterator["KTable"]:
        """The topic as a KTable of texts."""
        streams = self._kafka.streams
        properties = self._gateway.jvm.java.util.Properties()
        settings = {"application.id": f"table-of-{topic}", "bootstrap.servers": self._address, "state.dir": str(self._folder)}
        reading = {"consumer.auto.offset.reset": "earliest", "consumer.isolation.level": "read_committed"}
        for name, value in (settings | reading | {"statestore.cache.max.bytes": "0"}).items():
            properties.put(name, value)
        builder, texts = streams.StreamsBuilder(), self._kafka.common.serialization.Serdes.String()
        stored = getattr(streams.kstream.Materialized, "as")(_STORE)
        builder.table(topic, getattr(streams.kstream.Consumed, "with")(texts, texts), stored)
        started = streams.KafkaStreams(builder.build(), properties)
        started.start()
        try:
            yield KTable(streams, started)
        finally:
            started.close()


class KTable:
    """A KTable whose rows are in a store."""

    def __init__(self, streams: Any, started: JavaObject) -> None:
        self._streams, self._started = streams, started

    def rows(self) -> dict[str, str] | None:
        """The values by their keys; ``None`` before the table is there."""
        if self._started.state().toString() != "RUNNING":
            return None
        kind = self._streams.state.QueryableStoreTypes.keyValueStore()
        store = self._started.store(self._streams.StoreQueryParameters.fromNameAndType(_STORE, kind))
        rows, read = store.all(), dict[str, str]()
        try:
            while rows.hasNext():
                row = rows.next()
                read[get_field(row, "key")] = get_field(row, "value")
        finally:
            rows.close()
        return read
