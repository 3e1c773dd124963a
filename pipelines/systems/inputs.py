"""The inputs of commands that are no files, by address: a row of :data:`INPUTS` for each reader that takes one.

A reader is imported when an address is its, so that the command line knows the addresses without Beam.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from beam_joins.pipelines.changelogs.spooled import InputOptions, Inputs


class _Kind(NamedTuple):
    """A class of :class:`Inputs` by module and name; the form of its addresses, what they name, and their beginnings."""

    form: str
    about: str
    begins: tuple[str, ...]
    module: str
    name: str


_SYSTEMS: Final = "beam_joins.pipelines.systems"
INPUTS: Final = (
    _Kind(
        "postgres://HOST/DATABASE?slot=NAME",
        "a table of a PostgreSQL database, by a slot that beam-joins slot makes",
        ("postgres://", "postgresql://"),
        f"{_SYSTEMS}.postgres.slot_inputs",
        "SlotInputs",
    ),
    _Kind(
        "kafka://HOST:PORT/TOPIC?format=debezium",
        "a Kafka topic with envelopes in JSON",
        ("kafka://",),
        f"{_SYSTEMS}.kafka.topic_inputs",
        "TopicInputs",
    ),
    _Kind("delta:PATH", "a Delta table, by its Change Data Feed", ("delta:",), f"{_SYSTEMS}.delta.delta_inputs", "DeltaInputs"),
)
FORMS: Final = " ".join(f"{each.form}: {each.about}." for each in INPUTS)
"""The forms of addresses, for people."""


def is_address(path: str) -> bool:
    """Whether a path is the address of an input.

    >>> is_address("kafka://broker:9092/orders"), is_address("orders.jsonl")
    (True, False)
    """
    return any(path.startswith(kind.begins) for kind in INPUTS)


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
