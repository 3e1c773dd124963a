"""Inputs that are no files, by address: a row of :data:`INPUTS` for each system that has some.

A reader is imported when an address is its, so that the command line knows the addresses without Beam.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from beam_joins.pipelines.changelogs.spooled import InputOptions, Inputs
from beam_joins.pipelines.systems.kafka.kafka_address import kafka_address
from beam_joins.pipelines.systems.postgres.postgres_address import postgres_address


class _Kind(NamedTuple):
    """The form of addresses, what they name, and their beginnings; the class of :class:`Inputs` that commands read, by module and
    name; the reader in ``beam_joins.io`` by its name, and how an address becomes its options.
    """

    form: str
    about: str
    begins: tuple[str, ...]
    module: str
    name: str
    reader: str
    options: Callable[[str], dict[str, Any]]


class InputAddress(NamedTuple):
    """A reader in ``beam_joins.io`` by its name, and the options that an address has."""

    reader: str
    options: dict[str, Any]


def _slot(address: str) -> dict[str, Any]:
    slot = postgres_address(address)
    table = {"table": slot.table} if slot.table else {}
    return {"conninfo": slot.conninfo, "slot": slot.slot, "publication": slot.publication or None, **table}


def _topic(address: str) -> dict[str, Any]:
    topic = kafka_address(address)
    servers = topic.config.pop("bootstrap.servers")
    config = {"config": topic.config} if topic.config else {}
    return {"topics": topic.topic, "bootstrap_servers": servers, "follow": False, **topic.options, **config}


def _path(address: str) -> dict[str, Any]:
    return {"path": address.partition(":")[2]}


_SYSTEMS: Final = "beam_joins.pipelines.systems"
INPUTS: Final = (
    _Kind(
        "postgres://HOST/DATABASE?slot=NAME",
        "a table of a PostgreSQL database, by a slot that beam-joins slot makes",
        ("postgres://", "postgresql://"),
        f"{_SYSTEMS}.postgres.slot_inputs",
        "SlotInputs",
        "ReadPostgres",
        _slot,
    ),
    _Kind(
        "kafka://HOST:PORT/TOPIC?format=debezium",
        "a Kafka topic with envelopes in JSON",
        ("kafka://",),
        f"{_SYSTEMS}.kafka.topic_inputs",
        "TopicInputs",
        "ReadKafkaChangeEvents",
        _topic,
    ),
    _Kind(
        "delta:PATH",
        "a Delta table, by its Change Data Feed",
        ("delta:",),
        f"{_SYSTEMS}.delta.delta_inputs",
        "DeltaInputs",
        "ReadDelta",
        _path,
    ),
)
FORMS: Final = " ".join(f"{each.form}: {each.about}." for each in INPUTS)
"""The forms of addresses, for people."""


def is_address(path: str) -> bool:
    """Whether a path is the address of an input.

    >>> is_address("kafka://broker:9092/orders"), is_address("orders.jsonl")
    (True, False)
    """
    return any(path.startswith(kind.begins) for kind in INPUTS)


def input_at(address: str) -> InputAddress | None:
    """The reader of an address; ``None`` for a path of files. Raises InputError.

    >>> input_at("delta:s3://lake/orders"), input_at("orders/*.jsonl")
    (InputAddress(reader='ReadDelta', options={'path': 's3://lake/orders'}), None)
    """
    kind = next((kind for kind in INPUTS if address.startswith(kind.begins)), None)
    return None if kind is None else InputAddress(kind.reader, kind.options(address))


def inputs_of(options: Mapping[str, InputOptions], files: Sequence[str]) -> dict[str, Inputs]:
    """The inputs at addresses, by their names; those of one kind are one. ``files`` are the options of other inputs.

    Raises InputError.
    """
    made = dict[str, Inputs]()
    for kind in INPUTS:
        of_kind = {name: each for name, each in options.items() if each.address.startswith(kind.begins)}
        if of_kind:
            cls: Any = getattr(import_module(kind.module), kind.name)
            others = [each.option for name, each in options.items() if name not in of_kind]
            made |= dict.fromkeys(of_kind, cls.of(of_kind, [*others, *files]))
    return made
