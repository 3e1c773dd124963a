"""``--to postgres://HOST/DATABASE?table=NAME``: a table of PostgreSQL that each run brings up to date, in one
transaction.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from beam_joins import ChangeBatch
from beam_joins.how import How
from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.base.postgres_address import PostgresAddress
from beam_joins.pipelines.commands.command_spec import LACKING, TO
from beam_joins.pipelines.commands.job import Job
from beam_joins.pipelines.formats.arrow_rows import opened
from beam_joins.pipelines.io.sinks.postgres_table import PostgresTable
from beam_joins.pipelines.io.sinks.table_columns import TableColumns
from beam_joins.pipelines.results.outputs import Output
from beam_joins.transforms.connect import TableType

_ROWS: Final = 1 << 16
_POSITION: Final = "position"
_DELETED: Final = "deleted"


class PostgresResult:
    """The table that is written, and the file between the workers and the server."""

    def __init__(self, address: PostgresAddress, args: Namespace) -> None:
        self._address = address
        self.shown: str = args.to
        self.file = f"{args.state_dir.rstrip('/')}-to-postgres.arrow"
        self._table: PostgresTable | None = None

    def looked_at(self, job: Job) -> str:
        """What a dry run says of the table, which is checked where it is there. Raises InputError."""
        table = self._table_of(job, job.output(TO, self.file, "arrow"))
        if not table.exists():
            return f"{self.shown}, which the first run makes"
        table.prepare(create=False)
        return self.shown

    def prepare(self, job: Job, output: Output, *, first: bool) -> None:
        """Check the table before the first run of a process; create it where it is not there before the first run of all.

        Raises InputError for a table that rows cannot be merged into, and a job whose keys have nulls.
        """
        if self._table is None:
            table = self._table_of(job, output)
            if not first and not table.exists():
                raise InputError(
                    f"--to: the table {table.name} is not there, and would lack what the runs before have written: begin with an "
                    "empty --state-dir"
                )
            table.prepare(create=True)
            self._table = table

    def _table_of(self, job: Job, output: Output) -> PostgresTable:
        _require_keys(job.how, by_reference=bool(job.foreign_key))
        schema = output.columns or pa.schema([])
        key, new = schema.field("key").type, schema.field("new").type
        values = [field.name for field in new]
        if reserved := {_POSITION, _DELETED} & {*values}:
            raise InputError(f"--to: a column of the result is called {', '.join(sorted(reserved))}: give it another name in --select")
        try:
            columns = TableColumns(TableType(key=key, value=new), job.key_names(), None)
        except ValueError as error:
            raise InputError(f"--to: {error}") from error
        return PostgresTable(self._address.conninfo, self._address.table, columns, _POSITION, _DELETED, in_one=True, has_view=True)

    def merge(self, path: str, *, first: bool) -> None:
        """Merge the changes of a run, which are in a file, in one transaction. The first run replaces all rows.

        Raises OutputError.
        """
        assert self._table is not None
        self._table.merge(_Lines(self._table, path), anew=first)


@dataclass
class _Lines:
    """The lines of the changes in a file, some at a time."""

    table: PostgresTable
    path: str

    def __iter__(self) -> Iterator[bytes]:
        with opened(self.path) as batches:
            for number in range(batches.num_record_batches):
                batch = batches.get_batch(number)
                for start in range(0, len(batch), _ROWS):
                    yield self.table.lines(self.table.columns.of(_changes(batch.slice(start, _ROWS))))


def _require_keys(how: How, *, by_reference: bool) -> None:
    if by_reference and 0 in LACKING.get(how, ()):
        raise InputError(f"--to: --how {how} with --foreign-key keeps right rows without a left one, which have no key in the table")


def _changes(rows: pa.RecordBatch) -> ChangeBatch:
    nothing = pa.nulls(len(rows), pa.int64())
    return ChangeBatch(key=rows["key"], new=rows["new"], before=nothing, timestamp=rows["position"], position=rows["position"])
