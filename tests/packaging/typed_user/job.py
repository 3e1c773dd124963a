"""A user's job: files in, a table, joins of every kind, a changelog out; strictly typed, with nothing but the
installed package.
"""

from datetime import timedelta
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection

from beam_joins import (
    Change,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    WindowedStreamJoin,
    runner,
    vectorized,
    with_key,
)
from beam_joins.io import ReadChangeEvents, ReadParquet, WriteChangelog

Row = dict[str, Any]


def enriched(order: Row, customer: Row) -> Row:
    return {**order, "customer": customer["name"]}


def is_large(_order: int, value: Row) -> bool:
    return bool(value["amount"] > 100)


def priced(key: int, stock: Row, price: Row) -> Row:
    return {"product": key, "worth": stock["count"] * price["euros"]}


def total(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"total": [len(left) + len(right)]})


def new_value(change: Change[Any, Any]) -> object:
    return change.new


def run(arguments: list[str]) -> None:
    with runner(PipelineOptions(arguments)) as options, beam.Pipeline(options=options) as pipeline:
        orders = (
            pipeline
            | "orders" >> ReadParquet("orders/*.parquet")
            | "order table"
            >> TableFromChangelog(key="order_id", sequence_by=["commit_lsn", "lsn"], apply_as_deletes={"op": ["d"]}, emit="changes")
        )
        customers = pipeline | "customers" >> ReadChangeEvents("customers.jsonl", format="debezium", key="customer_id")
        large = orders | FilterTable(is_large)
        joined = (large, customers) | ForeignKeyJoin(enriched, foreign_key="customer_id", how="left")
        joined | WriteChangelog("enriched.jsonl", records="pairs", key="order_id", table="enriched")
        changes: PCollection[Change[Any, Any]] = joined | TableToChanges()
        changes | beam.Map(new_value)

        (orders, customers) | "worth" >> TableTableJoin(with_key(priced), how="outer")
        (orders, customers) | "totals" >> TableTableJoin(vectorized(total), schema=pa.schema({"total": pa.int64()})) | LatestTable()
        (orders, orders) | WindowedStreamJoin(
            lambda left, right: (left, right), before=timedelta(minutes=5), after=60, grace=0, how="left"
        )


if __name__ == "__main__":
    run(["--runner=SparkRunner"])
