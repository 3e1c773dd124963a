"""Pathway on two threads, its tables static: all files are read, then the results computed and written once.

It runs in an environment of its own (:mod:`benchmarks.harness.environments`), so it imports nothing of the
project but its task.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pathway as pw

from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import CUSTOMER, ORDER, RAW, SHOP, WORKS

_END: Final = 2**62
_TYPES: Final[dict[str, Any]] = {"bigint": int, "string": str, "boolean": bool}
_ALWAYS: Final = ("lsn", "op", "updated_at")


def schema(columns: Mapping[str, str]) -> Any:
    """The columns of a file; all but those about the change may be null."""
    return pw.schema_from_types(
        **{name: _TYPES[type_] if name in _ALWAYS else _TYPES[type_] | None for name, type_ in columns.items()}
    )


def lives(table: pw.Table) -> pw.Table:
    """Each change of a row with the position at which the next one comes, and whether it is the first."""
    order = table.sort(key=table.seq, instance=table.key)
    return table.with_columns(ends=pw.coalesce(table.ix(order.next, optional=True).seq, _END), first=order.prev.is_none())


def events(orders: pw.Table, customers: pw.Table) -> pw.Table:
    """What comes of each order and when, ``deleted`` where it has no customer; columns of the customer begin
    with ``c_``.
    """
    lived = lives(customers)
    # Before its first change a customer is not there, as after a delete.
    absent = lived.filter(lived.first).with_columns(seq=-1, ends=pw.this.seq, deleted=True)
    present = lived.concat_reindex(absent)
    changes = lives(orders)
    joined = changes.join_left(present, changes.customer == present.key).select(
        *(changes[name] for name in changes.column_names() if name not in ("deleted", "first")),
        since=pw.coalesce(present.seq, -1),
        until=pw.coalesce(present.ends, _END),
        deleted=pw.coalesce(present.deleted, True),
        **{f"c_{name}": present[name] for name in present.column_names() if name not in ("key", "seq", "ends", "deleted", "first")},
    )
    met = joined.filter((joined.since < joined.ends) & (joined.seq < joined.until))
    return met.with_columns(position=pw.if_else(met.seq > met.since, met.seq, met.since))


def before(table: pw.Table) -> pw.Table:
    """The event before each, of the same order."""
    return table.ix(table.sort(key=table.position, instance=table.key).prev, optional=True)


def last(table: pw.Table) -> pw.Table:
    """The rows that are there in the end."""
    newest = table.groupby(table.key).reduce(row=pw.reducers.argmax(table.seq))
    rows = table.ix(newest.row)
    return rows.filter(~rows.deleted)


def json_of(names: Sequence[str]) -> Any:
    """A function that makes JSON of columns with these names."""

    @pw.udf(deterministic=True)  # type: ignore[untyped-decorator]
    def made(*values: Any) -> pw.Json:
        return pw.Json(dict(zip(names, (each.value if isinstance(each, pw.Json) else each for each in values), strict=True)))

    return made


def wide(orders: pw.Table, customers: pw.Table) -> pw.Table:
    """The changelog of the foreign-key join."""
    every = events(orders, customers)
    kept = every.filter(~(every.deleted & pw.coalesce(before(every).deleted, True)))
    values = {**{name: kept[name] for name in ORDER}, **{name: kept[f"c_{name}"] for name in CUSTOMER}}
    shown = {name: pw.if_else(kept.deleted, None, value) for name, value in values.items()}
    return kept.select(kept.position, kept.deleted, order_id=kept.key, **shown)


def changes_of(orders: pw.Table, customers: pw.Table) -> pw.Table:
    """The changelog of enriched orders, old and new rows whole."""
    every = events(
        orders,
        customers.select(*(customers[name] for name in ("key", "seq", "deleted", "updated_at")), row=_row(customers, "customers")),
    )
    enriched = json_of((*SHOP["orders"], "customer"))(*(every[name] for name in SHOP["orders"]), every.c_row)
    every_change = every.select(
        every.key,
        every.position,
        new=pw.if_else(every.deleted, None, enriched),
        timestamp=pw.if_else(every.seq > every.since, every.updated_at, pw.coalesce(every.c_updated_at, 0)),
    )
    told = every_change.with_columns(old=before(every_change).new)
    kept = told.filter(told.old.is_not_none() | told.new.is_not_none())
    op = pw.if_else(kept.new.is_none(), "delete", pw.if_else(kept.old.is_none(), "insert", "update"))
    return kept.with_columns(op=op)


def latest_of(orders: pw.Table, customers: pw.Table) -> pw.Table:
    """The enriched orders that are there in the end."""
    named = last(customers)
    named = named.select(named.key, row=_row(named, "customers"))
    order = last(orders)
    return order.join(named, order.customer == named.key).select(*(order[name] for name in SHOP["orders"]), customer=named.row)


def _row(table: pw.Table, name: str) -> Any:
    return json_of(tuple(SHOP[name]))(*(table[column] for column in SHOP[name]))


_RESULTS: Final = {"": wide, "changes": changes_of, "latest": latest_of}


def compute(asked: Task) -> None:
    """Write the results of a task."""
    work = WORKS[asked.work]
    orders, customers = (
        keyed(pw.io.jsonlines.read(asked.data / table, schema=schema(columns), mode="static"), table) for table, columns in RAW.items()
    )
    for name in work.results:
        pw.io.jsonlines.write(_RESULTS[name](orders, customers), asked.result(name) / "result.jsonl")
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def keyed(table: pw.Table, name: str) -> pw.Table:
    """A table with what it is joined and ordered by: ``key``, ``customer``, ``seq``, ``deleted``."""
    reference = {"customer": table.customer_id} if name == "orders" else {}
    return table.with_columns(
        key=table["order_id" if name == "orders" else "customer_id"], seq=table.lsn, deleted=table.op == "d", **reference
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    compute(task(parser("pathway_tables", tuple(name for name, work in WORKS.items() if work.wide)).parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
