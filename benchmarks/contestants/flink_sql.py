"""Flink SQL through PyFlink on a local cluster with two slots: as a batch job, or as a streaming job over the
same bounded files.

It runs in an environment of its own (:mod:`benchmarks.harness.environments`), so it imports nothing of the
project but its task.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import CUSTOMER, ORDER, RAW, SHOP, WORKS

_END: Final = 2**62
MODES: Final = ("batch", "streaming")
SETTINGS: Final = {"parallelism": "2", "managed memory": "1g"}
"""The settings, with their defaults: the number of slots, all of which a job uses, and the memory for sorting and joining."""
# The planner knows no sizes of JSON files.
_HINT: Final = "/*+ BROADCAST(c) */"

_LIVES: Final = (
    f"""
create temporary view order_lives as
select *, coalesce(lead(seq) over (partition by id order by seq), {_END}) as ends from orders
""",
    f"""
create temporary view customer_changes as
select *, lag(seq) over (partition by id order by seq) as since,
    coalesce(lead(seq) over (partition by id order by seq), {_END}) as ends from customers
""",
    # Before its first change a customer is not there, as after a delete.
    """
create temporary view customer_lives as
select id, seq, ends, deleted, {customer} from customer_changes
union all select id, cast(-1 as bigint), seq, true, {nothing} from customer_changes where since is null
""",
    """
create temporary view events as
select {hint} o.id, greatest(o.seq, coalesce(c.seq, -1)) as at_seq, coalesce(c.deleted, true) as deleted, {result}
from order_lives o left join customer_lives c on o.customer = c.id and c.seq < o.ends and o.seq < c.ends
""",
    """
create temporary view pairs as
select *, coalesce(lag(deleted) over (partition by id order by at_seq), true) as was_deleted{before} from events
""",
)

_LAST: Final = """
create temporary view last_{table} as
select * from (select *, row_number() over (partition by id order by seq desc) as back from {table}) where back = 1 and not deleted
"""


def configuration(settings: Mapping[str, str]) -> dict[str, str]:
    """Flink's configuration for settings, :data:`SETTINGS` by default."""
    settings = {**SETTINGS, **settings}
    return {
        "parallelism.default": settings["parallelism"],
        "taskmanager.numberOfTaskSlots": settings["parallelism"],
        "taskmanager.memory.managed.size": settings["managed memory"],
    }


def row(values: Iterable[str], types: Mapping[str, str]) -> str:
    """The SQL of a row with names, which a row by itself has not."""
    return f"cast(row({', '.join(values)}) as {flink_type(types)})"


def flink_type(types: Mapping[str, str]) -> str:
    """The SQL type of a row."""
    return f"row<{', '.join(f'`{name}` {type_}' for name, type_ in types.items())}>"


def lives(order: Mapping[str, str], customer: Mapping[str, str], *, broadcast: bool, old: bool = False) -> list[str]:
    """Views up to ``pairs``: the events of each order, each with whether there was a result before; columns
    begin with ``o_`` or ``c_``.
    """
    columns = [*(f"o_{name}" for name in order), *(f"c_{name}" for name in customer)]
    names = {
        "customer": ", ".join(customer),
        "nothing": ", ".join(f"cast(null as {type_})" for type_ in customer.values()),
        "hint": _HINT if broadcast else "",
        "result": ", ".join(f"{column[0]}.{column[2:]} as {column}" for column in columns),
        # A row cannot be looked back at as a whole.
        "before": "".join(f", lag({name}) over (partition by id order by at_seq) as was_{name}" for name in columns) if old else "",
    }
    return [view.format(**names) for view in _LIVES]


def wide(assigned: Task) -> tuple[list[str], dict[str, str]]:
    """Views and results of the foreign-key join of wide rows."""
    shown = ", ".join(
        f"case when not deleted then {name} end" for name in (*(f"o_{name}" for name in ORDER), *(f"c_{name}" for name in CUSTOMER))
    )
    views = lives(ORDER, CUSTOMER, broadcast=WORKS[assigned.work].small_right)
    return views, {"": f"select id, at_seq, deleted, {shown} from pairs where not (deleted and was_deleted)"}


