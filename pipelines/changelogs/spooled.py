"""The inputs of a command that are no files: a run spools their new changes into files, which it reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable
    from beam_joins.pipelines.formats.changelog_columns import Envelopes
    from beam_joins.pipelines.formats.file_parts import File
    from beam_joins.transforms.connect.runs import StateFolder


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
