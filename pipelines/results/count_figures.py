"""Counts the figures of a report in the workers: changes by event time, references, samples of dropped records."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch, MapTable, vectorized
from beam_joins.columns.positions import times_or_null
from beam_joins.columns.sorting import integers
from beam_joins.functions.marked_functions import built_in
from beam_joins.keys.key_columns import Ints
from beam_joins.pipelines.formats.changelog_columns import REFERENCE, TIME
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.results.count_references import CountReferences
from beam_joins.pipelines.results.counts import at_bundle_end
from beam_joins.pipelines.results.figure import (
    LEFT,
    MOST_BUCKETS,
    MOST_SAMPLES,
    NO_TIMES,
    RESULT,
    RESULT_TIMES,
    RIGHT,
    SAMPLE,
    TIMES,
    WIDTHS,
    Figure,
    TimeCounts,
    add_times,
)
from beam_joins.transforms.connect.runs import KeptSignatures
from beam_joins.transforms.connect.tables import table_type

_LONGEST: Final = 400
_TEXT: Final = "json lines"
_COLUMNS: Final = "columns"
_PAIR: Final = 2


class Counted(NamedTuple):
    """An input: its name, its records and those that were dropped."""

    name: str
    records: PCollection[Any]
    dropped: PCollection[Any]


def figures(inputs: Sequence[Counted], tables: Sequence[PCollection[Any]], result: PCollection[Any]) -> list[PCollection[Figure]]:
    """The figures of a run over these inputs, whose ``tables`` give the result; of references where the result
    has their column.
    """
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
    """The table without the column that references are counted by."""
    without: PCollection[ChangeBatch] = table | "Without reference" >> MapTable(vectorized(_without))
    return without


@built_in("without reference")
def _without(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: rows[name] for name in rows.schema.names if name != REFERENCE}


class CountTimes(KeptSignatures):
    """Batches of records or changes to one :class:`Figure` a bundle, with their counts by event time."""

    def __init__(self, place: str) -> None:
        self._place = place

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._counts = NO_TIMES

    def process(self, element: pa.RecordBatch | ChangeBatch) -> None:
        """Count the rows of a batch."""
        times = element.timestamp if isinstance(element, ChangeBatch) else element.column(TIME)
        self._counts = add_times([self._counts, count_times(integers(times_or_null(times).drop_null()))])

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the counts."""
        if self._counts.counts:
            yield at_bundle_end(Figure(TIMES, self._place, [self._counts.width, list(self._counts.counts.items())]))


def count_times(times: Ints) -> TimeCounts:
    """The counts of event times in microseconds, in the narrowest buckets that are not too many.

    >>> count_times(np.array([0, 500, 1_000])).counts
    {0: 2, 1: 1}
    """
    for width in WIDTHS:
        buckets, counts = np.unique(times // width, return_counts=True)
        if len(buckets) <= MOST_BUCKETS or width == WIDTHS[-1]:
            break
    return TimeCounts(width, dict(zip(buckets.tolist(), counts.tolist(), strict=True)))


class Samples(KeptSignatures):
    """``PCollection[Dropped]`` to one :class:`Figure` a reason and bundle, with the first few records."""

    def __init__(self, place: str) -> None:
        self._place = place

    def start_bundle(self) -> None:
        """Begin without any."""
        self._samples: dict[str, list[str]] = {}

    def process(self, element: Any) -> None:
        """Keep a record if there are not enough of its reason."""
        samples = self._samples.setdefault(element.reason, [])
        if len(samples) < MOST_SAMPLES:
            samples.append(text_of(element.record))

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the records kept."""
        for reason, samples in self._samples.items():
            yield at_bundle_end(Figure(SAMPLE, self._place, [reason, samples]))


def text_of(record: Any) -> str:
    """A record, a mapping or a pair of a key and one, as people read it: its line of JSON, or else its key and
    its columns.

    >>> text_of({"json lines": b'{"id":7}'}), text_of({"columns": {"id": 7, "n": 2}})
    ('{"id":7}', '{"id":7,"n":2}')
    """
    if isinstance(record, tuple) and len(record) == _PAIR and isinstance(record[1], Mapping):
        record = {"key": record[0], **record[1]}
    if not isinstance(record, Mapping):
        text = str(record)
    elif isinstance(line := record.get(_TEXT), bytes):
        text = line.decode(errors="replace")
    elif isinstance(row := record.get(_COLUMNS), Mapping):
        text = dumps_line(row)[:-1].decode()
    else:
        text = ", ".join(f"{name} {value}" for name, value in record.items() if not isinstance(value, bytes) and value is not None)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
