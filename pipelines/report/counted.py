"""What is counted in a run for its report: nothing of it is in a pipeline that has none."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch, MapTable, vectorized
from beam_joins.pipelines.changelog_files.reading import REFERENCE
from beam_joins.pipelines.enrich import Enriched
from beam_joins.pipelines.report.figure import Figure
from beam_joins.pipelines.report.references import CountReferences
from beam_joins.pipelines.report.samples import Samples
from beam_joins.pipelines.report.times import CountTimes

RESULT, ORDERS, CUSTOMERS = "result", "orders", "customers"


def figures(orders: PCollection[Any], customers: PCollection[Any], enriched: Enriched) -> list[PCollection[Figure]]:
    """The figures of a run: of the records read, of the tables that were joined and of the result, which has the column of the reference."""
    timed = {ORDERS: orders, CUSTOMERS: customers, RESULT: enriched.table}
    dropped = {ORDERS: enriched.dropped_orders, CUSTOMERS: enriched.dropped_customers}
    counted = {"results": enriched.table, "orders": enriched.orders, "customers": enriched.customers}
    return [
        *(rows | f"Times of {place}" >> beam.ParDo(CountTimes(place)) for place, rows in timed.items()),
        *(records | f"Samples of {place}" >> beam.ParDo(Samples(place)) for place, records in dropped.items()),
        counted | "References" >> CountReferences(),
    ]


def without_reference(table: PCollection[ChangeBatch]) -> PCollection[ChangeBatch]:
    """The table as it is without a report."""
    without: PCollection[ChangeBatch] = table | "Without reference" >> MapTable(vectorized(_without))
    return without


def _without(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: rows[name] for name in rows.schema.names if name != REFERENCE}
