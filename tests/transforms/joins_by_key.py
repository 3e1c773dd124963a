"""Every join, of rows that are numbered and keyed by a function: what it gives is which numbers met."""

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    AggregateTable,
    ForeignKeyJoin,
    ManyToManyJoin,
    OneToManyJoin,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
)

COLUMNS = pa.schema([("n", pa.int64()), ("lsn", pa.int64())])


class Side:
    """The rows of one side, numbered from 0, and the key of each; ``typed`` says its keys' type when the
    pipeline is built.
    """

    def __init__(self, name: str, keys: Sequence[Any], typed: Any = Any) -> None:
        self.name, self.keys, self.typed = name, keys, typed

    def key(self, row: dict[str, Any]) -> Any:
        return self.keys[row["n"]]

    def key_of(self) -> Callable[[Any], Any]:
        def key(row: Any) -> Any:
            return self.key(row)

        if self.typed is not Any:
            key.__annotations__["return"] = self.typed
        return key

    def rows(self) -> list[dict[str, Any]]:
        return [{"n": n, "lsn": n} for n in range(len(self.keys))]

    def log(self, p: Any, form: str) -> Any:
        """The rows as a changelog; in columns in two batches."""
        rows = self.rows()
        if form == "records":
            return p | f"{self.name} rows" >> beam.Create(rows)
        batches = [pa.Table.from_pylist(part, schema=COLUMNS) for part in (rows[::2], rows[1::2])]
        return p | f"{self.name} rows" >> beam.Create(batches).with_output_types(pa.Table)

    def table(self, p: Any, form: str, key: Any = None) -> Any:
        return self.log(p, form) | f"{self.name} table" >> TableFromChangelog(key=key or self.key_of(), timestamp_by="lsn")

    def stream(self, p: Any) -> Any:
        """The rows under their keys, after all rows of a table."""
        return self.log(p, "records") | f"{self.name} keyed" >> beam.Map(
            lambda row: TimestampedValue((self.keys[row["n"]], row), 1)
        ).with_output_types(tuple[self.typed, Any] if self.typed is not Any else tuple[Any, Any])


def met(left: Any, right: Any) -> Any:
    """The numbers of two rows, ``None`` for one that is absent; a group has its first row's."""
    return tuple(None if row is None else row["n"] if isinstance(row, dict) else row for row in (left, right))


def _new(table: Any) -> Any:
    return table | TableToChanges() | "Met" >> beam.Map(lambda change: change.new)


def _foreign_key(how: str, several: bool = False) -> Callable[..., Any]:
    def join(p: Any, form: str, left: Side, right: Side) -> Any:
        tables = left.table(p, form, "n"), right.table(p, form)
        if several:
            transform = ForeignKeyJoin(met, foreign_keys=lambda _, row: [left.key(row)], how=how)
        else:
            transform = ForeignKeyJoin(met, foreign_key=lambda _, row: left.key(row), how=how)
        return _new(tables | transform)

    return join


def _table_table(p: Any, form: str, left: Side, right: Side) -> Any:
    return _new((left.table(p, form), right.table(p, form)) | TableTableJoin(met))


def _one_to_many(p: Any, form: str, left: Side, right: Side) -> Any:
    join = OneToManyJoin(lambda one, many: met(many, one), foreign_key=lambda _, row: left.key(row))
    return _new((right.table(p, form), left.table(p, form, "n")) | join)


def _many_to_many(p: Any, form: str, left: Side, right: Side) -> Any:
    join = ManyToManyJoin(met, left_on=lambda _, row: left.key(row), right_on=lambda _, row: right.key(row))
    return _new((left.table(p, form, "n"), right.table(p, form, "n")) | join)


def _stream_table(p: Any, form: str, left: Side, right: Side) -> Any:
    return (left.stream(p), right.table(p, form)) | StreamTableJoin(met) | beam.Values()


def _stream_foreign_key(p: Any, form: str, left: Side, right: Side) -> Any:
    stream = left.stream(p) | "Unkeyed" >> beam.Map(lambda pair: (0, pair[1]))
    join = StreamForeignKeyJoin(met, foreign_key=lambda _, row: left.key(row))
    return (stream, right.table(p, form)) | join | beam.Values()


def _windowed_stream(p: Any, form: str, left: Side, right: Side) -> Any:
    options: dict[str, Any] = {"before": 60, "after": 60, "grace": 60}
    if form == "records":
        return (left.stream(p), right.stream(p)) | WindowedStreamJoin(met, **options) | beam.Values()
    # the two sides have one option for the key: rows of the right side are told by a field
    sides = [
        side.log(p, form) | f"{side.name} told" >> beam.Map(_told, i).with_output_types(pa.Table)
        for i, side in enumerate((left, right))
    ]
    join = WindowedStreamJoin(
        {"l": "left.n", "r": "right.n"},
        key=lambda row: (left, right)[row["side"]].key(row),  # type: ignore[arg-type]
        timestamp_by="lsn",
        stream_schemas=(pa.schema([*COLUMNS, ("side", pa.int64())]),) * 2,
        **options,
    )
    return tuple(sides) | join | beam.FlatMap(lambda batch: [tuple(value.values()) for value in batch["value"].to_pylist()])


def _told(batch: pa.Table, side: int) -> pa.Table:
    return batch.append_column("side", pa.array([side] * len(batch), pa.int64()))


def _windowed_table(p: Any, form: str, left: Side, right: Side) -> Any:
    counted = left.stream(p) | WindowedAggregate(FixedWindows(60), initial=lambda: None, add=lambda _, row: row, grace=0)
    return _new((counted, right.table(p, form)) | WindowedTableJoin(met, how="inner"))


JOINS: dict[str, Callable[..., Any]] = {
    "inner foreign key": _foreign_key("inner"),
    "left foreign key": _foreign_key("left"),
    "outer foreign key": _foreign_key("outer"),
    "list of foreign keys": _foreign_key("inner", several=True),
    "table table": _table_table,
    "one to many": _one_to_many,
    "many to many": _many_to_many,
    "stream table": _stream_table,
    "stream foreign key": _stream_foreign_key,
    "windowed stream": _windowed_stream,
    "windowed table": _windowed_table,
}


def groups(p: Any, form: str, left: Side, right: Side) -> Any:
    """The rows of both sides as members of groups: how many each has in the end."""
    both = Side("both", [*left.keys, *right.keys])
    counted = both.table(p, form, "n") | AggregateTable(
        group_by=lambda _, row: both.key(row), initial=0, add=lambda n, _: n + 1, subtract=lambda n, _: n - 1
    )
    return _new(counted)
