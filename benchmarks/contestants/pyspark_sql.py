"""PySpark SQL by hand, on two cores: how a PySpark engineer would write and tune each work."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as f

from beam_joins.pipelines.launcher.java import find_java
from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import WINDOW_MICROSECONDS, WORKS

_END: Final = 2**62

# A schema that is given spares Spark a job that would find it out.
_SCHEMAS: Final = {
    "orders": "id long, customer long, amount long, ts long, seq long, deleted boolean",
    "customers": "id long, name string, ts long, seq long, deleted boolean",
    "left": "id long, a long, ts long, seq long, deleted boolean",
    "right": "id long, b long, ts long, seq long, deleted boolean",
    "views": "key long, view long, ts long",
    "clicks": "key long, click long, ts long",
}

# Measured, as are the plans below: see docs/benchmarks.md. The JVM's options are those that spark_runner uses too.
SETTINGS: Final = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def foreign_key(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The changelog of the foreign-key join: lives of orders joined with the overlapping lives of their customers."""
    in_order = Window.partitionBy("id").orderBy("seq")
    order_lives = orders.select("id", "customer", "amount", "seq", f.lead("seq", 1, _END).over(in_order).alias("ends"))
    customer_changes = customers.select(
        "id",
        "name",
        f.col("deleted").alias("gone"),
        f.col("seq").alias("since"),
        f.lead("seq", 1, _END).over(in_order).alias("until"),
        f.lag("seq").over(in_order).alias("before"),
    )
    # Before its first change a customer is not there, as after a delete.
    life = "struct(name, gone, since, until)"
    absence = "struct(cast(null as string) as name, true as gone, -1L as since, since as until)"
    customer_lives = customer_changes.select(
        f.col("id").alias("customer"), f.expr(f"inline(if(before is null, array({absence}, {life}), array({life})))")
    )
    events = order_lives.join(
        f.broadcast(customer_lives),
        (order_lives["customer"] == customer_lives["customer"]) & (f.col("since") < f.col("ends")) & (f.col("seq") < f.col("until")),
        "left",
    ).select("id", f.greatest("seq", "since").alias("position"), f.coalesce("gone", f.lit(True)).alias("deleted"), "amount", "name")
    return _without_repeated_deletes(events).select(
        "id",
        "position",
        "deleted",
        f.expr("if(deleted, null, amount)").alias("amount"),
        f.expr("if(deleted, null, name)").alias("name"),
    )


def foreign_key_final(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """The final rows only: the last change of each order and each customer."""
    # A maximum of numbers is a hash aggregate, which costs less here than row_number, and less than max_by.
    last_orders = orders.groupBy("id").agg(f.max("seq").alias("seq")).hint("shuffle_hash")
    last_customers = customers.groupBy("id").agg(f.max("seq").alias("seq"))
    order_rows = orders.where("not deleted").join(last_orders, ["id", "seq"], "left_semi")
    customer_rows = customers.where("not deleted").join(f.broadcast(last_customers), ["id", "seq"], "left_semi")
    named = customer_rows.select(f.col("id").alias("customer"), "name")
    return order_rows.join(f.broadcast(named), "customer").select("id", "amount", "name")


def tables(left: DataFrame, right: DataFrame) -> DataFrame:
    """The changelog of the outer join on the key: both tables' changes in one sequence, the last row of each so far."""
    changes = left.select(
        "id", f.col("seq").alias("position"), f.struct("deleted", f.col("a").alias("value")).alias("a"), f.lit(None).alias("b")
    ).unionByName(
        right.select(
            "id", f.col("seq").alias("position"), f.lit(None).alias("a"), f.struct("deleted", f.col("b").alias("value")).alias("b")
        )
    )
    so_far = _by_position().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    events = (
        changes.withColumns({side: f.last(side, ignorenulls=True).over(so_far) for side in ("a", "b")})
        .withColumn("deleted", f.expr("coalesce(a.deleted, true) and coalesce(b.deleted, true)"))
        .withColumns({"a": f.col("a.value"), "b": f.col("b.value")})
    )
    return _without_repeated_deletes(events).select("id", "position", "deleted", "a", "b")


def streams(views: DataFrame, clicks: DataFrame) -> DataFrame:
    """Pairs with the same key and close times."""
    # With some fifty records a key, a sort-merge join on the key alone is no slower than one on key and time bucket.
    clicked = clicks.withColumnRenamed("ts", "clicked")
    close = f.col("clicked").between(f.col("ts") - WINDOW_MICROSECONDS, f.col("ts") + WINDOW_MICROSECONDS)
    pairs = views.join(clicked, (views["key"] == clicked["key"]) & close)
    return pairs.select(views["key"], "view", "click", f.greatest("ts", "clicked").alias("ts"))


def changelog(left: DataFrame, right: DataFrame) -> DataFrame:
    """Old and new values of the left table's changes."""
    pairs = left.select("id", f.col("seq").alias("position"), f.col("a").alias("new"))
    pairs = pairs.withColumn("old", f.lag("new").over(_by_position()))
    return pairs.where("old is not null or new is not null").select("id", "position", "old", "new")


PLANS: Final[dict[str, Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "fk-uniform": foreign_key,
    "fk-zipf": foreign_key,
    "fk-final": foreign_key_final,
    "tables": tables,
    "streams": streams,
    "changelog": changelog,
}


def _by_position() -> WindowSpec:
    return Window.partitionBy("id").orderBy("position")


def _without_repeated_deletes(events: DataFrame) -> DataFrame:
    return events.withColumn("before", f.lag("deleted", 1, True).over(_by_position())).where("not (deleted and before)")


def compute(given: Task) -> None:
    """Write the result of a task."""
    os.environ["JAVA_HOME"] = str(find_java().resolve().parent.parent)
    session = SparkSession.builder.master("local[2]").config(map=dict(SETTINGS)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    left, right = (session.read.schema(_SCHEMAS[table]).parquet(str(given.data / table)) for table in WORKS[given.work].tables)
    PLANS[given.work](left, right).write.mode("overwrite").parquet(str(given.out))
    session.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    compute(task(parser("pyspark_sql").parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
