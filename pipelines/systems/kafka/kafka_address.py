"""Addresses of Kafka topics, ``kafka://HOST:PORT/TOPIC?format=debezium``, as the commands take them."""

from collections import Counter
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from beam_joins.errors import InputError

_SCHEME: Final = "kafka://"
_OWN: Final = ("format", "table")


class KafkaAddress(NamedTuple):
    """``config`` are settings of librdkafka's consumer; ``shown`` has none of them, as some are secret."""

    topic: str
    config: dict[str, Any]
    format: str
    table: str
    shown: str


def kafka_address(address: str) -> KafkaAddress:
    """The parts of an address; all but ``format`` and ``table`` are settings of librdkafka.

    Raises InputError for a text that is no address.

    >>> kafka_address("kafka://a:9092,b:9092/shop.orders?format=debezium&security.protocol=SSL")  # doctest: +NORMALIZE_WHITESPACE
    KafkaAddress(topic='shop.orders', config={'bootstrap.servers': 'a:9092,b:9092', 'security.protocol': 'SSL'},
        format='debezium', table='', shown='kafka://a:9092,b:9092/shop.orders')
    """
    servers, _, rest = address.removeprefix(_SCHEME).partition("/")
    topic, _, query = rest.partition("?")
    if not servers or not topic or "/" in topic:
        raise InputError("the address of a topic is of the form kafka://HOST:PORT/TOPIC?format=debezium")
    settings = parse_qsl(query, keep_blank_values=True)
    named = dict(settings)
    if twice := [name for name, count in Counter(name for name, _ in settings).items() if count > 1]:
        raise InputError(f"the address of the topic says {', '.join(twice)} twice")
    if "schema_registry" in named:
        raise InputError("the commands read topics in JSON: for Avro of a schema registry use ReadKafkaChangeEvents in Python")
    config = {"bootstrap.servers": servers, **{name: value for name, value in named.items() if name not in _OWN}}
    return KafkaAddress(topic, config, named.get("format", ""), named.get("table", ""), f"{_SCHEME}{servers}/{topic}")
