"""Steps: applies transforms of tables in this process, step by step, without running a pipeline."""

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.columns.positions import times_or_null
from beam_joins.columns.sorting import combine_chunks
from beam_joins.keys.encoded import encoded_keys
from beam_joins.keys.nested import stored_keys
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.arrow_input import plain_schema
from beam_joins.transforms.engine.construction.input_checks import require_tables
from beam_joins.transforms.engine.construction.kept_views import KeptViews
from beam_joins.transforms.engine.construction.plain_rows import PlainRows
from beam_joins.transforms.engine.construction.run_hooks import empty_pipeline
from beam_joins.transforms.engine.construction.table_type import TableType, table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.table_rows import last_of_each, newest, no_rows
from beam_joins.transforms.engine.stepped_tables import SteppedTables
from beam_joins.transforms.engine.turns.stepped_turn import evaluate_in_steps
from beam_joins.transforms.engine.untaken_drops import drops_in_words
from beam_joins.transforms.table_from_changelog import TableFromChangelog

_OPTIONS: Final = ("--beam_joins_partitions=1", "--beam_joins_blocks=inline", "--beam_joins_broadcast_bytes=0")
_log: Final = logging.getLogger("beam_joins")

Frame = Any
"""Rows in columns: a ``pyarrow.Table`` or ``RecordBatch``, or a data frame of pandas, Polars or another library that hands it on as
Arrow does.
"""


class Steps:
    """Applies transforms of tables in this process, step by step: for notebooks and tests. No pipeline is run, and what the transforms
    remember stays in memory, in this one process.

    * ``transform``: a :class:`~beam_joins.View`, or a function that applies transforms to a dict of tables and gives a table.
    * ``tables``: what makes each table of its rows, by name.

    A step is what a run of a pipeline with ``--beam_joins_state`` is: rows behind those of the steps before give the changes that one
    step with all rows gives, and earlier ones are late. Records that are dropped are counted in a warning.

    Raises ``ValueError`` at construction for anything else, and at the first step for a transform that is not of tables, such as one
    that groups elements.

    >>> from beam_joins import TableFromChangelog, View
    >>> shops = TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
    >>> cities = Steps(View("SELECT city, count(*) AS shops FROM shops GROUP BY city"), shops=shops)
    >>> changes = cities.apply(shops=pa.table({"id": [1, 2], "city": ["Oslo", "Oslo"], "lsn": [1, 2]}))
    >>> changes.select(["old", "new", "position"]).to_pylist()[-1]
    {'old': {'city': 'Oslo', 'shops': 1}, 'new': {'city': 'Oslo', 'shops': 2}, 'position': 2}
    >>> changes = cities.apply(shops=pa.table({"id": [2], "city": ["Rome"], "lsn": [3]}))
    >>> cities.rows().to_pylist()
    [{'city': 'Oslo', 'shops': 1}, {'city': 'Rome', 'shops': 1}]
    """

    def __init__(
        self,
        transform: beam.PTransform[Any, Any] | Callable[[dict[str, PCollection[Any]]], PCollection[Any]],
        /,
        **tables: TableFromChangelog,
    ) -> None:
        if not (isinstance(transform, beam.PTransform) or callable(transform)):
            raise ValueError(f"transform={transform!r}: give a View, or a function that applies transforms to a dict of tables")
        if not tables:
            raise ValueError("give what makes the tables, by name, such as orders=TableFromChangelog(...)")
        for name, each in tables.items():
            if not isinstance(each, TableFromChangelog):
                raise ValueError(f"{name}={each!r}: give a TableFromChangelog")
        self._transform, self._tables = transform, tables
        self._made: _Made | None = None
        self._new = list[pa.RecordBatch]()
        self._content: Any = None

    def apply(self, /, **rows: Frame) -> pa.Table:
        """The changes that follow from new rows of tables, in the order of their positions: ``key``, the rows ``old`` and ``new``,
        null where there is none, ``timestamp`` and ``position``.

        The first step takes all tables, maybe without a row, since it decides on their columns. Raises ``ValueError`` for other
        tables, and what the transforms raise; then all is as it was.
        """
        if absent := [name for name in rows if name not in self._tables]:
            raise ValueError(f"there is no table {absent[0]!r}; there are {', '.join(self._tables)}")
        tables = {name: _arrow(name, frame) for name, frame in rows.items()}
        if self._made is None:
            if absent := [name for name in self._tables if name not in tables]:
                raise ValueError(f"the first step needs rows of {absent[0]!r}, or none with its columns: {absent[0]}=frame[:0]")
            self._made = self._applied({name: table.schema for name, table in tables.items()})
        batches, dropped = self._made.tables.step({name: [table] for name, table in tables.items() if len(table)})
        for label, reasons in dropped.items():
            if (sentence := drops_in_words(label, reasons)) is not None:
                _log.warning("%s", sentence)
        self._new += [newest(batch) for batch in batches]
        changes = pa.concat_tables(map(self._made.changes_of, [self._made.no_changes(), *batches]))
        return changes.sort_by("position").combine_chunks()

    def rows(self) -> pa.Table:
        """The rows of the table: the columns of its key that are not among those of the value, and these; none before the first
        step.
        """
        if self._made is None:
            return pa.table({})
        content = no_rows(self._made.type) if self._content is None else self._content
        content = last_of_each(pa.concat_tables([content, *map(_table, self._new)]).combine_chunks())
        self._content, self._new = content.filter(content["value"].is_valid()), []
        key, value = (combine_chunks(self._content[name]) for name in ("key", "value"))
        return pa.table(self._made.plain.columns(self._made.columns_of(key), value), schema=self._made.plain.schema)

    def _applied(self, schemas: Mapping[str, pa.Schema]) -> "_Made":
        pipeline = empty_pipeline(KeptViews([*_OPTIONS]))
        evaluate_in_steps(pipeline)
        inputs, tables = {}, {}
        for name, schema in schemas.items():
            inputs[name] = pipeline | f"Rows of {name}" >> beam.Create([schema.empty_table()]).with_output_types(pa.Table)
            tables[name] = inputs[name] | name >> self._tables[name]
        if isinstance(self._transform, beam.PTransform):
            transform = copy.copy(self._transform)  # Beam ties a transform to the pipeline that it is applied in first
            transform.pipeline = None
            result = tables | transform
        else:
            result = self._transform(tables)
        require_tables("Steps", result)
        of_table = table_type(result)
        is_hidden = not of_table.key_names and pa.types.is_struct(of_table.value_column)
        typed = of_table if of_table.has_typed_keys else of_table._replace(key=pa.null())
        plain = PlainRows("Steps", typed, of_table.key_names or None, without_key=is_hidden)
        return _Made(of_table, plain, SteppedTables(pipeline, inputs, in_batches(result)))


