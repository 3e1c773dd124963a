"""The inputs of commands that are no files, by address: a row of :data:`INPUTS` for each reader that takes one.

A reader is imported when an address is its, so that the command line knows the addresses without Beam.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable
    from beam_joins.pipelines.formats.changelog_columns import Envelopes
    from beam_joins.pipelines.formats.file_parts import File
    from beam_joins.transforms.connect import StateFolder


class InputOptions(NamedTuple):
    """The options of the command line for an input: its address, the option ``--left`` that names it, its format and
    table (empty: absent), and the spelling of its other options.
    """

    address: str
    option: str
    format: str
    table: str
    flag: Callable[[str], str]


class Spooled(NamedTuple):
    """The new changes since the last run: the files that have them, by the names of the inputs; the tables that a
    database describes, likewise; and the remarks of the summary, none where a run has nothing to do.
    """

    files: "Mapping[str, Sequence[File]]"
    tables: "Mapping[str, DatabaseTable]"
    remarks: Sequence[str]


class Inputs(Protocol):
    """The inputs of one kind in a command, by their names, which are read together.

    ``shown`` are their addresses without secrets, ``options`` the values of other options that an address has, and
    ``sources`` the tables or topics that are read, as ``noun`` says; ``elements`` is the name of their elements.
    """

    noun: str
    elements: str
    shown: Mapping[str, str]
    options: Mapping[str, Mapping[str, str]]
    sources: Mapping[str, str]

    @classmethod
    def of(cls, inputs: Mapping[str, InputOptions], others: Sequence[str]) -> "Inputs":
        """The inputs with these addresses; ``others`` are the options of the command's other inputs. Raises InputError."""

    def read(self, envelopes: "Mapping[str, Envelopes]", state: "StateFolder | None", folder: str, most_rows: int | None) -> Spooled:
        """The new changes since the last run with this state; without a state all that exist, of a source at most
        about ``most_rows``. They are spooled below ``folder``. Raises InputError.
        """

    def forget(self, name: str, read: dict[str, Any]) -> None:
        """Have the source of an input be read from its beginning; ``read`` is the progress of the inputs of a state."""


class _Kind(NamedTuple):
    """A class of :class:`Inputs` by module and name; the form of its addresses, what they name, and their beginnings."""

    form: str
    about: str
    begins: tuple[str, ...]
    module: str
    name: str


_SOURCES: Final = "beam_joins.pipelines.io.sources"
INPUTS: Final = (
    _Kind(
        "postgres://HOST/DATABASE?slot=NAME",
        "a table of a PostgreSQL database, by a slot that beam-joins slot makes",
        ("postgres://", "postgresql://"),
        f"{_SOURCES}.slot_inputs",
        "SlotInputs",
    ),
    _Kind(
        "kafka://HOST:PORT/TOPIC?format=debezium",
        "a Kafka topic with envelopes in JSON",
        ("kafka://",),
        f"{_SOURCES}.topic_inputs",
        "TopicInputs",
    ),
    _Kind("delta:PATH", "a Delta table, by its Change Data Feed", ("delta:",), f"{_SOURCES}.delta_inputs", "DeltaInputs"),
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
