"""Configuration of one command: its inputs, its help, and the names that its messages use."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beam_joins.options.join_types import How
from beam_joins.pipelines.formats.changelog_columns import flag_of

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.at_least import AtLeast
    from beam_joins.pipelines.commands.computed_columns import ComputedColumns

CHANGES: Final = "changes"
LATEST: Final = "latest"
TO: Final = "to"
LACKING: Final[dict[How, tuple[int, ...]]] = {"left": (1,), "right": (0,), "outer": (0, 1)}
"""Which of the two sides a row of the result may be without."""


class Side(NamedTuple):
    """An input: the name of its rows in messages (a plural), the prefix of its options (empty: they have none), and
    the default of its key.
    """

    name: str
    option: str
    key: str | None = None

    @property
    def path_option(self) -> str:
        """The name of the option that says where it is.

        >>> Side("orders", "orders").path_option, Side("rows", "").path_option
        ('orders', 'input')
        """
        return self.option or "input"

    def path(self, args: Namespace) -> Any:
        """The path or glob that is given."""
        return vars(args)[self.path_option]

    def dest(self, name: str) -> str:
        """Where the value of one of its options is.

        >>> Side("orders", "orders").dest("timestamp_unit"), Side("rows", "").dest("key")
        ('orders_timestamp_unit', 'key')
        """
        return f"{self.option}_{name}" if self.option else name

    def flag(self, name: str) -> str:
        """One of its options as it is written.

        >>> Side("orders", "orders").flag("timestamp_unit")
        '--orders-timestamp-unit'
        """
        return flag_of(self.option, name)

    def value_of(self, args: Namespace, name: str) -> Any:
        """The value of one of its options."""
        return vars(args)[self.dest(name)]

    def set(self, args: Namespace, name: str, value: object) -> None:
        """Give one of its options a value."""
        setattr(args, self.dest(name), value)


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A command: its inputs, one or two, its help, and how its messages and results call things.

    ``add_options`` adds options of its own; those in ``fixed`` must be the same in all incremental runs.
    ``select`` gives the columns of the result, as ``--select`` names them, ``computed`` those of a result with expressions or a
    condition, and ``keeps`` which rows of the first input are in its table (None: all). ``prepare`` sees to defaults before a run
    that stands alone.
    """

    command: str
    sides: tuple[Side, ...]
    about: str
    examples: str
    add_options: Callable[[ArgumentParser], None]
    select: Callable[[Namespace], str]
    fixed: tuple[str, ...]
    computed: Callable[[Namespace], "ComputedColumns | None"] = lambda args: None
    keeps: Callable[[Namespace], "AtLeast | None"] = lambda args: None
    prepare: Callable[[Namespace], None] = lambda args: None
    without_path: str = ""
    without_results: tuple[str, str] = ("", "")
    """The remarks of the help on inputs, and on results, whose paths are not given."""
    match: str = "a match"
    no_match: str = "no left row would find a right one"
    unreferring: str = "left rows that refer to no right row"
    rename: str = "give it another name in --select"
    results: tuple[str, str] = ("changes of the result", "rows in the final table")
    """The names of the changelog and of the final rows in the summary."""
    shown_rows: int = 0
    """The number of final rows below the summary, where they are in a file of JSON lines."""
    records: tuple[str, str] = ("Row", "Nested")
    """The names of the Avro types of a row of the result, and of a row within it."""

    def selected(self, args: Namespace) -> str:
        """The columns that the rows of inputs give: those of the result, or of which it is computed. Raises InputError."""
        computed = self.computed(args)
        return self.select(args) if computed is None else computed.select
