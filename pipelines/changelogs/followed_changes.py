"""The changes of a changelog that is followed, as elements: the batches of columns that a plan asks for."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics

from beam_joins.pipelines.changelogs.column_reader import made_of
from beam_joins.pipelines.changelogs.read_records import SKIPPED, MadeRows
from beam_joins.pipelines.changelogs.source_reads import Place, ReadPiece, Timed
from beam_joins.pipelines.formats.changelog_columns import TIME
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.transforms.connect.metrics import NAMESPACE


class Followed(NamedTuple):
    """Elements, and the first bad record: its place and its fault."""

    piece: ReadPiece
    fault: tuple[int, str] | None


def followed(plan: ReadPlan, after: Place, raw: Iterable[RawRows]) -> Followed:
    """The changes of records up to a place; counts those that are about no row."""
    made: list[MadeRows] = [made_of(each, plan) for each in raw]
    for each in made:
        for what, count in each.skipped.items():
            Metrics.counter(NAMESPACE, f"{SKIPPED}{what}").inc(count)
    batches: list[pa.RecordBatch] = [batch for each in made for batch in each.elements]
    times = [pc.min_max(batch[TIME]).as_py() for batch in batches]
    elements = [Timed(batch, time["min"]) for batch, time in zip(batches, times, strict=True)]
    largest = max((time["max"] for time in times), default=None)
    faults = [fault for each in made for fault in each.faults]
    return Followed(ReadPiece(after, elements, largest, sum(map(len, batches))), min(faults, default=None))