def enriched(before: str) -> str:
    """An enriched order of ``pairs``: the row ("") or the one before it ("was_")."""
    customer = row((f"{before}c_{name}" for name in SHOP["customers"]), SHOP["customers"])
    order = [f"{before}o_{name}" for name in SHOP["orders"]]
    return f"case when not {before}deleted then {row((*order, customer), _ENRICHED)} end"


_ENRICHED: Final = {**SHOP["orders"], "customer": flink_type(SHOP["customers"])}
_CHANGES: Final = {
    "key": "string",
    "op": "string",
    "old": flink_type(_ENRICHED),
    "new": flink_type(_ENRICHED),
    "timestamp": "bigint",
    "position": "bigint",
}
_OP: Final = "case when deleted then 'delete' when was_deleted then 'insert' else 'update' end"
_TIME: Final = "greatest(o_updated_at, coalesce(c_updated_at, o_updated_at))"


def shop(assigned: Task) -> tuple[list[str], dict[str, str]]:
    """Views and results of the orders command's works."""
    order = ", ".join(f"o.{name}" for name in SHOP["orders"])
    customer = row((f"c.{name}" for name in SHOP["customers"]), SHOP["customers"])
    latest = f"select {_HINT} {order}, {customer} from last_orders o join last_customers c on o.customer = c.id"
    last = [_LAST.format(table=table) for table in SHOP]
    if assigned.work == "orders-latest":
        return last, {"latest": latest.replace(_HINT, "")}
    changes = f"select id, {_OP}, {enriched('was_')}, {enriched('')}, {_TIME}, at_seq from pairs where not (deleted and was_deleted)"
    views = lives(SHOP["orders"], SHOP["customers"], broadcast=True, old=True)
    return [*views, *last], {"changes": changes, "latest": latest}


def compute(assigned: Task, mode: str) -> None:
    """Write the results of a task."""
    work = WORKS[assigned.work]
    batch = mode == "batch"
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode())
    for option, value in configuration(assigned.settings).items():
        made.get_config().set(option, value)
    made.get_config().set("pipeline.jars", os.environ["FLINK_JARS"])
    for table in work.tables:
        columns = ", ".join(f"`{name}` {type_}" for name, type_ in RAW[table].items())
        made.execute_sql(f"create temporary table raw_{table} ({columns}) with {_files(str(assigned.data / table), work.reads)}")
        made.execute_sql(f"create temporary view {table} as select *, {_NAMES[table]} from raw_{table}")
    views, results = shop(assigned) if work.kind == "shop" else wide(assigned)
    for view in views:
        made.execute_sql(view)
    together = made.create_statement_set()
    for name, query in results.items():
        types = {"changes": _CHANGES, "latest": _ENRICHED}.get(name) or work.results[name]
        columns = ", ".join(f"`{column}` {type_}" for column, type_ in types.items())
        # A streaming job takes results back: its file has every change, as an insert or a delete.
        written = work.writes if batch else "debezium-json"
        made.execute_sql(f"create temporary table sink_{name} ({columns}) with {_files(str(assigned.result(name)), written)}")
        together.add_insert_sql(f"insert into sink_{name} {query}")
    together.execute().wait()


_KEYS: Final = ", lsn as seq, op = 'd' as deleted"
_NAMES: Final = {"orders": f"order_id as id, customer_id as customer{_KEYS}", "customers": f"customer_id as id{_KEYS}"}


def _files(path: str, format: str) -> str:
    return f"('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser("flink_sql", tuple(name for name, work in WORKS.items() if work.wide), SETTINGS)
    options.add_argument("--mode", choices=MODES, default="batch", help="how the job runs (default: %(default)s)")
    asked = options.parse_args(argv)
    compute(task(asked), asked.mode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
