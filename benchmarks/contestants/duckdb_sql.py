"""DuckDB with two threads: the floor, and the judge of what the others give."""

import sys
from collections.abc import Sequence
from typing import Final

import duckdb

from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import WINDOW_MICROSECONDS, WORKS

THREADS: Final = 2
_END: Final = 2**62

_FOREIGN_KEY: Final = f"""
with order_lives as (
    select *, lead(seq, 1, {_END}) over (partition by id order by seq) as ends from orders
), customer_changes as (
    select id, seq, deleted, name, lag(seq) over changes as before, lead(seq, 1, {_END}) over changes as ends
    from customers window changes as (partition by id order by seq)
), customer_lives as (
    select id, seq, ends, deleted, name from customer_changes
    union all
    -- before its first change a customer is not there, as after a delete
    select id, -1, seq, true, null from customer_changes where before is null
), events as (
    select o.id, greatest(o.seq, coalesce(c.seq, -1)) as position, coalesce(c.deleted, true) as deleted, o.amount, c.name
    from order_lives o left join customer_lives c on o.customer = c.id and c.seq < o.ends and o.seq < c.ends
), sequences as (
    select *, lag(deleted, 1, true) over (partition by id order by position) as deleted_before from events
)
select id, position, deleted, case when not deleted then amount end as amount, case when not deleted then name end as name
from sequences where not (deleted and deleted_before)
"""

_FOREIGN_KEY_FINAL: Final = """
with last_orders as (
    select id, max(seq) as seq from orders group by id
), last_customers as (
    select id, max(seq) as seq from customers group by id
)
select o.id, o.amount, c.name
from orders o semi join last_orders using (id, seq)
join (select * from customers semi join last_customers using (id, seq)) c on o.customer = c.id
where not o.deleted and not c.deleted
"""

_TABLES: Final = """
with changes as (
    select id, seq, {'there': not deleted, 'value': a} as a, null as b from "left"
    union all
    select id, seq, null, {'there': not deleted, 'value': b} from "right"
), rows_now as (
    select id, seq as position, last_value(a ignore nulls) over sofar as a, last_value(b ignore nulls) over sofar as b
    from changes window sofar as (partition by id order by seq rows between unbounded preceding and current row)
), events as (
    select id, position, not (coalesce(a.there, false) or coalesce(b.there, false)) as deleted, a.value as a, b.value as b from rows_now
), sequences as (
    select *, lag(deleted, 1, true) over (partition by id order by position) as deleted_before from events
)
select id, position, deleted, a, b from sequences where not (deleted and deleted_before)
"""

_STREAMS: Final = f"""
select key, view, click, greatest(v.ts, c.ts) as ts
from views v join clicks c using (key)
where c.ts between v.ts - {WINDOW_MICROSECONDS} and v.ts + {WINDOW_MICROSECONDS}
"""

_CHANGELOG: Final = """
with pairs as (
    select id, seq as position, lag(a) over (partition by id order by seq) as old, a as new from "left"
)
select * from pairs where old is not null or new is not null
"""

QUERIES: Final = {
    "fk-uniform": _FOREIGN_KEY,
    "fk-zipf": _FOREIGN_KEY,
    "fk-final": _FOREIGN_KEY_FINAL,
    "tables": _TABLES,
    "streams": _STREAMS,
    "changelog": _CHANGELOG,
}


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that uses as many threads as the other contestants have cores."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}")
    connection.execute("set preserve_insertion_order = false")
    return connection


def compute(given: Task) -> None:
    """Write the result of a task."""
    connection = connect()
    for table in WORKS[given.work].tables:
        connection.execute(f"create view \"{table}\" as from read_parquet('{given.input_files(table)}')")
    target = given.out / "part-00000.parquet"
    connection.execute(f"copy ({QUERIES[given.work]}) to '{target}' (format parquet, compression snappy)")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    compute(task(parser("duckdb_sql").parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
