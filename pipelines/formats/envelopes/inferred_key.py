"""Infers a table's primary key and columns from the first change events of its files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.envelopes.enveloped import Enveloped
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, RowChange, is_pattern, require_one_table
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.registry import packed_as
from beam_joins.values.schema_evolution import union_type

_TABLES_SHOWN: Final = 10


class Evidence(NamedTuple):
    """The evidence of change events about a table: the primary ``key``, empty if no change names it, and the
    ``types`` of all columns, empty if some changes do not have them.

    ``whole`` are the columns of the first row that is known to have all; ``doubt`` is a sentence about rows
    that may lack some, or a table that may be missing. ``is_there``: there is a change of the table.
    ``without_rows``: all changes were looked at, and each is a delete or a truncate.
    """

    key: tuple[str, ...] = ()
    types: tuple[pa.Schema, ...] = ()
    whole: pa.Schema | None = None
    doubt: str = ""
    is_there: bool = False
    without_rows: bool = False


NOTHING: Final = Evidence()


def evidence_of(name: str, changes: Iterable[RowChange], most: int, *, partitions: bool = False) -> Evidence:
    """Infers key and types from at most so many changes; those of several tables may be ``partitions`` of one, else
    InputError is raised.
    """
    key: tuple[str, ...] = ()
    types: list[pa.Schema] = []
    all_typed, partial, tables, rows, looked_at = True, 0, set(), 0, 0
    whole: pa.Schema | None = None
    for change in itertools.islice(changes, most):
        key = key or change.key
        tables.add(change.table)
        looked_at += 1
        if change.operation in (INSERT, UPSERT):
            rows += 1
            partial += change.partial
            all_typed &= change.types is not None
            if not change.partial and (whole is None or change.types is None):
                whole = _with(whole, _columns(change))
        if change.types is not None and not any(change.types is each for each in types):
            types.append(change.types)
    if not partitions:
        try:
            require_one_table("", tables)
        except ValueError as error:
            raise InputError(f"{name}: the input {error}") from error
    of_one = bool(tables)
    doubt = ""
    if partial and whole is None:
        doubt = (
            f"no insert and no whole old row among the first changes says which columns {name} have: updates without a "
            "large value (TOAST) or a column (binlog_row_image=MINIMAL) that has not changed cannot be told from rows without it, "
            "unless the log has whole rows (REPLICA IDENTITY FULL, binlog_row_image=FULL) or schema= names the columns"
        )
    without_rows = not rows and looked_at < most
    return Evidence(key, tuple(types) if all_typed else (), whole if of_one else None, doubt, bool(tables), without_rows)


def require_one_type(name: str, key: Iterable[str], schemas: Iterable[pa.Schema]) -> None:
    """Raise InputError for a column of the key that holds times of two types: one instant would be two keys, as texts of
    times have as many digits as their unit.
    """
    schemas = list(schemas)
    for column in key:
        types = dict.fromkeys(schema.field(column).type for schema in schemas if column in schema.names)
        if len(types) > 1 and all(map(pa.types.is_temporal, types)):
            shown = " and ".join(map(str, types))
            raise InputError(
                f"{name}: the key's column '{column}' is {shown} in the events, of which keys are texts with the digits of the unit: "
                "read those of each type by themselves"
            )


def sentence_on(name: str, table: str, tables: Iterable[str]) -> str:
    """The sentence on a table that no event is of, given the names of those that there are; empty where there
    is none.

    >>> sentence_on("rows", "orders", ["shop.orders_1"])  # doctest: +NORMALIZE_WHITESPACE
    "rows: no event is of the table orders: there are those of shop.orders_1; name one of these as the table, or several by
    a pattern such as 'shop.orders_*'"
    """
    there = sorted(set(filter(None, tables)))
    if not there:
        return ""
    more = f" and {len(there) - _TABLES_SHOWN:,} more" if len(there) > _TABLES_SHOWN else ""
    schema, _, last = table.rpartition(".")
    pattern = f"{there[0]}*" if is_pattern(table) else f"{schema or there[0].rpartition('.')[0]}.{last}_*".removeprefix(".")
    several = f", or several by a pattern such as '{pattern}'" if any(fnmatchcase(each, pattern) for each in there) else ""
    return (
        f"{name}: no event is of the table {table}: there are those of {', '.join(there[:_TABLES_SHOWN])}{more}; name one of "
        f"these as the table{several}"
    )


def absent_table(name: str, files: Sequence[File]) -> tuple[str, str]:
    """The sentence on a table that no event of files is of: for the run to refuse, or a doubt where not all of
    them could be looked at.
    """
    tables = (change.table for change in changes_in(name, [replace(file, table="") for file in files]))
    sentence = sentence_on(name, files[0].table, tables)
    if sentence and any(0 < file.look_bytes < file.bytes or (file.look_bytes and packed_as(file.path)) for file in files):
        return "", f"{sentence} (only the beginning of each file was looked at)"
    if sentence and (bad := next((file for file in files if _reader(file).has_faults(file)), None)):
        return "", f"{sentence} (but {bad.shown} has events that cannot be used)"  # which the run is to name
    return sentence, ""


def changes_in(name: str, files: Sequence[File]) -> Iterator[RowChange]:
    """The changes in files of envelopes. Raises InputError."""
    for file in files:
        try:
            yield from _reader(file).changes(replace(file, columns=None))
        except OSError:
            raise
        except ValueError as error:
            raise InputError(f"{name}: {file.shown} {error}") from error


def _reader(file: File) -> Enveloped:
    assert isinstance(file.reader, Enveloped), file
    return file.reader


def together(name: str, schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Merges schemas, whose types may get wider. Raises InputError for a column of two types of which neither holds the values of
    the other.
    """
    fields: dict[str, pa.Field] = {}
    for field in itertools.chain(*schemas):
        first = fields.setdefault(field.name, field)
        try:
            fields[field.name] = first.with_type(union_type(first.type, field.type))
        except ValueError:
            both = f"{first.type} in some changes and {field.type} in others"
            raise InputError(f"{name}: column '{field.name}' is {both}: say with schema= what it is") from None
    return pa.schema(list(fields.values()))


def _with(columns: pa.Schema | None, others: pa.Schema | None) -> pa.Schema | None:
    """The columns of two rows: one may leave out those that are null."""
    if columns is None or others is None:
        return columns or others
    return pa.schema([*columns, *(field for field in others if field.name not in columns.names)])


def _columns(change: RowChange) -> pa.Schema | None:
    """The columns of a row, of type null where nothing says of what type they are; ``None`` for a row that
    cannot be read.
    """
    if change.types is not None:
        return change.types
    try:
        names = msgspec.json.decode(change.row, type=dict[str, msgspec.Raw])
    except ValueError:  # a bad record, which is told where it is read
        return None
    return pa.schema([(column, pa.null()) for column in names])
