"""Addresses of Kafka topics, ``kafka://HOST:PORT/TOPIC?format=debezium``, as the commands take them: of inputs and of targets."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from beam_joins.errors import InputError

_SCHEME: Final = "kafka://"
_OF_INPUTS: Final = ("format", "table")


class KafkaAddress(NamedTuple):
    """``options`` are those of the reader or writer, and ``config`` settings of librdkafka; ``shown`` has none of these, as some are
    secret.
    """

    topic: str
    config: dict[str, Any]
    options: dict[str, str]
    shown: str


def kafka_address(address: str, options: Sequence[str] = _OF_INPUTS) -> KafkaAddress:
    """The parts of an address; all parameters but these ``options`` are settings of librdkafka.

    Raises InputError for a text that is no address.

    >>> kafka_address("kafka://a:9092,b:9092/shop.orders?format=debezium&security.protocol=SSL")  # doctest: +NORMALIZE_WHITESPACE
    KafkaAddress(topic='shop.orders', config={'bootstrap.servers': 'a:9092,b:9092', 'security.protocol': 'SSL'},
        options={'format': 'debezium'}, shown='kafka://a:9092,b:9092/shop.orders')
    """
    servers, _, rest = address.removeprefix(_SCHEME).partition("/")
    topic, _, query = rest.partition("?")
    if not servers or not topic or "/" in topic:
        raise InputError("the address of a topic is of the form kafka://HOST:PORT/TOPIC?format=debezium")
    settings = parse_qsl(query, keep_blank_values=True)
    named = dict(settings)
    if twice := [name for name, count in Counter(name for name, _ in settings).items() if count > 1]:
        raise InputError(f"the address of the topic says {', '.join(twice)} twice")
    if "schema_registry" in named and "schema_registry" not in options:
        raise InputError("the commands read topics in JSON: for Avro of a schema registry use ReadKafkaChangeEvents in Python")
    config = {"bootstrap.servers": servers, **{name: value for name, value in named.items() if name not in options}}
    given = {name: named[name] for name in options if named.get(name)}
    return KafkaAddress(topic, config, given, f"{_SCHEME}{servers}/{topic}")
