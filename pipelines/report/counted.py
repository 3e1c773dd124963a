"""What is counted in a run for its report: nothing of it is in a pipeline that has none."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch, MapTable, vectorized
from beam_joins.pipelines.changelog_files.reading import REFERENCE
from beam_joins.pipelines.report.figure import Figure
from beam_joins.pipelines.report.references import LEFT, RESULT, RIGHT, CountReferences
from beam_joins.pipelines.report.samples import Samples
from beam_joins.pipelines.report.times import CountTimes
from beam_joins.transforms.engine.table_type import table_type

RESULT_TIMES: Final = "result"


class Counted(NamedTuple):
    """An input: its name, its records and those that were dropped."""

    name: str
    records: PCollection[Any]
    dropped: PCollection[Any]


def figures(inputs: Sequence[Counted], tables: Sequence[PCollection[Any]], result: PCollection[Any]) -> list[PCollection[Figure]]:
    """The figures of a run over these inputs, whose ``tables`` give the result; of references where the result has their column."""
    timed = {**{each.name: each.records for each in inputs}, RESULT_TIMES: result}
    counted = [
        *(rows | f"Times of {place}" >> beam.ParDo(CountTimes(place)) for place, rows in timed.items()),
        *(each.dropped | f"Samples of {each.name}" >> beam.ParDo(Samples(each.name)) for each in inputs),
    ]
    value = table_type(result).value_column
    if pa.types.is_struct(value) and value.get_field_index(REFERENCE) >= 0 and len(tables) > 1:
        counted.append({RESULT: result, LEFT: tables[0], RIGHT: tables[1]} | "References" >> CountReferences())
    return counted


def without_reference(table: PCollection[ChangeBatch]) -> PCollection[ChangeBatch]:
    """The table as it is without a report."""
    without: PCollection[ChangeBatch] = table | "Without reference" >> MapTable(vectorized(_without))
    return without


def _without(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: rows[name] for name in rows.schema.names if name != REFERENCE}
