"""Tables of PostgreSQL from a logical replication slot, over psycopg (``pip install 'beam-joins[postgres]'``)."""

import atexit
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import remove_directory
from beam_joins.pipelines.changelogs.changelog_rows import checked_schema, columns_of_runs, rows_of_table
from beam_joins.pipelines.changelogs.inspected_changelog import DatabaseTable
from beam_joins.pipelines.changelogs.read_table import ReadTable, table_label
from beam_joins.pipelines.systems.postgres.postgres_table import checked_conninfo
from beam_joins.pipelines.systems.postgres.slot_rounds import Round, read_round
from beam_joins.pipelines.systems.postgres.slot_runs import read_in_run
from beam_joins.pipelines.systems.postgres.table_snapshots import Slot
from beam_joins.transforms.connect import checks
from beam_joins.transforms.connect.runs import folder_for, label_of

__all__ = ["ReadPostgres"]

_READ: Final = "_beam_joins_slots"


class ReadPostgres(beam.PTransform[PBegin, Any]):
    """Reads tables of PostgreSQL: their rows, and with ``--beam_joins_state`` every change since the last run, from a
    logical replication slot with PostgreSQL's plugin ``pgoutput``.

    The first run reads a snapshot of the rows at one place in the server's log, each later run the transactions from there
    to the end of the log when the pipeline is built. A change has the position and the event time of its transaction's
    commit. The slot advances when the run is committed with its results; a run that fails or is killed reads the same
    again. Without a state the rows are read, and the slot does not advance.

    * ``conninfo``: the connection of psycopg, a string of ``name=value`` or a URL. Only the process that builds the
      pipeline connects.
    * ``slot``: the name of the slot, which ``beam-joins slot create`` creates.
    * ``publication``: the name of the publication, by default that of the slot.
    * ``table``: the name of a table, or SCHEMA.NAME; gives the table.
    * ``tables``: the names of several tables, which are read up to the same place; gives a dict of them.
    * ``key``: the columns of the primary key; by default as the database has it. Of several tables a dict, by
      the names in ``tables``.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``, by default those of the table and their types, of
      this run and those before; ``None``: values are dicts. Of several tables a dict, by the names in ``tables``.
    * ``emit``, ``without_earlier``: as of :class:`~beam_joins.TableFromChangelog`.

    A table is read again as a snapshot where the log does not contain its rows: after its columns have changed, and after
    an update of a key that omits an unchanged large value.

    Raises ``ValueError`` at construction for a wrong option, and :class:`~beam_joins.InputError`, a ``ValueError`` too,
    when it is applied: if the server does not answer or its ``wal_level`` is not logical; for a slot that is missing, lost,
    in use or of another job; for a missing privilege; and for a table that is not published, or whose changes do not
    identify their row.

    >>> ReadPostgres("dbname=shop", slot="shop", table="orders", tables=["customers"])
    Traceback (most recent call last):
    ValueError: table='orders', tables=['customers']: give the name of a table, or a list of names as tables=
    """

    def __init__(
        self,
        conninfo: str,
        *,
        slot: str,
        publication: str | None = None,
        table: str | None = None,
        tables: Sequence[str] = (),
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        schema: pa.Schema | Mapping[str, pa.Schema | None] | Literal["declared"] | None = "declared",
        emit: Emit = "updates",
        without_earlier: Literal["fail", "drop"] = "fail",
    ) -> None:
        super().__init__()
        checks.text("slot", slot, "the name of a slot")
        if publication is not None:
            checks.text("publication", publication, "the name of a publication")
        if not isinstance(tables, list | tuple) or (table is None) == (not tables):
            raise ValueError(f"table={table!r}, tables={tables!r}: give the name of a table, or a list of names as tables=")
        self._names = checks.columns("tables", tables) if table is None else [checks.text("table", table, "the name of a table")]
        self._alone = table is not None
        checks.choice("emit", emit, Emit)
        checks.choice("without_earlier", without_earlier, Literal["fail", "drop"])
        self._keys = {name: checks.columns("key", each) for name, each in self._by_table("key", key, None).items() if each is not None}
        self._schemas = {name: checked_schema(each) for name, each in self._by_table("schema", schema, "declared").items()}
        self._slot = Slot(checked_conninfo(conninfo), slot, publication or slot)
        self._emit: Emit = emit
        self._without_earlier: Literal["fail", "drop"] = without_earlier

    def _by_table(self, option: str, value: Any, default: Any) -> dict[str, Any]:
        """The value of an option for each table."""
        if self._alone:
            return {self._names[0]: value}
        if value is not default and not isinstance(value, Mapping):
            raise ValueError(f"{option}={value!r}: with tables= give a dict by their names")
        by_table = {} if value is default else value
        if unread := [name for name in by_table if name not in self._names]:
            raise ValueError(f"{option}= names {', '.join(unread)}, and tables= {', '.join(self._names)}")
        return {name: by_table.get(name, default) for name in self._names}

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        label = label_of(begin.pipeline)
        labels = {name: table_label(f"{label}/{ReadTable.__name__ if self._alone else name}") for name in self._names}
        read, stored, is_first = self._read(begin, labels)
        tables = {}
        for name, published in zip(self._names, read.tables.values(), strict=True):
            full = published.table.full_name
            key = self._keys.get(name) or list(published.table.key)
            if not key:
                raise InputError(f"{full} has no primary key: name its columns with key=")
            described = DatabaseTable(full, (), published.columns, dict(published.table.shape), published.kinds, has_texts=True)
            schema = columns_of_runs(described, key, self._schemas[name], stored, labels[name], is_first=is_first)
            rows = rows_of_table(read.files_of(full, key), key, schema, nested=False)._replace(options={"key": list(key)})
            reads = rows.table(emit=self._emit, without_earlier=self._without_earlier)
            table = ReadTable(reads._replace(compared=published.compared_by(key)).of_run)
            tables[name] = begin | (table if self._alone else name >> table)
        return tables[self._names[0]] if self._alone else tables

    def _read(self, begin: PBegin, labels: Mapping[str, str]) -> tuple[Round, dict[str, str], bool]:
        """The round of this run; the remembered columns of the tables, which may be added to; and whether this is the
        first run. ``labels`` are those of the transforms that make the tables.
        """
        slots = begin.pipeline.__dict__.setdefault(_READ, set())
        if self._slot.name in slots:
            raise ValueError(f"slot={self._slot.name!r} is read twice in this pipeline: read all its tables at once, with tables=")
        slots.add(self._slot.name)
        state, keys = folder_for(begin), {name: self._keys.get(name, ()) for name in self._names}
        if state is None:
            folder = tempfile.mkdtemp(prefix="beam-joins-slot-")
            atexit.register(remove_directory, folder)
            return read_round(self._slot, keys, None, folder), {}, True
        anew = [name for name in self._names if state.plan.may_begin(labels[name])]
        read, remembered = read_in_run(self._slot, keys, state, anew)
        return read, remembered.setdefault("schemas", {}), state.is_new
