"""Inputs that are tables of a PostgreSQL slot: ``--left 'postgres://HOST/DATABASE?slot=NAME' --left-table TABLE``."""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.postgres_address import PostgresAddress, is_postgres, postgres_address
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.commands.command_spec import Names

if TYPE_CHECKING:
    from beam_joins.pipelines.changelogs.changelog import DatabaseTable
    from beam_joins.pipelines.formats.file_parts import File
    from beam_joins.pipelines.io.sources.slot_rounds import Round
    from beam_joins.pipelines.io.sources.table_snapshots import Slot
    from beam_joins.transforms.connect import StateFolder

SLOT = "slot"
"""What stands for the format of envelopes where a side is a table of a slot."""
_IDLE_BYTES = 16 << 20
"""So far behind a slot may be without a change: then a run moves it on, so that the server can forget its log."""


def take_addresses(names: Names, args: Namespace) -> None:
    """Have the sides whose path is an address read lines of a slot; the path is then an address without secrets.

    Raises InputError for addresses that do not go together.
    """
    args.slot_address, args.slot_tables = None, None
    sides = [side for side in names.sides if is_postgres(side.path(args))]
    if not sides:
        return
    addresses = [postgres_address(side.path(args)) for side in sides]
    first = addresses[0]
    if len(sides) < len(names.sides) or any(each[:3] != first[:3] for each in addresses):
        paths = " and ".join(f"--{side.path_option}" for side in names.sides)
        raise InputError(f"{paths}: give both the same address with one slot, as places in different logs cannot be compared")
    if not first.slot:
        raise InputError(f"--{sides[0].path_option}: name a slot in the address: postgres://HOST/DATABASE?slot=NAME")
    for side, address in zip(sides, addresses, strict=True):
        if side.value_of(args, "format") is not None:
            raise InputError(f"{side.flag('format')} is for files: leave it out with an address")
        side.set(args, "format", SLOT)
        side.set(args, "table", side.value_of(args, "table") or address.table)
        if not side.value_of(args, "table"):
            raise InputError(f"{side.flag('table')} must name a table of the publication {address.publication}, as in public.orders")
        setattr(args, side.path_option, address.shown)
    args.slot_address = first


class SlotInputs(NamedTuple):
    """What the sides of a command read of a slot."""

    names: Names
    args: Namespace
    address: PostgresAddress

    @classmethod
    def of(cls, names: Names, args: Namespace) -> "SlotInputs | None":
        """What the addresses say, if there are some."""
        return None if args.slot_address is None else cls(names, args, args.slot_address)

    @property
    def slot(self) -> "Slot":
        """The slot."""
        from beam_joins.pipelines.io.sources.table_snapshots import Slot

        return Slot(self.address.conninfo, self.address.slot, self.address.publication)

    @property
    def tables(self) -> list[str]:
        """The tables of the sides, each once."""
        return list(dict.fromkeys(side.value_of(self.args, "table") for side in self.names.sides))

    def read(self, state: "StateFolder") -> "Round":
        """What was committed since the last run. Raises InputError."""
        from beam_joins.pipelines.io.sources.slot_runs import read_in_run

        return read_in_run(self.slot, self.tables, state)[0]

    def files(self, read: "Round") -> Mapping[str, Sequence["File"]]:
        """The files of each side."""
        return {side: read.files_of(table) for side, table in self._names_of(read).items()}

    def in_database(self, read: "Round") -> "Mapping[str, DatabaseTable]":
        """The table of each side as the database has it now, with the key that the options name, or its primary key."""
        from beam_joins.pipelines.changelogs.changelog import DatabaseTable
        from beam_joins.pipelines.commands.options import envelopes_of  # which takes the addresses

        tables = {}
        for side in self.names.sides:
            published = read.tables[self._names_of(read)[side.name]]
            key = envelopes_of(side, self.args).key or tuple(published.table.key)
            types = dict(published.table.shape)
            tables[side.name] = DatabaseTable(published.table.full_name, key, published.columns, types, published.kinds)
        return tables

    def _names_of(self, read: "Round") -> dict[str, str]:
        """The full name of each side's table."""
        by_table = dict(zip(self.tables, read.tables, strict=True))
        return {side.name: by_table[side.value_of(self.args, "table")] for side in self.names.sides}

    def remark(self, read: "Round") -> str:
        """What the summary says of the slot."""
        tables = [f"{table} ({why})" if why else table for table, why in read.anew.items()]
        anew = f"; read as they are: {', '.join(tables)}" if tables else ""
        transactions = counted(read.transactions, "transaction")
        return f"slot {self.slot.name}: {transactions}, {read.behind:,} bytes of log behind the server before{anew}"


def is_idle(read: "Round") -> bool:
    """Whether a round has nothing for a run to do."""
    return not read.files and read.behind < _IDLE_BYTES


@contextmanager
def slot_rows(names: Names, args: Namespace, most_rows: int | None = None) -> Iterator[None]:
    """The rows of the tables as they are lie in files while the block runs; the slot stays where it is."""
    inputs = SlotInputs.of(names, args)
    if inputs is None:
        yield
        return
    from beam_joins.pipelines.io.sources.slot_rounds import read_round

    with TemporaryDirectory(prefix="beam-joins-slot-") as folder:
        read = read_round(inputs.slot, inputs.tables, None, folder, most_rows=most_rows)
        args.slot_tables = inputs.files(read), inputs.in_database(read)
        yield
