"""``--to ADDRESS``: a table elsewhere that a run brings up to date, with all its changes at once."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.command_spec import LACKING, TO
from beam_joins.pipelines.commands.grouped_rows import result_rows
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.results.merge_once import MergedTable
from beam_joins.pipelines.results.output_files import Output
from beam_joins.pipelines.results.run_mark import REPLACED, Mark, NotAsLeft, RunMark, last_mark, remember, rows_replaced
from beam_joins.pipelines.systems.targets import Target
from beam_joins.transforms.connect.runs import StateFolder
from beam_joins.transforms.connect.tables import TableType


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
        return result_rows(job).output(TO, "--to", self.file, "table", records=self._table_of(job).records)

    def looked_at(self, job: Job, inputs: Mapping[str, Any] | None) -> str:
        """The line of a dry run on the table, which is checked if it exists; ``inputs`` are those of the state after the last run.
        Raises InputError.
        """
        table = self._table_of(job)
        if not self._exists(table, job, first=inputs is None):
            return f"{self.shown}, which the {'run' if job.read_again else 'first run'} makes"
        self._prepare(table, job, self._last(job, inputs), create=False, widen=inputs is not None)
        return self.shown

    def require_left(self, job: Job, inputs: Mapping[str, Any]) -> None:
        """Raise InputError for a table that is gone or not as the last run has left it; pass over one that cannot be looked at."""
        table = self._table_of(job)
        try:
            is_there = table.exists()
            if is_there:
                table.prepare(create=False, widen=True, last=self._last(job, inputs))
        except NotAsLeft as error:
            raise self._not_as_left(error, job) from error
        except InputError:
            return
        if not is_there:
            raise self._gone(job)

    def prepare(self, job: Job, folder: StateFolder | None = None) -> None:
        """Check the table before a run; create it where it is not there before the first run of all, and one that makes it anew.

        Raises InputError for a table that rows cannot be merged into or that is not as the last run has left it, and a job whose
        keys have nulls.
        """
        inputs = None if folder is None or folder.is_new else folder.inputs
        is_replaced = folder is not None and RunMark(folder, REPLACED, self._target.name).is_set  # by this run, which was killed
        self._table = self._table_of(job)
        self._exists(self._table, job, first=inputs is None)
        last = None if is_replaced else self._last(job, inputs)
        self._prepare(self._table, job, last, create=True, widen=inputs is not None)

    def _last(self, job: Job, inputs: Mapping[str, Any] | None) -> Mark | None:
        return None if inputs is None or job.read_again else last_mark(inputs, self._target.name)

    def _prepare(self, table: MergedTable, job: Job, last: Mark | None, *, create: bool, widen: bool) -> None:
        with self._as_left(job):
            table.prepare(create=create, widen=widen, last=last)

    def merge(self, path: str, job: Job, folder: StateFolder, *, anew: bool) -> None:
        """Merge the changes of a run, which are in a file; ``anew``: in place of all rows.

        Raises OutputError, and InputError if an attempt at this run has replaced all rows, and this one does not, or if the table
        is not as the last run has left it.
        """
        replaced = rows_replaced(folder, self._target.name, anew=anew)
        if anew and not folder.is_new:
            replaced.set()
        assert self._table is not None
        last = None if anew else last_mark(folder.inputs, self._target.name)
        with self._as_left(job):
            mark = self._table.merge(path, run=folder.run, anew=anew, last=last)
        if mark is not None:
            remember(folder.inputs, self._target.name, mark)

    def replace(self, path: str) -> None:
        """Replace all rows by those of a run that stands alone."""
        assert self._table is not None
        self._table.merge(path, run=None, anew=True)

    def _exists(self, table: MergedTable, job: Job, *, first: bool) -> bool:
        """Whether the table is there. Raises InputError if it is not, and runs before have written to it."""
        exists = table.exists()
        if not exists and not first and not job.read_again:
            raise self._gone(job)
        return exists

    def _gone(self, job: Job) -> InputError:
        return InputError(
            f"--to: the table {self._target.name} is not there, and would lack what the runs before have written: {_anew(job)}"
        )

    @staticmethod
    def _not_as_left(error: NotAsLeft, job: Job) -> InputError:
        return InputError(f"--to: {error}: {_anew(job)}")

    @contextmanager
    def _as_left(self, job: Job) -> Iterator[None]:
        """Says what to do with a table that is not as the last run has left it."""
        try:
            yield
        except NotAsLeft as error:
            raise self._not_as_left(error, job) from error

    def _table_of(self, job: Job) -> MergedTable:
        if job.foreign_key and 0 in LACKING.get(job.how, ()):
            raise InputError(
                f"--to: --how {job.how} with --foreign-key keeps right rows without a left one, which have no key in the table"
            )
        if job.groups is not None and (not job.groups.by or job.groups.null == "keep"):
            lacks = "groups with --null-groups=keep have nulls in theirs" if job.groups.by else "a total over all rows has none"
            raise InputError(f"--to: a table needs a key, and {lacks}: write files with --latest and --changes")
        rows = result_rows(job).plain_rows("--to", "table")
        try:
            return self._target.table(TableType(rows.key_type, pa.struct(list(rows.schema))), job.key_names())
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"--to: {error}") from error


def _anew(job: Job) -> str:
    """The ways to make the table anew."""
    side, *_ = job.spec.sides
    return f"--read-again {side.path_option} makes it anew, or begin with an empty --state-dir"
