"""The state of a command between runs, beside its tables: options, files read, and the columns of the first
files.
"""

from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from beam_joins.errors import InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.compared_snapshots import as_changes
from beam_joins.pipelines.changelogs.input_memory import InputMemory
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, DatabaseTable
from beam_joins.pipelines.changelogs.tombstones_in_files import Unpaired
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.earlier_options import options_now
from beam_joins.pipelines.commands.job import Job, KnownKinds, names_of
from beam_joins.pipelines.commands.options_between_runs import differing_options, fixed_options, require_allowed, value_in_words
from beam_joins.pipelines.commands.stored_rows import StoredRows
from beam_joins.pipelines.commands.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.read_plan import COLUMNS, JSON, Form
from beam_joins.pipelines.results.counts import Tally, add_up
from beam_joins.transforms.connect.runs import StateFolder

_COUNTED: Final = (ROWS, MATCHED, UNREFERRING)


def memory_of(spec: CommandSpec, args: Namespace, inputs: Mapping[str, Any], *, is_new: bool) -> "CommandMemory":
    """The state of a command in the ``inputs`` of the folder, without that of inputs that are read again. Raises InputError for
    one of another program, or other options that may not differ.
    """
    options = fixed_options(args, spec)
    if is_new:
        return CommandMemory({"options": options, "select": spec.selected(args)}, spec)
    if state_name(spec) not in inputs:
        raise InputError(f"--state-dir: {args.state_dir} is of another program: name another folder")
    stored = inputs[state_name(spec)]
    before = options_now(stored["options"], options, [side.flag("") for side in spec.sides])
    differing = differing_options(options, before)
    require_allowed(differing, args, spec)
    again = [side.name for side in spec.sides if side.path_option in args.read_again]
    if (again or differing) and any("rows" not in stored[side.name] for side in spec.sides if side.name not in again):
        raise InputError(f"--state-dir: {args.state_dir} is of an earlier version: run once with the options as they were")
    select = spec.selected(args)
    if stored.get("select", select) != select:  # columns of another selection are named anew
        stored = {**stored, "names": []}
    remarks = [_sentence(*each) for each in differing.items()]
    is_other = before.get("--latest") not in (None, options.get("--latest"))
    memory = {**stored, "options": options, "select": select}
    return CommandMemory(
        memory, spec, again, remarks, forms=_forms_of_results(before), is_changed=bool(again or differing or is_other)
    )


def _sentence(option: str, values: tuple[str | None, str | None]) -> str:
    then, now = map(value_in_words, values)
    return f"the result is made anew: {option} was {then}, and is {now}"


def state_name(spec: CommandSpec) -> str:
    """The name of the state of a command in the ``inputs`` of the folder."""
    return f"{spec.command} command"


def _forms_of_results(options: Mapping[str, str]) -> tuple[Form, ...]:
    """The forms in which the first versions stored rows: those of the results."""
    of_changes = options.get("--output-records", "changes") == "changes"
    formats = {"--changes": options.get("--changes") if of_changes else "columns", "--latest": options.get("--latest")}
    given = [formats[option] for option in formats if option in options]
    return tuple(dict.fromkeys(JSON if each == "json lines" else COLUMNS for each in given)) or (COLUMNS,)