class _Made(NamedTuple):
    """The transforms of steps, applied: the type of their table, its rows, and the tables of all stages."""

    type: TableType
    plain: PlainRows
    tables: SteppedTables

    def changes_of(self, batch: ChangeBatch) -> pa.Table:
        """The changes of a batch."""
        columns = {"key": self.columns_of(batch.key), "old": batch.old, "new": batch.new}
        return pa.table(columns | {"timestamp": times_or_null(batch.timestamp), "position": times_or_null(batch.position)})

    def columns_of(self, keys: pa.Array) -> pa.Array:
        """Keys as plain columns: those of Python objects as the bytes that they are encoded to, that of a total, ``()``, as null."""
        if self.type.is_total:
            return pa.nulls(len(keys))
        return stored_keys(keys) if self.type.has_typed_keys else encoded_keys(keys)

    def no_changes(self) -> ChangeBatch:
        """A batch without changes."""
        key, value, number = (pa.nulls(0, kind) for kind in (self.type.key_column, self.type.value_column, pa.int64()))
        return ChangeBatch(key=key, new=value, before=number, timestamp=number, position=number)


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _arrow(name: str, frame: Frame) -> pa.Table:
    """The rows of a frame in types that tables have; raises ``ValueError`` for what is none."""
    if isinstance(frame, pa.RecordBatch):
        frame = _table(frame)
    elif type(frame).__module__.partition(".")[0] == "pandas":
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    elif hasattr(frame, "__arrow_c_stream__"):
        frame = pa.table(frame)
    else:
        raise ValueError(f"{name}={frame!r}: give a pyarrow.Table, or a data frame of pandas or Polars")
    return frame.cast(plain_schema(frame.schema))
