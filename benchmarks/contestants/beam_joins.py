"""The project's transforms on tables in columns: joiners as column expressions, or as Python functions of one
record each.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, get_args

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import ChangeBatch, ForeignKeyJoin, LatestTable, ManyToManyJoin, TableFromChangelog, TableTableJoin, WindowedStreamJoin
from beam_joins.elements.content import Emit
from beam_joins.functions.fields import names_in
from beam_joins.io import ReadParquet, WriteParquet
from beam_joins.options.join_types import How
from benchmarks.contestants.beam_pipeline import ENVIRONMENTS, add_runner, pipeline, schema
from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import CUSTOMER, ORDER, WINDOW_MICROSECONDS, WORKS

Functions = Literal["columns", "records"]
SETTINGS: Final = {"partitions": "as suggested for the input", "memory": "512"}
"""The settings, with their defaults: the number of partitions of every join, and the megabytes of rows that a worker has at a time."""
FUNCTIONS: Final = ("columns", "records")
_NARROW: Final[dict[str, Any]] = {"key": "id", "timestamp_by": "ts", "sequence_by": "seq", "apply_as_deletes": "deleted"}
_WIDE: Final[dict[str, Any]] = {"timestamp_by": "updated_at", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d"]}}
_WIDE_KEYS: Final = {"orders": "order_id", "customers": "customer_id"}

_EMIT: Final[dict[str, Emit]] = {
    "fk-final": "latest",
    "tables": "records",  # the result has a row for every change, for the delete of an absent row too
}


def main(argv: list[str] | None = None) -> None:
    """Run one work."""
    made = parser("beam_joins", settings=SETTINGS)
    add_runner(made)
    made.add_argument("--functions", choices=FUNCTIONS, default="columns", help="of what the joiner and the foreign key are functions")
    made.add_argument("--environment", choices=ENVIRONMENTS, default="pool", help="what runs Python on Spark (default: %(default)s)")
    made.add_argument("--state", metavar="DIR", help="go on where the last run with this folder ended, and keep its partitions")
    made.add_argument("--how", choices=get_args(How), default="inner", help="how a foreign-key join joins (default: %(default)s)")
    made.add_argument("--rebuild", action="store_true", help="rebuild what has changed since the last run with the state")
    options = made.parse_args(argv)
    assigned = task(options)
    asked = [f"--beam_joins_{name}={value}" for name, value in assigned.settings.items()]
    asked += [f"--beam_joins_state={options.state}"] if options.state else []
    asked += ["--beam_joins_changed=rebuild"] if options.rebuild else []
    with pipeline(options.runner, environment=options.environment, options=asked) as run:
        build(run, assigned, options.functions, options.how)


def build(run: beam.Pipeline, assigned: Task, functions: Functions, how: How = "inner") -> None:
    """The pipeline of a work, from its files to its files."""
    names = WORKS[assigned.work].tables
    sources = [run | f"read {name}" >> ReadParquet(assigned.input_files(name)) for name in names]
    result = _streams(sources, functions) if assigned.work == "streams" else _tables(assigned.work, sources, functions, how)
    _ = result | "write" >> WriteParquet(str(assigned.out / "part"), schema=schema(assigned.work))


def _table(work: str, name: str) -> TableFromChangelog:
    options = {"key": _WIDE_KEYS[name], **_WIDE} if WORKS[work].wide else _NARROW
    about = [name for option in options.values() for name in names_in(option)]
    return TableFromChangelog(**options, except_columns=about, emit=_EMIT.get(work, "updates"))


def _tables(work: str, sources: list[Any], functions: Functions, how: How) -> Any:
    tables = [source | f"table {name}" >> _table(work, name) for name, source in zip(WORKS[work].tables, sources, strict=True)]
    if work == "changelog":
        return tables[0] | beam.Map(_old_and_new)
    if work == "tables":
        joined = tuple(tables) | TableTableJoin(_JOINERS[work, functions], how="outer", schema=_values(work, functions))
        return joined | beam.Map(_changes("a", "b"))
    if WORKS[work].by_place:
        return tuple(tables) | ManyToManyJoin({"a": "left.a", "b": "right.b"}, on="place") | beam.Map(_pairs)
    if work == "tables-four":
        names = WORKS[work].tables
        columns = {name: f"{name}.{name}" for name in names}
        return tuple(tables) | TableTableJoin(columns, tables=names, how="outer") | beam.Map(_changes(*names))
    reference = "customer_id" if WORKS[work].wide else "customer"
    foreign_key: Any = reference if functions == "columns" else lambda key, order: order[reference]
    joiner = _JOINERS["fk-wide" if WORKS[work].wide else "fk", functions]
    broadcast = WORKS[work].small_right
    join = ForeignKeyJoin(joiner, foreign_key=foreign_key, how=how, schema=_values(work, functions), broadcast=broadcast)
    joined = tuple(tables) | join
    if work == "fk-final":
        return joined | LatestTable() | beam.Map(_rows)
    return joined | beam.Map(_changes(*_value_names(work), key=WORKS[work].columns[0]))


def _streams(sources: list[Any], functions: Functions) -> Any:
    window = beam.utils.timestamp.Duration(micros=WINDOW_MICROSECONDS)
    joined = tuple(sources) | WindowedStreamJoin(
        _JOINERS["streams", functions],
        before=window,
        after=window,
        grace=0,
        schema=_values("streams", functions),
        key="key",
        timestamp_by="ts",
    )
    return joined | beam.Map(_matches)


_JOINERS: Final[dict[tuple[str, str], Any]] = {
    ("fk", "columns"): {"amount": "left.amount", "name": "right.name"},
    ("fk", "records"): lambda order, customer: {"amount": order["amount"], "name": customer["name"]},
    ("fk-wide", "columns"): {
        **{name: f"left.{name}" for name in ORDER},
        **{name: f"right.{name}" for name in CUSTOMER},
    },
    ("fk-wide", "records"): lambda order, customer: {
        **{name: order[name] for name in ORDER},
        **{name: customer[name] for name in CUSTOMER},
    },
    ("tables", "columns"): {"a": "left.a", "b": "right.b"},
    ("tables", "records"): lambda left, right: {"a": left and left["a"], "b": right and right["b"]},
    ("streams", "columns"): {"view": "left.view", "click": "right.click"},
    ("streams", "records"): lambda view, click: {"view": view["view"], "click": click["click"]},
}


def _value_names(work: str) -> list[str]:
    """The columns of the result that are the joiner's."""
    return [name for name in WORKS[work].columns if name not in ("id", "order_id", "key", "position", "deleted", "ts")]


