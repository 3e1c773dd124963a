"""PySpark SQL by hand, on two cores: how a PySpark engineer would write and tune each work."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from beam_joins.pipelines.runners.java import find_java
from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import CUSTOMER, ORDER, RAW, SHOP, TABLES, WINDOW_MICROSECONDS, WORKS, Kind

_END: Final = 2**62

# A schema that is given spares Spark a job that would find it out.
_SCHEMAS: Final = {
    "orders": "id long, customer long, amount long, ts long, seq long, deleted boolean",
    "customers": "id long, name string, ts long, seq long, deleted boolean",
    "left": "id long, a long, ts long, seq long, deleted boolean",
    "right": "id long, b long, ts long, seq long, deleted boolean",
    **{name: f"id long, {name} long, ts long, seq long, deleted boolean" for name in TABLES["four"]},
    "views": "key long, view long, ts long",
    "clicks": "key long, click long, ts long",
}

# Measured, as are the plans below: see benchmarks/README.md.
SETTINGS: Final = {
    "compilers": "first",
    "partitions": "2",
    "joins": "as planned",
    "collector": "Parallel",
    "adaptive": "true",
    "heap": "4g",
}
"""The settings, with the values that they have where a search finds none that is better. With the first compiler alone Spark starts
sooner, with both it works faster from some seconds of work on.
"""
_ALWAYS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_BROADCAST_NOTHING: Final = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


def configuration(settings: Mapping[str, str], kind: Kind | None = None) -> dict[str, bool | float | int | str | None]:
    """Spark's configuration for settings, :data:`SETTINGS` by default, and a kind of input."""
    settings = {**SETTINGS, **settings}
    jvm = f"-XX:+Use{settings['collector']}GC{' -XX:TieredStopAtLevel=1' if settings['compilers'] == 'first' else ''}"
    return {
        **_ALWAYS,
        **(_BROADCAST_NOTHING if kind == "wide-large" else {}),
        "spark.driver.memory": settings["heap"],
        "spark.driver.extraJavaOptions": jvm,
        "spark.sql.adaptive.enabled": settings["adaptive"],
        "spark.sql.shuffle.partitions": settings["partitions"],
        "spark.sql.join.preferSortMergeJoin": str(settings["joins"] != "shuffled hash").lower(),
    }


def events(orders: DataFrame, customers: DataFrame, order: Sequence[str], customer: Sequence[str], *, broadcast: bool) -> DataFrame:
    """What comes of each order and where, ``deleted`` where it has no customer: lives of orders joined with
    overlapping lives of customers.
    """
    in_order = Window.partitionBy("id").orderBy("seq")
    order_lives = orders.select("id", "customer", *order, "seq", f.lead("seq", 1, _END).over(in_order).alias("ends"))
    customer_changes = customers.select(
        "id",
        *customer,
        f.col("deleted").alias("gone"),
        f.col("seq").alias("since"),
        f.lead("seq", 1, _END).over(in_order).alias("until"),
        f.lag("seq").over(in_order).alias("before"),
    )
    # Before its first change a customer is not there, as after a delete.
    life = f"struct({', '.join(customer)}, gone, since, until)"
    nothing = ", ".join(f"cast(null as {customers.schema[name].dataType.simpleString()}) as {name}" for name in customer)
    absence = f"struct({nothing}, true as gone, -1L as since, since as until)"
    customer_lives = customer_changes.select(
        f.col("id").alias("referred"), f.expr(f"inline(if(before is null, array({absence}, {life}), array({life})))")
    )
    if broadcast:
        customer_lives = f.broadcast(customer_lives)
    overlap = (f.col("customer") == f.col("referred")) & (f.col("since") < f.col("ends")) & (f.col("seq") < f.col("until"))
    position, deleted = f.greatest("seq", "since").alias("position"), f.coalesce("gone", f.lit(True)).alias("deleted")
    return order_lives.join(customer_lives, overlap, "left").select("id", position, deleted, *order, *customer)


def foreign_key(
    orders: DataFrame,
    customers: DataFrame,
    order: Sequence[str] = ("amount",),
    customer: Sequence[str] = ("name",),
    *,
    broadcast: bool = True,
) -> DataFrame:
    """The changelog of the foreign-key join."""
    kept = _without_repeated_deletes(events(orders, customers, order, customer, broadcast=broadcast))
    values = [f.expr(f"if(deleted, null, {name})").alias(name) for name in (*order, *customer)]
    return kept.select("id", "position", "deleted", *values)


