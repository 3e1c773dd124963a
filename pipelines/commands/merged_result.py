"""``--to ADDRESS``: a table elsewhere that a run brings up to date, with all its changes at once."""

from argparse import Namespace
from functools import partial

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.command_spec import LACKING, TO
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.formats.change_records import merged_changes
from beam_joins.pipelines.io.sinks.run_mark import rows_replaced
from beam_joins.pipelines.io.targets import MergedTable, Target
from beam_joins.pipelines.results.output_files import Output
from beam_joins.transforms.connect import StateFolder, TableType


class MergedResult:
    """The table that is written, and the file between the workers and the writer."""

    def __init__(self, target: Target, args: Namespace) -> None:
        self._target = target
        self.shown = target.shown
        beside = args.state_dir or args.output or args.latest or "beam-joins"
        self.file = f"{beside.rstrip('/')}-to-{target.kind}.arrow"
        self._table: MergedTable | None = None

    @classmethod
    def of(cls, args: Namespace) -> "MergedResult | None":
        """The table that the options name, if they name one."""
        return None if args.to_target is None else cls(args.to_target, args)

    def output(self, job: Job) -> Output:
        """The changes that are merged. Raises InputError for columns that the table does not take."""
        return job.output(TO, "--to", self.file, "table")

    def looked_at(self, job: Job, *, first: bool) -> str:
        """The line of a dry run on the table, which is checked if it exists. Raises InputError."""
        table = self._table_of(job)
        if not self._exists(table, first=first):
            return f"{self.shown}, which the first run makes"
        table.prepare(create=False, widen=not first)
        return self.shown

    def prepare(self, job: Job, *, first: bool) -> None:
        """Check the table before the first run of a process; create it where it is not there before the first run of all.

        Raises InputError for a table that rows cannot be merged into, and a job whose keys have nulls.
        """
        if self._table is None:
            table = self._table_of(job)
            self._exists(table, first=first)
            table.prepare(create=True, widen=not first)
            self._table = table

    def merge(self, path: str, folder: StateFolder, *, anew: bool) -> None:
        """Merge the changes of a run, which are in a file; ``anew``: in place of all rows.

        Raises OutputError, and InputError if an attempt at this run has replaced all rows, and this one does not.
        """
        replaced = rows_replaced(folder, self._target.name, anew=anew)
        if anew and not folder.is_new:
            replaced.set()
        self._merge(path, run=folder.run, anew=anew)

    def replace(self, path: str) -> None:
        """Replace all rows by those of a run that stands alone."""
        self._merge(path, run=None, anew=True)

    def _merge(self, path: str, *, run: int | None, anew: bool) -> None:
        assert self._table is not None
        self._table.merge(partial(merged_changes, path), run=run, anew=anew)

    def _exists(self, table: MergedTable, *, first: bool) -> bool:
        """Whether the table is there. Raises InputError if it is not, and runs before have written to it."""
        exists = table.exists()
        if not exists and not first:
            raise InputError(
                f"--to: the table {self._target.name} is not there, and would lack what the runs before have written: begin with "
                "an empty --state-dir"
            )
        return exists

    def _table_of(self, job: Job) -> MergedTable:
        if job.foreign_key and 0 in LACKING.get(job.how, ()):
            raise InputError(
                f"--to: --how {job.how} with --foreign-key keeps right rows without a left one, which have no key in the table"
            )
        rows = job.plain_rows("--to", "table")
        try:
            return self._target.table(TableType(rows.key_type, pa.struct(list(rows.schema))), job.key_names())
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"--to: {error}") from error
