"""``--group-by`` and ``--aggregate``: the rows of the result by group, and the aggregates of each group."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self, get_args

from beam_joins.errors import InputError
from beam_joins.options.aggregate_types import AggregateName, Kept
from beam_joins.pipelines.commands.reader_options import names_in
from beam_joins.pipelines.formats.csv_schema import items_of, unquoted

if TYPE_CHECKING:
    from beam_joins.functions.aggregate_functions import Aggregate

GROUP_OPTIONS: Final = ("group_by", "aggregate", "empty_groups", "null_groups")
_NAME: Final = r'"(?:[^"]|"")+"|[^\s",()]+'
_ITEM: Final = re.compile(rf"(?P<function>\w+)\s*\(\s*(?P<column>{_NAME})?\s*\)\s+as\s+(?P<name>{_NAME})", re.IGNORECASE)


def add_group_options(parser: ArgumentParser) -> None:
    """Add the options to those of a command."""
    groups = parser.add_argument_group("groups", "The rows of the result, with the columns of --select, may be aggregated.")
    groups.add_argument(
        "--aggregate",
        metavar="AGGREGATES",
        help=f"the columns of the result, in place of those of --select: {', '.join(get_args(AggregateName))} of columns, as in "
        "'count() as orders, sum(amount) as total'",
    )
    groups.add_argument(
        "--group-by",
        metavar="COLUMNS",
        help="the columns of --select that say the group of a row, and are the key of the result (default: all rows are one group)",
    )
    groups.add_argument(
        "--empty-groups",
        choices=get_args(Kept),
        help="groups whose rows have all left: drop them, or keep their rows, with counts of 0 (default: drop)",
    )
    groups.add_argument(
        "--null-groups",
        choices=get_args(Kept),
        help="rows with a null in a column of --group-by: drop and count them, or keep them as groups (default: drop)",
    )


class ResultGroups(NamedTuple):
    """The groups of the rows of a result: their columns, and the aggregates by their names."""

    by: tuple[str, ...]
    aggregates: "Mapping[str, Aggregate]"
    empty: Kept
    null: Kept

    @classmethod
    def of(cls, args: Namespace) -> Self | None:
        """The groups that the options name, ``None`` if they name none. Raises InputError."""
        values = {option: value for option in GROUP_OPTIONS if (value := vars(args).get(option))}
        if "aggregate" not in values:
            if values:
                flag = f"--{next(iter(values)).replace('_', '-')}"
                raise InputError(f"{flag} is of groups with aggregates: give --aggregate too, as in --aggregate 'count() as rows'")
            return None
        groups = cls(
            names_in(values.get("group_by", "")),
            aggregates_in(values["aggregate"]),
            values.get("empty_groups", "drop"),
            values.get("null_groups", "drop"),
        )
        if twice := [name for name in groups.by if groups.by.count(name) > 1 or name in groups.aggregates]:
            raise InputError(f"--group-by and --aggregate: two columns are called '{twice[0]}': give them different names")
        if not groups.by and (options := [f"--{name.replace('_', '-')}" for name in values if name.endswith("_groups")]):
            raise InputError(f"{options[0]} is of groups: give --group-by too")
        return groups

    def __str__(self) -> str:
        return f"by {', '.join(self.by)}" if self.by else "in total"

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the rows that the groups are made of."""
        return tuple(dict.fromkeys((*self.by, *(str(each.of) for each in self.aggregates.values() if each.of is not None))))


def aggregates_in(text: str) -> "dict[str, Aggregate]":
    """The aggregates of the option by their names. Raises InputError.

    >>> aggregates_in('count() as orders, sum("net price") as total')
    {'orders': count(), 'total': sum('net price')}
    """
    from beam_joins.functions.aggregate_functions import aggregate_named

    aggregates = dict[str, "Aggregate"]()
    for item in items_of(text):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise InputError(f"--aggregate: {item!r} is no function of a column with a name: write sum(amount) as total")
        name = unquoted(match["name"])
        if name in aggregates:
            raise InputError(f"--aggregate: two columns are called '{name}': give them different names")
        try:
            aggregates[name] = aggregate_named(match["function"].lower(), unquoted(match["column"] or ""))
        except ValueError as error:
            raise InputError(f"--aggregate: {error}") from None
    if not aggregates:
        raise InputError("--aggregate names no column: write sum(amount) as total")
    return aggregates
