"""DuckDB with two threads: the floor, and the judge of what the others give."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import CUSTOMER, ORDER, RAW, SHOP, SUFFIXES, TABLES, WINDOW_MICROSECONDS, WORKS, Work

SETTINGS: Final = {"threads": "2", "memory": "8GB", "order": "false"}
"""The settings, with their defaults: the number of threads, the limit of memory, and whether the order of rows is kept."""
_END: Final = 2**62

_LIVES: Final = f"""
with order_lives as (
    select *, lead(seq, 1, {_END}) over (partition by id order by seq) as ends from orders
), customer_changes as (
    select *, lag(seq) over changes as before, lead(seq, 1, {_END}) over changes as ends
    from customers window changes as (partition by id order by seq)
), customer_lives as (
    select id, seq, ends, deleted, {{customer}} from customer_changes
    union all
    -- before its first change a customer is not there, as after a delete
    select id, -1, seq, true, {{nothing}} from customer_changes where before is null
), events as (
    select o.id, greatest(o.seq, coalesce(c.seq, -1)) as position, coalesce(c.deleted, true) as deleted, {{result}}
    from order_lives o left join customer_lives c on o.customer = c.id and c.seq < o.ends and o.seq < c.ends
)"""

_FOREIGN_KEY: Final = """{lives}, sequences as (
    select *, lag(deleted, 1, true) over (partition by id order by position) as deleted_before from events
)
select id as {key}, position, deleted, {values} from sequences where not (deleted and deleted_before)
"""


def foreign_key(order: Sequence[str], customer: Sequence[str], *, key: str = "id", label: str = "") -> str:
    """The changelog of the join; its values are these columns, or a label made of them."""
    lives = _LIVES.format(
        customer=", ".join(customer),
        nothing=", ".join(["null"] * len(customer)),
        result=", ".join([*(f"o.{name}" for name in order), *(f"c.{name}" for name in customer)]),
    )
    values = {"label": label} if label else {name: name for name in (*order, *customer)}
    shown = ", ".join(f"case when not deleted then {value} end as {name}" for name, value in values.items())
    return _FOREIGN_KEY.format(lives=lives, key=key, values=shown)


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

_ORDERS_CHANGES: Final = (
    _LIVES.format(customer="value, ts", nothing="null, null", result="o.value as o, c.value as c, greatest(o.ts, c.ts) as ts")
    + """, sequences as (
    select id, position, ts, case when not deleted then struct_insert(o, customer := c) end as new from events
), pairs as (
    select *, lag(new) over (partition by id order by position) as old from sequences
)
select id as key, case when new is null then 'delete' when old is null then 'insert' else 'update' end as op, old, new,
    ts as timestamp, position
from pairs where old is not null or new is not null
"""
)

_ORDERS_LATEST: Final = """
select unnest(o), c as customer
from (select arg_max(value, seq) as o, arg_max(deleted, seq) as gone from orders group by id)
join (select id, arg_max(value, seq) as c, arg_max(deleted, seq) as absent from customers group by id) on o.customer_id = id
where not gone and not absent
"""

_TABLES: Final = """
with changes as (
    {changes}
), so_far as (
    select id, seq as position, source, {so_far}
    from changes window sofar as (partition by id order by seq rows between unbounded preceding and current row)
), events as (
    select id, position, not ({there}) as deleted, {values} from {events}
), sequences as (
    select *, lag(deleted, 1, true) over (partition by id order by position) as deleted_before from events
)
select id, position, deleted, {names} from sequences where not (deleted and deleted_before)
"""


def tables(columns: Mapping[str, str], *, absent_deletes: bool) -> str:
    """The changelog of the outer join of tables, each with a column; with or without what changes nothing, the
    deletes of absent rows.
    """
    names = list(columns.values())
    changes = []
    for table, name in columns.items():
        nulls = dict.fromkeys(names, "null")
        values = nulls | {name: f"{{'there': not deleted, 'value': {name}}}"}
        of_table = ", ".join(f"{value} as {each}" for each, value in values.items())
        changes.append(f"select id, seq, '{table}' as source, {of_table} from \"{table}\"")
    before = ", ".join(f"coalesce(lag({name}.there) over changes, false) as {name}_before" for name in names)
    absent = " or ".join(f"(source = '{table}' and not {name}.there and not {name}_before)" for table, name in columns.items())
    without_absent = f"(select *, {before} from so_far window changes as (partition by id order by position)) where not ({absent})"
    return _TABLES.format(
        changes=" union all ".join(changes),
        so_far=", ".join(f"last_value({name} ignore nulls) over sofar as {name}" for name in names),
        there=" or ".join(f"coalesce({name}.there, false)" for name in names),
        values=", ".join(f"{name}.value as {name}" for name in names),
        events="so_far" if absent_deletes else without_absent,
        names=", ".join(names),
    )


_PAIRS: Final = f"""
with l as (
    select *, lead(seq, 1, {_END}) over changes as ends, lead(place) over changes = place as stays
    from "left" window changes as (partition by id order by seq)
), r as (
    select *, lead(seq, 1, {_END}) over changes as ends, lead(place) over changes = place as stays
    from "right" window changes as (partition by id order by seq)
), met as (
    select l.id as left_id, r.id as right_id, greatest(l.seq, r.seq) as begins, least(l.ends, r.ends) as ended, a, b,
        case when l.ends < r.ends then l.stays when r.ends < l.ends then r.stays else l.stays and r.stays end as stays
    from l join r on l.place = r.place and l.seq < r.ends and r.seq < l.ends
)
select left_id, right_id, begins as position, false as deleted, a, b from met
union all
select left_id, right_id, ended, true, null, null from met where ended < {_END} and not coalesce(stays, false)
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

