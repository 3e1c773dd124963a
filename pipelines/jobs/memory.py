"""What a command remembers from run to run beside its tables: options, files, and what the first files have said of their columns."""

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
from beam_joins.pipelines.jobs.job import Job
from beam_joins.pipelines.jobs.names import Names, Side
from beam_joins.pipelines.jobs.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.transforms.engine.manifest import schema_text, text_schema

_COUNTED: Final = (ROWS, MATCHED, UNREFERRING)


class Memory:
    """As it stands in the manifest of the state; what a run adds is :meth:`stored` there if the run succeeds."""

    def __init__(self, stored: Mapping[str, Any], names: Names) -> None:
        self.options: dict[str, str] = stored.get("options", {})
        self.kinds: tuple[Kind, ...] | None = tuple(stored["kinds"]) if "kinds" in stored else None
        self._first, *_ = names.sides
        sides = {side.name: stored.get(side.name, {}) for side in names.sides}
        self.seen = {side: SeenFiles(side, known.get("files")) for side, known in sides.items()}
        self._columns: dict[str, tuple[str, ...]] = {side: tuple(known.get("columns", ())) for side, known in sides.items()}
        self._types: dict[str, dict[str, str]] = {side: dict(known.get("types", {})) for side, known in sides.items()}
        self._whole: dict[str, str | None] = {side: known.get("whole") for side, known in sides.items()}
        self._schemas = {side: known.get("avro") for side, known in sides.items()}
        self._keys: dict[str, list[str]] = dict(stored.get("keys", {}))
        self._totals: dict[str, int] = dict(stored.get("totals", {}))

    def stored(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        sides = {
            side: {
                "files": seen.stored(),
                "types": self._types[side],
                "avro": self._schemas[side],
                "columns": self._columns[side],
                "whole": self._whole[side],
            }
            for side, seen in self.seen.items()
        }
        return {"options": self.options, "kinds": self.kinds, "keys": self._keys, "totals": self._totals, **sides}

    def changelog(self, of: Side, files: Sequence[File], columns: Columns, layout: Layout, *, avro: bool) -> Changelog:
        """The new files of one side, read as those of earlier runs were; ``avro`` if a result is Avro, which needs one schema in all runs.

        Raises InputError.
        """
        side = of.name
        if columns.enveloped and (key := self._keys.get(side)):
            files, columns = [replace(file, key=tuple(key)) for file in files], replace(columns, key=key[0])
        whole = self._whole[side]
        before = None if whole is None else text_schema(whole)
        found = look_into(side, tuple(files), columns, layout, tuple(self._types[side].items()), before)
        if found.said.whole is not None:
            self._whole[side] = schema_text(found.said.whole)
        self._columns[side] = self._columns[side] or found.rows_have
        found = replace(found, known=self._columns[side])
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

    def learn(self, job: Job) -> None:
        """Note of which kind the keys are, for all runs. Raises InputError if the first one has seen none of them."""
        for changelog, kind in zip(job.changelogs, job.first_kinds(), strict=True) if self.kinds is None else ():
            if kind is None:
                refers = job.foreign_key is not None and changelog is not job.changelogs[0]
                nor = f", nor do the first {self._first.name} refer to one," if refers else ""
                raise InputError(
                    f"the first {changelog.name} have no key among them{nor} to tell of which kind keys are: begin with a file that has some"
                )
        self.kinds = job.kinds()

    def in_all(self, tallies: Sequence[Tally]) -> list[Tally]:
        """The tallies of a run; those that count rows of a table count them as they are now, and not how many more there are."""
        place = self._first.name
        counted = {tally.what: tally.records for tally in add_up(tallies).values() if tally.place == place}
        for what in _COUNTED:
            self._totals[what] = self._totals.get(what, 0) + counted.get(what, 0)
        others = [tally for tally in tallies if tally.what not in self._totals]
        return [*others, *(Tally(place, what, count) for what, count in self._totals.items())]
