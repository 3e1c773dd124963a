"""TableToRows: emits a typed table as rows with a Beam schema."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.columns.positions import times_or_null
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.beam_schemas import row_type, rows_of
from beam_joins.transforms.engine.construction.input_checks import require_tables, warn_of_void_rows
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.option_checks import choice, columns
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.plain_rows import PlainRows
from beam_joins.transforms.engine.construction.table_type import table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.transform import Transform
from beam_joins.transforms.engine.turns.ticks import at_event_times
from beam_joins.transforms.latest_table import LatestTable

RowRecords: TypeAlias = Literal["rows", "changes", "upserts"]
"""The records that a table gives as Beam rows."""
_ABOUT: Final = pa.schema([("timestamp", pa.int64()), ("position", pa.int64())])


class TableToRows(Transform[TableInput, PCollection[beam.Row]]):
    """Emits a table as rows with a Beam schema, for ``SqlTransform``, ``to_dataframe``, ``assert_that``, the Storage Write API of
    ``WriteToBigQuery`` and whatever else takes rows. Keys and values must be typed columns.

    * ``records``: ``"rows"`` (default) are the final rows, for bounded input: the columns of the key, then those of the value.
      ``"changes"`` are all changes, with the rows ``old`` and ``new``, null where the row does not exist. ``"upserts"`` are the new
      rows of all changes, with ``deleted``, and the columns of the value null where it is true. Changes and upserts have
      ``timestamp``, the event time in microseconds, and ``position``, which are null for records without a time.
    * ``key``: the names of the key's columns, by default ``key``, or those that a key of several columns was made of. A column of
      the value that has one of these names gives way to it.

    Timestamps are Beam's ``Timestamp``, UUIDs text. Each row has the event time of its change.

    Raises ``ValueError`` at construction for a wrong option; when applied, for a table of Python objects, for a type that Beam
    rows do not have, for a name that is no name of a field or is there twice, and as :class:`~beam_joins.LatestTable` does.

    >>> import apache_beam as beam
    >>> from beam_joins import TableFromChangelog
    >>> rows = pa.table({"id": [1, 2, 1], "name": ["Ann", "Bob", "Eve"], "lsn": [7, 8, 9]})
    >>> with beam.Pipeline() as pipeline:
    ...     table = pipeline | beam.Create([rows]) | TableFromChangelog(key="id", sequence_by="lsn", except_columns=["lsn"])
    ...     _ = table | TableToRows(key="id") | beam.Map(print)
    Row(id=1, name='Eve')
    Row(id=2, name='Bob')
    """

    def __init__(self, *, records: RowRecords = "rows", key: str | Sequence[str] | None = None) -> None:
        self._records: RowRecords = choice("records", records, RowRecords)
        self._key = None if key is None else columns("key", key)

    def outputs_of(self, pcoll: PCollection[Any]) -> PCollection[beam.Row]:
        """The outputs for the table."""
        require_tables("TableToRows", pcoll)
        plain = PlainRows("TableToRows", table_type(pcoll), self._key)
        if self._records != "rows":
            warn_of_void_rows(pcoll)
        schema, timed, records = _schema(plain, self._records), at_event_times(pcoll), self._records

        def final_rows(batch: pa.RecordBatch) -> Iterator[Any]:
            rows = pa.RecordBatch.from_arrays(plain.columns(batch["key"], batch["value"]), schema=schema)
            return timed(rows_of(rows), batch["timestamp"].fill_null(NO_TIME))

        def rows_of_changes(batch: ChangeBatch) -> Iterator[Any]:
            return timed(rows_of(pa.RecordBatch.from_arrays(_columns(plain, batch, records), schema=schema)), batch.timestamp)

        run = beam.ParDo(ForEach(final_rows if records == "rows" else rows_of_changes)).with_output_types(row_type(schema))
        batches: PCollection[Any] = pcoll | "Latest" >> LatestTable() if records == "rows" else in_batches(pcoll)
        rows: PCollection[beam.Row] = batches | "Rows" >> run
        return rows


def _schema(plain: PlainRows, records: RowRecords) -> pa.Schema:
    """The columns of rows; raises ``ValueError`` for a column of the table that has the name of one about the change."""
    row = pa.struct(list(plain.schema))
    if records == "changes":
        return pa.schema([("old", row), ("new", row), *_ABOUT])
    about = [] if records == "rows" else [*_ABOUT, pa.field("deleted", pa.bool_())]
    if taken := [field.name for field in about if field.name in plain.schema.names]:
        raise ValueError(
            f"TableToRows: the table has a column {taken[0]!r}, as the change itself: give it another name with MapTable, or take "
            "changes"
        )
    return pa.schema([*plain.schema, *about])


def _columns(plain: PlainRows, batch: ChangeBatch, records: RowRecords) -> list[pa.Array]:
    """The columns of changes or upserts."""
    about = [times_or_null(batch.timestamp), times_or_null(batch.position)]
    if records == "changes":
        return [plain.structs(batch.key, batch.old), plain.structs(batch.key, batch.new), *about]
    return [*plain.columns(batch.key, batch.new), *about, batch.new.is_null()]