_FK: Final = foreign_key(("amount",), ("name",))
_FK_WIDE: Final = foreign_key(tuple(ORDER), tuple(CUSTOMER), key="order_id")

QUERIES: Final = {
    "fk-uniform": {"": _FK},
    "fk-zipf": {"": _FK},
    "fk-final": {"": _FOREIGN_KEY_FINAL},
    "tables": {"": tables({"left": "a", "right": "b"}, absent_deletes=True)},
    "tables-four": {"": tables({name: name for name in TABLES["four"]}, absent_deletes=False)},
    "many-few": {"": _PAIRS},
    "many-hot": {"": _PAIRS},
    "streams": {"": _STREAMS},
    "changelog": {"": _CHANGELOG},
    "fk-records": {"": foreign_key(("amount",), ("name",), label="format('{}: {:.2f}', upper(name), amount / 100)")},
    "fk-wide": {"": _FK_WIDE},
    "fk-short": {"": _FK_WIDE},
    "fk-wide-large": {"": _FK_WIDE},
    "orders-json": {"changes": _ORDERS_CHANGES, "latest": _ORDERS_LATEST},
    "orders-latest": {"latest": _ORDERS_LATEST},
    "orders-parquet": {"changes": _ORDERS_CHANGES, "latest": _ORDERS_LATEST},
}
"""The results of each work, by the folder that each is written to."""


def connect(settings: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory; by default it uses as many threads as the other contestants have cores."""
    settings = {**SETTINGS, **(settings or {})}
    connection = duckdb.connect()
    connection.execute(f"set threads = {settings['threads']}")
    connection.execute(f"set memory_limit = '{settings['memory']}'")
    connection.execute(f"set preserve_insertion_order = {settings['order']}")
    connection.execute(f"set temp_directory = '{tempfile.gettempdir()}/duckdb'")
    return connection


def compute(asked: Task) -> None:
    """Write the results of a task."""
    connection = connect(asked.settings)
    work = WORKS[asked.work]
    for table in work.tables:
        files = _files(asked, table)
        connection.execute(_wide(table, files, work) if work.wide else f'create view "{table}" as from {files}')
    for name, query in QUERIES[asked.work].items():
        target = asked.result(name) / f"part-00000{SUFFIXES[work.writes]}"
        options = "format parquet, compression snappy" if work.writes == "parquet" else "format json"
        connection.execute(f"copy ({query}) to '{target}' ({options})")


def _wide(table: str, files: str, work: Work) -> str:
    """A wide table, read once for several results: its columns, the same as one value, and what they are
    joined and ordered by.
    """
    kind = "table" if len(work.results) > 1 else "view"
    key, *reference = [name for name in SHOP[table] if name.endswith("_id")]
    columns = [f"{key} as id", *(f"{name} as customer" for name in reference), "lsn as seq", "op = 'd' as deleted", "updated_at as ts"]
    value = ", ".join(f"'{name}': {name}" for name in SHOP[table])
    return f"create {kind} {table} as select *, {', '.join(columns)}, {{{value}}} as value from {files}"


def _files(asked: Task, table: str) -> str:
    if WORKS[asked.work].reads == "parquet":
        return f"read_parquet('{asked.input_files(table)}')"
    types = ", ".join(f"'{name}': '{type_}'" for name, type_ in RAW[table].items())
    return f"read_json('{asked.input_files(table)}', format = 'newline_delimited', columns = {{{types}}})"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    compute(task(parser("duckdb_sql", settings=SETTINGS).parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
