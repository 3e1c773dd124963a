"""A raw changelog in columns: batches of Arrow rows on their way to become a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.fields import Deleting, Field, Fields, deletes_of, micros, names_in, names_of, place, tie_order
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions import by_row, each_row, field_of, keys_of, vectorized
from beam_joins.keys.columns import Bools
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import is_opaque
from beam_joins.sorting import valid
from beam_joins.transforms.engine.arrow_input import struct_of
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.replay import RowRouter


class ChangelogColumns(NamedTuple):
    """Which columns of a changelog mean what; see the options of :class:`beam_joins.transforms.table_from_changelog.TableFromChangelog`."""

    key: Field | Sequence[str] | None
    timestamp: Field | None
    sequence: Fields | None
    deletes: Deleting | None
    left_out: frozenset[str]
    tie: Fields | None = None

    def options(self) -> list[tuple[str, Any]]:
        """The options that say something of each record, by name, and what is given as each."""
        return [
            ("key", self.key),
            ("timestamp_by", self.timestamp),
            ("sequence_by", self.sequence),
            ("apply_as_deletes", self.deletes),
            ("tie_break_by", self.tie),
        ]


class _Columns(NamedTuple):
    """What the records of a batch are in a changelog; null where one is missing. ``deleted``, ``within`` and ``tie`` may not be said."""

    key: pa.Array
    timestamp: pa.Array
    position: pa.Array
    within: pa.Array | None
    deleted: pa.Array | None
    tie: pa.Array | None


def column_rows(to: str, columns: ChangelogColumns, schema: pa.Schema, options: Iterable[tuple[str, Any]] = ()) -> RowRouter:
    """The rows of batches with the columns of the schema for the replay named ``to``; every batch must have those that ``options`` name."""
    named = [(option, name) for option, spec in options for name in names_in(spec)]

    def rows(batch: Any, arrival: int, writer: BlockWriter) -> None:
        records = struct_of(batch, schema, named)
        # every function before the first record is dropped: one that raises has the others called again
        key, timestamp, position, within, deleted, tie = _columns_of(records, columns, arrival)
        required = {"null_timestamp": timestamp, "null_key": key, "null_sequence": position}
        given = given_rows(records, required, timestamp.fill_null(arrival), writer)
        value = without(records, columns.left_out)
        if deleted is not None:
            value = pc.if_else(deleted, pa.scalar(None, value.type), value)
        table = pa.record_batch([key, value, timestamp, position], names=["key", "value", "timestamp", "position"])
        if within is not None:
            table = table.append_column("within", within)
        if tie is not None:
            table = table.append_column("tie", tie)
        if not given.all():
            table = table.filter(pa.array(given))
        writer.send(to, hashes(table.column("key")), table)

    return rows


def column_types(columns: ChangelogColumns, schema: pa.Schema) -> tuple[pa.DataType | None, pa.DataType]:
    """The types of the keys and values of the table, ``None`` for keys that are Python objects.

    Raises ``ValueError`` if nothing tells the keys, or their order, and for a column that the schema does not have.
    """
    if columns.key is None:
        raise ValueError("a changelog in columns needs key=: the name of a column, a list of names, or a function")
    if columns.timestamp is None and columns.sequence is None:
        raise ValueError(
            "a changelog in columns needs timestamp_by= or sequence_by=, as the rows of a batch have no time of their own"
        )
    require_columns_there("except_columns", columns.left_out, schema.names)
    records = struct_of(schema.empty_table(), schema)
    try:
        key = _columns_of(records, columns, 0).key.type
    except FunctionFailed as error:
        raise ValueError(f"{error}; it is called with no rows when the pipeline is built, to know what it gives") from error
    return None if is_opaque(key) else key, without(records, columns.left_out).type


def require_columns_there(option: str, names: Iterable[str], there: Sequence[str]) -> None:
    """Raise ``ValueError`` for a column that there is not."""
    if missing := sorted(set(names).difference(there)):
        raise ValueError(f"{option} names {', '.join(missing)}, which no record has; there are {', '.join(there)}")


def _columns_of(records: pa.Array, columns: ChangelogColumns, arrival: int) -> _Columns:
    timestamp = times_of("timestamp_by", columns.timestamp, records, arrival)
    key = keys_of("key", columns.key, records)
    position, within = (timestamp, None) if columns.sequence is None else places("sequence_by", columns.sequence, records)
    deleted = None if columns.deletes is None else deleted_rows(columns.deletes, records)
    return _Columns(key, timestamp, position, within, deleted, None if columns.tie is None else tie_orders(columns.tie, records))


def deleted_rows(spec: Any, records: pa.Array) -> pa.Array:
    """Which records delete their row; raises ``ValueError`` for a value whose meaning is not known."""
    if isinstance(spec, Mapping) and (deletes := deletes_of(spec)):
        operations = field_of(records, deletes.field, "apply_as_deletes")
        if pa.types.is_dictionary(operations.type):
            operations = operations.dictionary_decode()
        encoded = operations.dictionary_encode("encode")
        return pa.array(map(deletes, encoded.dictionary.to_pylist()), pa.bool_()).take(encoded.indices)
    if isinstance(spec, str | vectorized):
        deleted = by_row("apply_as_deletes", spec, records)
        if not pa.types.is_boolean(deleted.type) and not pa.types.is_null(deleted.type):
            raise ValueError(f"apply_as_deletes gave values of type {deleted.type}: give true for a row that deletes")
        return deleted.cast(pa.bool_()).fill_null(False)
    return pa.array([bool(deletes) for deletes in each_row(spec, records)], pa.bool_())


def times_of(option: str, spec: Field | None, records: pa.Array, arrival: int) -> pa.Array:
    """Times in microseconds since the epoch; those of an Arrow timestamp have a time zone."""
    if spec is None:
        return pa.array(np.full(len(records), arrival, np.int64))
    if isinstance(spec, str | vectorized):
        times = by_row(option, spec, records)
    else:
        given = map(spec, records.to_pylist())
        times = pa.array([None if time is None else micros(time) for time in given], pa.int64())
    if pa.types.is_timestamp(times.type) and times.type.tz is not None:
        return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    if pa.types.is_integer(times.type) or pa.types.is_null(times.type):
        return times.cast(pa.int64())
    raise ValueError(
        f"{option} gave times of type {times.type}: give microseconds since the epoch as whole numbers, or timestamps with a time zone"
    )


def without(records: pa.Array, left_out: frozenset[str]) -> pa.Array:
    """The records without some of their columns."""
    kept = [i for i, field in enumerate(records.type) if field.name not in left_out]
    if len(kept) == records.type.num_fields:
        return records
    columns = records.flatten()
    if not kept:
        raise ValueError("except_columns leaves no column for the value")
    return pa.StructArray.from_arrays([columns[i] for i in kept], fields=[records.type.field(i) for i in kept])


def places(option: str, spec: Any, records: pa.Array, keys: Callable[[], list[Any]] | None = None) -> tuple[pa.Array, pa.Array | None]:
    """The positions that ``sequence_by`` gives and, where it is of several numbers, the order within them; with ``keys`` a function of key and record.

    Both are null where one of the numbers is. Raises ``ValueError`` for what is no whole number of 64 bits.
    """
    if not isinstance(spec, str | vectorized) and callable(spec):
        rows = records.to_pylist()
        given = [place(option, value) for value in (map(spec, rows) if keys is None else map(spec, keys(), rows))]
        within = [None if placed is None else placed[1] for placed in given]
        return pa.array([None if placed is None else placed[0] for placed in given], pa.int64()), pa.array(within, pa.binary())
    numbers = _numbers(option, spec, records)
    missing = ~np.logical_and.reduce([valid(column) for column in numbers])
    first = pc.if_else(pa.array(missing), pa.scalar(None, pa.int64()), numbers[0]) if missing.any() else numbers[0]
    return first, _order(numbers[1:]) if len(numbers) > 1 else None


def tie_orders(spec: Any, records: pa.Array) -> pa.Array:
    """The order that ``tie_break_by`` gives, as bytes; raises ``ValueError`` for what is no whole number of 64 bits."""
    if not isinstance(spec, str | vectorized) and callable(spec):
        return pa.array([tie_order(spec(record)) for record in records.to_pylist()], pa.binary())
    numbers = _numbers("tie_break_by", spec, records)
    there = pa.array(np.logical_and.reduce([valid(column) for column in numbers]))
    return pc.if_else(there, _order(numbers), pa.scalar(b""))


def _numbers(option: str, spec: Any, records: pa.Array) -> list[pa.Array]:
    names = names_of(option, spec)
    columns = [by_row(option, spec, records)] if names is None else [field_of(records, name, option) for name in names]
    if len(columns) == 1 and pa.types.is_struct(columns[0].type):
        columns = columns[0].flatten()
    return [_whole_numbers(option, column) for column in columns]


def _whole_numbers(option: str, column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise ValueError(f"{option} gave a position that does not fit in 64 bits: scale the sequence down") from None
    raise ValueError(f"{option} gave positions of type {column.type}: a position is a whole number, so turn it into an int")


def _order(columns: Sequence[pa.Array]) -> pa.Array:
    """Bytes that compare as the tuples of the columns' numbers do."""
    biased = [
        column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63) for column in columns
    ]
    width = 8 * len(columns)
    data = np.stack(biased, axis=1).astype(">u8").tobytes() if len(biased[0]) else b""
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(biased[0]), [None, pa.py_buffer(data)])
    return fixed.cast(pa.binary())


def given_rows(records: pa.Array, required: dict[str, pa.Array], timestamp: pa.Array, writer: BlockWriter) -> Bools:
    """Which records have all that is required of them; the others are dropped, each for the first reason."""
    given = np.ones(len(records), np.bool_)
    for reason, column in required.items():
        missing = given & ~valid(column)
        chosen = pa.array(missing)
        writer.drop_rows(reason, int(missing.sum()), partial(_timed, records, timestamp, chosen))
        given &= ~missing
    return given


def _timed(records: pa.Array, timestamp: pa.Array, chosen: pa.Array) -> Iterable[tuple[Any, int]]:
    return zip(records.filter(chosen).to_pylist(), timestamp.filter(chosen).to_pylist(), strict=True)
