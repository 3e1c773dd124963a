"""Infers a table's primary key and columns from the first change events of its files."""

import itertools
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, RowChange


class Evidence(NamedTuple):
    """What change events tell of a table: the primary ``key``, empty if no change names it, and the ``types``
    of all columns, empty if some changes do not have them.

    ``whole`` are the columns of the first row that is known to have all; ``doubt`` is a sentence about rows
    that may lack some.
    """

    key: tuple[str, ...] = ()
    types: tuple[pa.Schema, ...] = ()
    whole: pa.Schema | None = None
    doubt: str = ""


NOTHING: Final = Evidence()


def evidence_of(name: str, changes: Iterable[RowChange], most: int) -> Evidence:
    """Infers key and types from at most so many changes."""
    key: tuple[str, ...] = ()
    types: list[pa.Schema] = []
    all_typed, partial, tables = True, 0, set()
    whole: pa.Schema | None = None
    for change in itertools.islice(changes, most):
        key = key or change.key
        tables.add(change.table)
        if change.operation in (INSERT, UPSERT):
            partial += change.partial
            all_typed &= change.types is not None
            if not change.partial and (whole is None or change.types is None):
                whole = _with(whole, _columns(change))
        if change.types is not None and not any(change.types is each for each in types):
            types.append(change.types)
    of_one = len(tables) == 1
    doubt = ""
    if partial and whole is None:
        doubt = (
            f"no insert and no whole old row among the first changes says which columns {name} have: updates without a "
            "large value (TOAST) or a column (binlog_row_image=MINIMAL) that has not changed cannot be told from rows without it, "
            "unless the log has whole rows (REPLICA IDENTITY FULL, binlog_row_image=FULL) or schema= names the columns"
        )
    return Evidence(key, tuple(types) if all_typed else (), whole if of_one else None, doubt)


def together(name: str, schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Merges schemas. Raises InputError for a column of two types."""
    fields: dict[str, pa.Field] = {}
    for field in itertools.chain(*schemas):
        first = fields.setdefault(field.name, field)
        if first.type != field.type:
            raise InputError(
                f"{name}: column '{field.name}' is {first.type} in some changes and {field.type} in others: say with "
                "schema= what it is"
            )
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