def wide(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The same of wide rows."""
    return foreign_key(orders, customers, tuple(ORDER), tuple(CUSTOMER)).withColumnRenamed("id", "order_id")


def wide_large(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The same with two large tables: nothing is broadcast."""
    return foreign_key(orders, customers, tuple(ORDER), tuple(CUSTOMER), broadcast=False).withColumnRenamed("id", "order_id")


def records(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The changelog of the foreign-key join, its value made by a function of Python: of columns, which is
    faster than one of single values.
    """
    import pandas as pd  # noqa: PLC0415, other works start without it

    @pandas_udf("string")  # type: ignore[call-overload, untyped-decorator]
    def label(amounts: pd.Series, names: pd.Series) -> pd.Series:
        return names.str.upper() + ": " + (amounts / 100).map("{:.2f}".format)

    kept = _without_repeated_deletes(events(orders, customers, ("amount",), ("name",), broadcast=True))
    return kept.select("id", "position", "deleted", f.when(~f.col("deleted"), label("amount", "name")).alias("label"))


def enriched_changes(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The changelog of the orders command: old and new rows whole."""
    met = events(orders, customers.withColumnRenamed("ts", "c_ts"), ("o", "ts"), ("c", "c_ts"), broadcast=True)
    new = f.when(~f.col("deleted"), f.struct("o.*", f.col("c").alias("customer")))
    pairs = met.withColumn("new", new).withColumn("old", f.lag("new").over(_by_position()))
    op = f.expr("case when new is null then 'delete' when old is null then 'insert' else 'update' end")
    time = f.greatest("ts", "c_ts").alias("timestamp")
    return pairs.where("old is not null or new is not null").select(
        f.col("id").alias("key"), op.alias("op"), "old", "new", time, "position"
    )


def enriched_latest(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The final rows of the orders command."""
    return final(orders, customers, ("o",), ("c",)).select("o.*", f.col("c").alias("customer"))


def final(orders: DataFrame, customers: DataFrame, order: Sequence[str], customer: Sequence[str]) -> DataFrame:
    """The final rows: the last change of each order and each customer."""
    # A maximum of numbers is a hash aggregate, which costs less here than row_number, and less than max_by.
    last_orders = orders.groupBy("id").agg(f.max("seq").alias("seq")).hint("shuffle_hash")
    last_customers = customers.groupBy("id").agg(f.max("seq").alias("seq"))
    order_rows = orders.where("not deleted").join(last_orders, ["id", "seq"], "left_semi")
    customer_rows = customers.where("not deleted").join(f.broadcast(last_customers), ["id", "seq"], "left_semi")
    named = customer_rows.select(f.col("id").alias("customer"), *customer)
    return order_rows.join(f.broadcast(named), "customer").select("id", *order, *customer)


def foreign_key_final(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The final rows of the foreign-key join."""
    return final(orders, customers, ("amount",), ("name",))


def tables(left: DataFrame, right: DataFrame) -> DataFrame:
    """The changelog of the outer join on the key, also of deletes of absent rows."""
    return _of_last_rows(_so_far({"a": left, "b": right}), ("a", "b"))


def four_tables(*each: DataFrame) -> DataFrame:
    """The changelog of the outer join of four tables on the key, without what changes nothing: deletes of absent
    rows.
    """
    names = TABLES["four"]
    last = _so_far(dict(zip(names, each, strict=True)))
    before = last.withColumns({f"{side}_gone": f.lag(f.expr(_gone(side)), 1, True).over(_by_position()) for side in names})
    absent = " or ".join(f"(source = '{side}' and {_gone(side)} and {side}_gone)" for side in names)
    return _of_last_rows(before.where(f"not ({absent})"), names)


def _so_far(each: Mapping[str, DataFrame]) -> DataFrame:
    """All tables' changes in one sequence, the last row of each so far."""
    parts = [
        table.select(
            "id",
            f.col("seq").alias("position"),
            f.lit(name).alias("source"),
            *((f.struct("deleted", f.col(name).alias("value")) if other == name else f.lit(None)).alias(other) for other in each),
        )
        for name, table in each.items()
    ]
    so_far = _by_position().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return reduce(DataFrame.unionByName, parts).withColumns({side: f.last(side, ignorenulls=True).over(so_far) for side in each})


def _of_last_rows(last: DataFrame, names: Sequence[str]) -> DataFrame:
    events = last.withColumn("deleted", f.expr(" and ".join(map(_gone, names))))
    values = events.withColumns({name: f.col(f"{name}.value") for name in names})
    return _without_repeated_deletes(values).select("id", "position", "deleted", *names)


def _gone(side: str) -> str:
    return f"coalesce({side}.deleted, true)"


def pairs(left: DataFrame, right: DataFrame) -> DataFrame:
    """The changelog of the inner join of rows with one place."""
    lives = [
        table.select(
            "id",
            "place",
            name,
            "seq",
            f.lead("seq", 1, _END).over(in_order).alias("ends"),
            # an update within the place does not end a pair
            (f.lead("place").over(in_order) == f.col("place")).alias("stays"),
        ).where("place is not null")
        for table, name, in_order in (
            (each, name, Window.partitionBy("id").orderBy("seq")) for each, name in ((left, "a"), (right, "b"))
        )
    ]
    one, other = lives[0].alias("l"), lives[1].alias("r")
    met = one.join(other, f.expr("l.place = r.place and l.seq < r.ends and r.seq < l.ends"))
    stays = "if(l.ends < r.ends, l.stays, if(r.ends < l.ends, r.stays, l.stays and r.stays))"
    begins = "struct(greatest(l.seq, r.seq) as position, false as deleted, a, b)"
    ends = "struct(least(l.ends, r.ends) as position, true as deleted, cast(null as bigint) as a, cast(null as bigint) as b)"
    is_ended = f"least(l.ends, r.ends) < {_END} and not coalesce({stays}, false)"
    changes = f.expr(f"inline(if({is_ended}, array({begins}, {ends}), array({begins})))")
    return met.select(f.col("l.id").alias("left_id"), f.col("r.id").alias("right_id"), changes)


def streams(views: DataFrame, clicks: DataFrame) -> DataFrame:
    """Pairs with the same key and close times."""
    # With some fifty records a key, a sort-merge join on the key alone is no slower than one on key and time
    # bucket.
    clicked = clicks.withColumnRenamed("ts", "clicked")
    close = f.col("clicked").between(f.col("ts") - WINDOW_MICROSECONDS, f.col("ts") + WINDOW_MICROSECONDS)
    pairs = views.join(clicked, (views["key"] == clicked["key"]) & close)
    return pairs.select(views["key"], "view", "click", f.greatest("ts", "clicked").alias("ts"))


def changelog(left: DataFrame, right: DataFrame) -> DataFrame:
    """Old and new values of the left table's changes."""
    pairs = left.select("id", f.col("seq").alias("position"), f.col("a").alias("new"))
    pairs = pairs.withColumn("old", f.lag("new").over(_by_position()))
    return pairs.where("old is not null or new is not null").select("id", "position", "old", "new")


Plan = Callable[..., DataFrame]
PLANS: Final[dict[str, dict[str, Plan]]] = {
    "fk-uniform": {"": foreign_key},
    "fk-zipf": {"": foreign_key},
    "fk-final": {"": foreign_key_final},
    "tables": {"": tables},
    "tables-four": {"": four_tables},
    "many-few": {"": pairs},
    "many-hot": {"": pairs},
    "streams": {"": streams},
    "changelog": {"": changelog},
    "fk-records": {"": records},
    "fk-wide": {"": wide},
    "fk-short": {"": wide},
    "fk-wide-large": {"": wide_large},
    "orders-json": {"changes": enriched_changes, "latest": enriched_latest},
    "orders-latest": {"latest": enriched_latest},
    "orders-parquet": {"changes": enriched_changes, "latest": enriched_latest},
}
"""The results of each work, by the folder that each is written to."""


def _by_position() -> WindowSpec:
    return Window.partitionBy("id").orderBy("position")


def _without_repeated_deletes(events: DataFrame) -> DataFrame:
    return events.withColumn("before", f.lag("deleted", 1, True).over(_by_position())).where("not (deleted and before)")


def compute(asked: Task) -> None:
    """Write the results of a task."""
    os.environ["JAVA_HOME"] = str(find_java().resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    work = WORKS[asked.work]
    session = SparkSession.builder.master("local[2]").config(map=configuration(asked.settings, work.kind)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    read = [_read(session, asked, table) for table in work.tables]
    for name, plan in PLANS[asked.work].items():
        writer = plan(*read).write.mode("overwrite")
        if work.writes == "parquet":
            writer.parquet(str(asked.result(name)))
        else:
            writer.json(str(asked.result(name)), ignoreNullFields=False)
    session.stop()


def _read(session: SparkSession, asked: Task, table: str) -> DataFrame:
    work, path = WORKS[asked.work], str(asked.data / table)
    if not work.wide:
        place = "place long, " if work.by_place else ""
        return session.read.schema(place + _SCHEMAS[table]).parquet(path)
    reader = session.read.schema(", ".join(f"{name} {type_}" for name, type_ in RAW[table].items()))
    rows = reader.parquet(path) if work.reads == "parquet" else reader.json(path)
    key, *reference = [name for name in SHOP[table] if name.endswith("_id")]
    names = [f"{key} as id", *(f"{name} as customer" for name in reference), "lsn as seq", "op = 'd' as deleted", "updated_at as ts"]
    values = list(SHOP[table]) if work.kind != "shop" else [f"struct({', '.join(SHOP[table])}) as {table[0]}"]
    return rows.selectExpr(*names, *values)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    compute(task(parser("pyspark_sql", settings=SETTINGS).parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
