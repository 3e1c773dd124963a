"""Tables of a PostgreSQL slot as inputs of a command: ``--left 'postgres://HOST/DATABASE?slot=NAME' --left-table TABLE``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.spooled import InputOptions, Spooled
from beam_joins.pipelines.systems.postgres.postgres_address import PostgresAddress, postgres_address

if TYPE_CHECKING:
    from beam_joins.pipelines.formats.changelog_columns import Envelopes
    from beam_joins.pipelines.systems.postgres.slot_rounds import Round
    from beam_joins.transforms.connect.runs import StateFolder

_SLOT: Final = "slot"
"""The name in place of the format of envelopes where an input is a table of a slot."""


class SlotInputs(NamedTuple):
    """The inputs that are tables of one slot: :class:`~beam_joins.pipelines.changelogs.spooled.Inputs`."""

    address: PostgresAddress
    shown: Mapping[str, str]
    sources: Mapping[str, str]
    noun: str = "table"
    elements: str = "transactions"

    @classmethod
    def of(cls, inputs: Mapping[str, InputOptions], others: Sequence[str]) -> "SlotInputs":
        """The inputs with these addresses. Raises InputError for addresses that do not go together."""
        addresses = {name: postgres_address(each.address) for name, each in inputs.items()}
        first, option = next(iter(addresses.values())), next(iter(inputs.values())).option
        if others or any(each[:3] != first[:3] for each in addresses.values()):
            paths = " and ".join(sorted((*others, *(each.option for each in inputs.values()))))
            raise InputError(f"{paths}: give both the same address with one slot, as places in different logs cannot be compared")
        if not first.slot:
            raise InputError(f"{option}: name a slot in the address: postgres://HOST/DATABASE?slot=NAME")
        for name, each in inputs.items():
            if each.format:
                raise InputError(f"{each.flag('format')} is for files: leave it out with an address")
            if not each.table and not addresses[name].table:
                raise InputError(f"{each.flag('table')} must name a table of the publication {first.publication}, as in public.orders")
        tables = {name: each.table or addresses[name].table for name, each in inputs.items()}
        return cls(first, {name: each.shown for name, each in addresses.items()}, tables)

    @property
    def options(self) -> Mapping[str, Mapping[str, str]]:
        """The values of other options that an address has."""
        return {name: {"format": _SLOT, "table": table} for name, table in self.sources.items()}

    def read(self, envelopes: "Mapping[str, Envelopes]", state: "StateFolder | None", folder: str, most_rows: int | None) -> Spooled:
        """The changes committed since the last run. Without a state, the rows of the tables as they are; the slot
        then stays where it is. Raises InputError.
        """
        from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable  # noqa: PLC0415  # with Beam
        from beam_joins.pipelines.systems.postgres.slot_rounds import IDLE_BYTES, read_round  # noqa: PLC0415
        from beam_joins.pipelines.systems.postgres.slot_runs import read_in_run  # noqa: PLC0415
        from beam_joins.pipelines.systems.postgres.table_snapshots import Slot  # noqa: PLC0415

        slot = Slot(self.address.conninfo, self.address.slot, self.address.publication)
        names = dict[str, tuple[str, ...]]()
        for name, table in self.sources.items():
            names[table] = tuple(dict.fromkeys((*names.get(table, ()), *envelopes[name].key)))
        rows = partial(read_round, slot, names, None, folder, most_rows=most_rows)
        read = rows() if state is None else read_in_run(slot, names, state)[0]
        full_names = dict(zip(names, read.tables, strict=True))
        tables = {}
        for name, table in self.sources.items():
            published = read.tables[full_names[table]]
            key = envelopes[name].key or tuple(published.table.key)
            types = dict(published.table.shape)
            tables[name] = DatabaseTable(
                published.table.full_name, key, published.columns, types, published.kinds, has_texts=True, compared=published.compared
            )
        files = {name: read.files_of(full_names[table]) for name, table in self.sources.items()}
        return Spooled(files, tables, [] if not read.files and read.behind < IDLE_BYTES else [_remark(slot.name, read)])

    def forget(self, name: str, read: dict[str, Any]) -> None:
        """Have a table be read as it is now; ``read`` is the progress of the inputs of a state."""
        from beam_joins.pipelines.systems.postgres.slot_runs import without_tables  # noqa: PLC0415  # with Beam

        of_slot = f"slot {self.address.slot}"
        if before := read.get(of_slot):
            read[of_slot] = without_tables(before, [self.sources[name]])


def _remark(slot: str, read: "Round") -> str:
    tables = [f"{table} ({why})" if why else table for table, why in read.anew.items()]
    anew = f"; read as they are: {', '.join(tables)}" if tables else ""
    return f"slot {slot}: {counted(read.transactions, 'transaction')}, {read.behind:,} bytes of log behind the server before{anew}"
