"""The transforms of ``providers.yaml``: Beam YAML calls each function with the entries of ``config``, and reads its
signature and docstring.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

import beam_joins
from beam_joins import ChangeBatch, Dropped
from beam_joins.pipelines.formats.plain_rows import PlainRows
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.io.read_change_events import ReadChangeEvents
from beam_joins.pipelines.io.read_changelog import ReadChangelog
from beam_joins.pipelines.io.sources.read_table import ReadTable
from beam_joins.pipelines.io.write_changelog import WriteChangelog
from beam_joins.pipelines.yaml.rows import as_columns, columns_of, row_type, rows_of
from beam_joins.transforms.connect import table_type

Columns = list[str]
_ERRORS = pa.schema([("reason", pa.string()), ("record", pa.string()), ("timestamp", pa.int64())])


class _Applied(beam.PTransform[Any, Any]):
    """What a function makes of the input."""

    def __init__(self, apply: Callable[[Any], Any]) -> None:
        super().__init__()
        self._apply = apply

    def expand(self, pcolls: Any) -> Any:
        """Apply the transform."""
        return self._apply(pcolls)


def _of_two(join: beam.PTransform[Any, Any]) -> beam.PTransform[Any, Any]:
    """The join of the inputs that are named ``left`` and ``right``."""

    def apply(tables: Any) -> Any:
        if not isinstance(tables, Mapping) or {*tables} != {"left", "right"}:
            raise ValueError("give the inputs names: input: {left: NAME, right: NAME}")
        return (tables["left"], tables["right"]) | "Join" >> join

    return _Applied(apply)


def _with_errors(table: PCollection[Any], dropped: tuple[PCollection[Dropped], ...], error_handling: Mapping[str, Any]) -> Any:
    """The table, and what it is not made of as rows, under the name that ``output`` of ``error_handling`` says."""
    errors = dropped | "Errors" >> beam.Flatten() | "Error" >> beam.Map(_error).with_output_types(row_type(_ERRORS))
    return {"good": table, error_handling["output"]: errors}


def _error(dropped: Dropped) -> Any:
    record = dropped.record if isinstance(dropped.record, str) else dumps_line(dropped.record).decode().rstrip()
    return beam.Row(reason=dropped.reason, record=record, timestamp=dropped.timestamp)


def table_from_changelog(
    key: Columns,
    timestamp_by: str,
    sequence_by: Columns | None = None,
    apply_as_deletes: dict[str, Any] | None = None,
    except_columns: Columns | None = None,
    error_handling: Mapping[str, Any] | None = None,
) -> beam.PTransform[Any, Any]:
    """Makes the table of a changelog of rows.

    Args:
      key: The columns of the primary key.
      timestamp_by: The column with the event time, microseconds since the epoch or a timestamp.
      sequence_by: The columns that order the changes of a row; by default their event times do.
      apply_as_deletes: A column and its values that mean that the row is deleted.
      except_columns: Columns that are no part of the values.
      error_handling: The output with the records that are dropped, as rows of reason, record and timestamp.
    """
    made = beam_joins.TableFromChangelog(
        key=key[0] if len(key) == 1 else key,
        timestamp_by=timestamp_by,
        sequence_by=sequence_by,
        apply_as_deletes=apply_as_deletes,
        except_columns=except_columns or (),
    )

    def apply(rows: PCollection[Any]) -> Any:
        columns = as_columns(rows, columns_of(rows))
        if error_handling is None:
            return columns | "Table" >> made
        outputs = columns | "Table" >> made.with_outputs()
        return _with_errors(outputs.table, (outputs.dropped,), error_handling)

    return _Applied(apply)


def read_changelog(
    path: str,
    key: Columns,
    timestamp_by: str,
    timestamp_unit: Literal["us", "ms", "s", "ns"] = "us",
    sequence_by: Columns | None = None,
    apply_as_deletes: dict[str, Any] | None = None,
    apply_as_upserts: dict[str, Any] | None = None,
    ignored: dict[str, Any] | None = None,
    except_columns: Columns | None = None,
    schema: dict[str, str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    error_handling: Mapping[str, Any] | None = None,
) -> beam.PTransform[Any, Any]:
    """Reads the table of a changelog of rows in files: JSON lines, CSV, Avro, Parquet, Arrow.

    Args:
      path: A path or a glob.
      key: The columns of the primary key.
      timestamp_by: The column with the event time.
      timestamp_unit: What a whole number in it counts since 1970.
      sequence_by: The columns that order the changes of a row.
      apply_as_deletes: A column and its values that mean that the row is deleted.
      apply_as_upserts: The same column and its values that mean an insert or an update.
      ignored: A column and its values that mean no change.
      except_columns: Columns that are no part of the values.
      schema: The types of the columns, as Arrow calls them, such as int64, string, timestamp[us].
      delimiter: Of CSV, "tab" or what else stands between fields; by default as the header shows.
      encoding: Of CSV, such as cp1252; by default as its byte order mark says, else UTF-8.
      error_handling: The output with the records that are dropped, and with bad ones, which fail the run otherwise, as
        rows of reason, record and timestamp.
    """
    read = ReadChangelog(
        path,
        key=key,
        timestamp_by=timestamp_by,
        timestamp_unit=timestamp_unit,
        sequence_by=sequence_by,
        apply_as_deletes=apply_as_deletes,
        apply_as_upserts=apply_as_upserts,
        ignored=ignored,
        delimiter=delimiter,
        encoding=encoding,
        except_columns=except_columns or (),
        schema=_schema(schema),
        on_bad_record="fail" if error_handling is None else "drop",
    )
    return _read(read, error_handling)


def read_change_events(
    path: str,
    format: Literal["debezium", "wal2json", "maxwell"],
    table: str = "",
    key: Columns | None = None,
    schema: dict[str, str] | None = None,
    error_handling: Mapping[str, Any] | None = None,
) -> beam.PTransform[Any, Any]:
    """Reads the table of the change events of a CDC tool in files.

    Args:
      path: A path or a glob.
      format: The envelopes of the events.
      table: The table whose rows count.
      key: The columns of the primary key; by default those that the first event names.
      schema: The types of the columns, as Arrow calls them, such as int64, string, timestamp[us].
      error_handling: The output with the events that are dropped, and with bad ones, which fail the run otherwise, as
        rows of reason, record and timestamp.
    """
    on_bad_record: Literal["fail", "drop"] = "fail" if error_handling is None else "drop"
    read = ReadChangeEvents(path, format=format, table=table, key=key, schema=_schema(schema), on_bad_record=on_bad_record)
    return _read(read, error_handling)


def _read(read: ReadTable, error_handling: Mapping[str, Any] | None) -> beam.PTransform[Any, Any]:
    """The table, and the records that it is not made of where these are an output."""
    if error_handling is None:
        return read

    def apply(begin: Any) -> Any:
        outputs = begin | "Read" >> read.with_outputs()
        return _with_errors(outputs.table, (outputs.dropped, outputs.bad_records), error_handling)

    return _Applied(apply)


def _schema(types: Mapping[str, str] | None) -> Any:
    """The option ``schema=`` of a reader, from the names of types."""
    return "said" if types is None else pa.schema([(name, _type(name, kind)) for name, kind in types.items()])


def _type(name: str, kind: str) -> pa.DataType:
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        raise ValueError(f"schema: {name}: {kind} is no type of Arrow: write int64, double, string, timestamp[us] and so on") from None


def foreign_key_join(
    foreign_key: str, fields: dict[str, str], type: Literal["inner", "left", "right", "outer"] = "inner"
) -> beam.PTransform[Any, Any]:
    """Joins each row of the table ``left`` with the row of ``right`` that it refers to.

    Args:
      foreign_key: The column of the left rows with the key of a right row.
      fields: The columns of the result, each with the column that it is of: left.NAME or right.NAME.
      type: Which rows without a match stay.
    """
    return _of_two(beam_joins.ForeignKeyJoin(fields, foreign_key=foreign_key, how=type))


def table_table_join(fields: dict[str, str], type: Literal["inner", "left", "right", "outer"] = "inner") -> beam.PTransform[Any, Any]:
    """Joins the rows of one key of the tables ``left`` and ``right``.

    Args:
      fields: The columns of the result, each with the column that it is of: left.NAME or right.NAME.
      type: Which rows without a match stay.
    """
    return _of_two(beam_joins.TableTableJoin(fields, how=type))


def count_table(group_by: str) -> beam.PTransform[Any, Any]:
    """Counts the rows of each group.

    Args:
      group_by: The column with the group.
    """
    return beam_joins.CountTable(group_by=group_by)


def sum_table(group_by: str, of: str) -> beam.PTransform[Any, Any]:
    """Sums a column of the rows of each group.

    Args:
      group_by: The column with the group.
      of: The column with the numbers.
    """
    return beam_joins.SumTable(group_by=group_by, of=of)


def latest_table(key: Columns | None = None) -> beam.PTransform[Any, Any]:
    """Gives the final rows of a table: the columns of the key, then those of the value.

    Args:
      key: The names of the columns of the key.
    """

    def apply(table: PCollection[Any]) -> Any:
        plain = PlainRows("LatestTable", table_type(table), key)
        latest = table | "Latest" >> beam_joins.LatestTable()
        return latest | "Rows" >> beam.FlatMap(partial(_latest, plain)).with_output_types(row_type(plain.schema))

    return _Applied(apply)


def _latest(plain: PlainRows, batch: pa.RecordBatch) -> Any:
    return rows_of(plain.structs(batch["key"], batch["value"]))


def table_to_changes(key: Columns | None = None) -> beam.PTransform[Any, Any]:
    """Gives the changes of a table, as rows of ``old`` and ``new``, null where the row does not exist, ``timestamp``
    in microseconds, and ``position``.

    Args:
      key: The names of the columns of the key.
    """

    def apply(table: PCollection[Any]) -> Any:
        plain = PlainRows("TableToChanges", table_type(table), key)
        schema = _changes_schema(plain)
        return table | "Changes" >> beam.FlatMap(partial(_changes, plain)).with_output_types(row_type(schema))

    return _Applied(apply)


def _changes_schema(plain: PlainRows) -> pa.Schema:
    row = pa.struct(list(plain.schema))
    return pa.schema([("old", row), ("new", row), ("timestamp", pa.int64()), ("position", pa.int64())])


def _changes(plain: PlainRows, batch: ChangeBatch) -> Any:
    rows = [plain.structs(batch.key, values) for values in (batch.old, batch.new)]
    columns = [*rows, batch.timestamp, batch.position]
    return rows_of(pa.StructArray.from_arrays(columns, fields=list(_changes_schema(plain))))


def write_changelog(
    path: str,
    records: Literal["upserts", "pairs", "changes", "rows"] = "upserts",
    key: Columns | None = None,
    table: str = "",
) -> beam.PTransform[Any, Any]:
    """Writes the changes of a table into a file, in the order of their positions, or its rows.

    Args:
      path: The file, whose suffix says the format.
      records: upserts, the row after each change; pairs of the old and the new row, as Debezium has them;
        changes, as the command line writes them; or rows, those that the table has in the end.
      key: The names of the columns of the key.
      table: The name of the table that pairs say.
    """
    return WriteChangelog(path, records=records, key=key, table=table)


def write_postgres(conninfo: str, table: str, key: Columns, create: bool = False) -> beam.PTransform[Any, Any]:
    """Keeps a table of PostgreSQL up to date.

    Args:
      conninfo: What psycopg connects with: name=value pairs, or a URL.
      table: The table, or SCHEMA.NAME.
      key: The columns of the key.
      create: Whether a table that is missing is created.
    """
    from beam_joins.pipelines.io.write_postgres import WritePostgres

    return WritePostgres(conninfo, table, key=key, create=create)