class CommandMemory:
    """As it stands in the manifest of the state; what a run adds is :meth:`stored` there if the run succeeds.

    ``read_again`` are the inputs that are read from their beginning, and ``differing`` sentences on options that
    differ from those of the runs before; ``is_changed``: results are made also without new files. ``forms`` are those of
    rows in a state of a version that did not remember them.
    """

    def __init__(
        self,
        stored: Mapping[str, Any],
        spec: CommandSpec,
        read_again: Sequence[str] = (),
        differing: Sequence[str] = (),
        *,
        forms: tuple[Form, ...] = (),
        is_changed: bool = False,
    ) -> None:
        self.options: dict[str, str] = stored["options"]
        self.read_again, self.is_changed = tuple(read_again), is_changed
        self._remarks = list(differing)
        kinds = [None if each is None else tuple(each) for each in stored.get("kinds") or [None] * len(spec.sides)]
        self.kinds: KnownKinds = tuple(
            None if side.name in read_again else of_side for side, of_side in zip(spec.sides, kinds, strict=True)
        )
        read_before = {side: list(stored[side].get("files") or {}) for side in read_again}
        self._read_again_before: Sequence[str] = stored.get("read again", ())
        stored = {**stored, **{side: {} for side in read_again}}
        self._first, *_ = spec.sides
        sides: dict[str, dict[str, Any]] = {side.name: stored.get(side.name, {}) for side in spec.sides}
        keys = stored.get("keys", {})  # of versions before keys were among the rest of a side
        self.inputs = {
            side: InputMemory(side, {"key": keys.get(side), **of_side} if of_side else {}, read_before.get(side, ()))
            for side, of_side in sides.items()
        }
        self._database: dict[str, dict[str, str]] = {side: dict(of_side.get("database", {})) for side, of_side in sides.items()}
        """The types that columns of tables in databases had when they were read first."""
        self._rows = {side: StoredRows.read(of_side["rows"]) if "rows" in of_side else None for side, of_side in sides.items()}
        earlier = {side for side, of_side in sides.items() if of_side and "rows" not in of_side}
        self._forms = {side: forms if side in earlier else None for side in sides}
        self._totals: dict[str, int] = dict(stored.get("totals", {}))
        self._select: str = stored["select"]
        self.known_names: list[dict[str, str]] | None = stored.get("names")

    def stored(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        sides = {side: {**of.stored(), "database": self._database[side], "rows": self._rows[side]} for side, of in self.inputs.items()}
        return {
            "options": self.options,
            "kinds": self.kinds,
            "select": self._select,
            "names": self.known_names,
            "totals": self._totals,
            "read again": self.read_again,
            **sides,
        }

    def require_all(self, arrived: Mapping[str, Sequence[File]]) -> None:
        """Raise InputError for an input that is read again, as in the run before, without files of that run."""
        for side in self.read_again:
            gone = self.inputs[side].gone(arrived.get(side, ()))
            if gone and side in self._read_again_before:
                raise InputError(
                    f"--read-again: the run before has read the {side} again too, and now {counted(gone, 'file')} of it would be "
                    "missing: leave the option out, or put the files back"
                )

    def changelog(
        self, of: Side, files: Sequence[File], columns: Columns, table: DatabaseTable | None = None, state: StateFolder | None = None
    ) -> Changelog:
        """The new files of one side, read as those of earlier runs were. ``table``: what the database says of the side's table;
        ``state`` keeps snapshots for later runs, which are not compared without one.

        Raises InputError.
        """
        changelog = self.inputs[of.name].changelog(files, columns, table)
        changelog.require_table()
        if columns.snapshots is None:
            return changelog
        if state is None:
            return as_changes(changelog)
        return self.inputs[of.name].changes(changelog, state, of.name, f"give --read-again {of.path_option}")

    @property
    def of_earlier_runs(self) -> dict[str, Any]:
        """What earlier runs have seen, as arguments of :class:`~beam_joins.pipelines.commands.job.Job`."""
        return {
            "known_kinds": self.kinds,
            "known_types": tuple(each.typed for each in self.inputs.values()),
            "known_database": tuple(self._database.values()),
            "known_names": self.known_names,
            "stored": tuple(self._rows.values()),
            "known_forms": tuple(self._forms.values()),
            "read_again": self.read_again,
        }

    def remarks(self, arrived: Mapping[str, Sequence[File]]) -> list[str]:
        """The remarks of the summary on options that differ from the runs before, and on inputs that are read again."""
        remarks = list(self._remarks)
        for side in self.read_again:
            gone = self.inputs[side].gone(arrived.get(side, ()))
            without = f"; {counted(gone, 'file')} of the runs before not there any more" if gone else ""
            remarks.append(f"the {side} are read again{without}")
        return remarks

    def learn(self, job: Job) -> None:
        """Remember the kinds of the keys, for all runs, the rows as they are stored, and the types of their columns.

        Raises InputError if the first run has seen no kind of them, and for rows of earlier runs that the result cannot be made of.
        """
        for changelog, kind, known in zip(job.changelogs, job.first_kinds(), self.kinds, strict=True):
            if known is None and None in kind:
                refers = bool(job.foreign_key) and changelog is not job.changelogs[0]
                nor = f", nor do the first {self._first.name} refer to one," if refers else ""
                raise InputError(
                    f"the first {changelog.name} have no key among them{nor} to tell of which kind keys are: begin with "
                    "a file that has some"
                )
        self.kinds, self.known_names = job.kinds(), names_of(job.shares, len(job.changelogs))
        self._database = {each.name: job.database_types(side) for side, each in enumerate(job.changelogs)}
        job.selects()
        self._rows = {each.name: rows for each, rows in zip(job.changelogs, job.rows_stored, strict=True)}
        for side, memory in enumerate(self.inputs.values()):
            memory.typed = job.types_to_remember(side)

    def in_all(self, tallies: Sequence[Tally], anew: Collection[str]) -> list[Tally]:
        """The tallies of a run; those that count rows of a table count them as they are now, and not how many
        more there are. ``anew`` are those that count all rows of a table that begins anew.
        """
        for side, memory in self.inputs.items():
            of_side = Unpaired.sum(Unpaired.counted_by(tally) for tally in tallies if tally.place == side)
            memory.open_deletes = of_side.left_open(memory.open_deletes or 0)
        place = self._first.name
        sums = {tally.what: tally.records for tally in add_up(tallies).values() if tally.place == place}
        for what in _COUNTED:
            before = 0 if what in anew else self._totals.get(what, 0)
            self._totals[what] = before + sums.get(what, 0)
        others = [tally for tally in tallies if tally.what not in self._totals]
        return [*others, *(Tally(place, what, count) for what, count in self._totals.items())]