def _values(work: str, functions: Functions) -> pa.Schema | None:
    """What a joiner of records gives, which it does not say by itself."""
    if functions == "columns":
        return None
    columns = schema(work)
    return pa.schema([columns.field(name) for name in _value_names(work)])


def _changes(*names: str, key: str = "id") -> Callable[[ChangeBatch], pa.Table]:
    def flat(batch: ChangeBatch) -> pa.Table:
        values = dict(zip([field.name for field in batch.new.type], batch.new.flatten(), strict=True))
        return pa.table(
            {key: batch.key, "position": batch.position, "deleted": batch.new.is_null(), **{name: values[name] for name in names}}
        )

    return flat


def _pairs(batch: ChangeBatch) -> pa.Table:
    (left_id, right_id), (a, b) = batch.key.storage.flatten(), batch.new.flatten()
    return pa.table(
        {"left_id": left_id, "right_id": right_id, "position": batch.position, "deleted": batch.new.is_null(), "a": a, "b": b}
    )


def _old_and_new(batch: ChangeBatch) -> pa.Table:
    old, new = (pc.struct_field(values, "a") for values in (batch.old, batch.new))
    return pa.table({"id": batch.key, "position": batch.position, "old": old, "new": new})


def _rows(batch: pa.RecordBatch) -> pa.Table:
    amount, name = (batch["value"].field(field) for field in ("amount", "name"))
    return pa.table({"id": batch["key"], "amount": amount, "name": name})


def _matches(batch: pa.RecordBatch) -> pa.Table:
    view, click = (batch["value"].field(field) for field in ("view", "click"))
    return pa.table({"key": batch["key"], "view": view, "click": click, "ts": batch["timestamp"]})


if __name__ == "__main__":
    main()
