"""What the orders command remembers from run to run beside its tables: options, files, and what the first files have said of their columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from beam_joins.pipelines.changelog_files.changelog import Changelog, look_into
from beam_joins.pipelines.changelog_files.columns import Columns
from beam_joins.pipelines.changelog_files.files import File
from beam_joins.pipelines.changelog_files.layout import Layout
from beam_joins.pipelines.changelog_files.reading import Kind
from beam_joins.pipelines.changelog_files.seen import SeenFiles
from beam_joins.pipelines.changelog_files.tally import Tally, add_up
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.orders_job import OrdersJob

SIDES: Final = ("orders", "customers")


class OrdersMemory:
    """As it stands in the manifest of the state; what a run adds is :meth:`stored` there if the run succeeds."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.options: dict[str, str] = stored.get("options", {})
        self.kinds: tuple[Kind, Kind] | None = tuple(stored["kinds"]) if "kinds" in stored else None
        sides = {side: stored.get(side, {}) for side in SIDES}
        self.seen = {side: SeenFiles(side, known.get("files")) for side, known in sides.items()}
        self._types: dict[str, dict[str, str]] = {side: dict(known.get("types", {})) for side, known in sides.items()}
        self._schemas = {side: known.get("avro") for side, known in sides.items()}
        self._keys: dict[str, list[str]] = dict(stored.get("keys", {}))
        self._totals: dict[str, int] = dict(stored.get("totals", {}))

    def stored(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        sides = {side: {"files": self.seen[side].stored(), "types": self._types[side], "avro": self._schemas[side]} for side in SIDES}
        return {"options": self.options, "kinds": self.kinds, "keys": self._keys, "totals": self._totals, **sides}

    def changelog(self, side: str, files: Sequence[File], columns: Columns, layout: Layout, *, avro: bool) -> Changelog:
        """The new files of one side, read as those of earlier runs were; ``avro`` if a result is Avro, which needs one schema in all runs.

        Raises InputError.
        """
        if columns.enveloped and (key := self._keys.get(side)):
            files, columns = [replace(file, key=tuple(key)) for file in files], replace(columns, key=key[0])
        found = look_into(side, tuple(files), columns, layout, tuple(self._types[side].items()))
        for file in found.files:
            self._keys[side] = list(file.key)
            self._types[side] = {**dict(file.layout), **self._types[side]}
        if not avro:
            return found
        known = self._schemas[side]
        if known is None:
            self._schemas[side] = found.schema
        elif found.files and found.schema != known:
            raise InputError(
                f"{side}: {found.files[0].shown} does not have the Avro schema of the files before, which the results have"
            )
        return replace(found, schema=self._schemas[side])

    def learn(self, job: OrdersJob) -> None:
        """Note of which kind the keys are, for all runs. Raises InputError if the first one has seen none of the orders, or none of the customers."""
        if self.kinds is None and job.orders.first_kind_of(job.orders.columns.key) is None:
            raise InputError("the first orders have no key among them to tell of which kind keys are: begin with a file that has some")
        of_customers = (job.customers, job.customers.columns.key), (job.orders, job.foreign_key)
        if self.kinds is None and all(changelog.first_kind_of(column) is None for changelog, column in of_customers):
            raise InputError(
                "the first customers have no key among them, nor do the first orders refer to one, to tell of which kind keys are: begin with a"
                " file that has some"
            )
        self.kinds = job.kinds()

    def in_all(self, tallies: Sequence[Tally]) -> list[Tally]:
        """The tallies of a run; those that count rows of a table count them as they are now, and not how many more there are."""
        counted = {tally.what: tally.records for tally in add_up(tallies).values() if tally.place == "orders"}
        for what in (ROWS, MATCHED, UNREFERRING):
            self._totals[what] = self._totals.get(what, 0) + counted.get(what, 0)
        others = [tally for tally in tallies if tally.what not in self._totals]
        return [*others, *(Tally("orders", what, count) for what, count in self._totals.items())]
