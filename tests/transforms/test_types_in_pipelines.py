"""Columns of every Arrow type as the parts of one key, one foreign key and one group, and as values: typed
and opaque, in any number of partitions.
"""

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import CountTable, ForeignKeyJoin, TableFromChangelog, TableTableJoin, TableToChanges
from tests.beam_joins.types_of_columns import LEAVES, Sample, made_of, plain_sample

SAMPLES = [*map(plain_sample, LEAVES), *made_of(pa.int64()), *made_of(pa.string_view()), *made_of(pa.timestamp("us", "UTC"))]
NAMES = [f"c{n}" for n in range(len(SAMPLES))]
CDC = {"sequence_by": "lsn", "timestamp_by": "lsn"}


def columns(samples: list[Sample]) -> dict[str, pa.Array]:
    """Two rows of all types, and one that is null in all."""
    return {
        name: pa.concat_arrays([sample.column.slice(0, 2), sample.column.slice(len(sample.values) - 1)])
        for name, sample in zip(NAMES, samples, strict=True)
    }


TYPED = pa.table({"id": [0, 1, 2], "lsn": [1, 2, 3], **columns(SAMPLES)})
VALUES = [{name: sample.values[(0, 1, -1)[n]] for name, sample in zip(NAMES, SAMPLES, strict=True)} for n in range(3)]
KEYS = [tuple(sample.keys[n] for sample in SAMPLES) for n in (0, 1)]
OPAQUE = [{"id": n, "lsn": n + 1, **dict(zip(NAMES, key, strict=True))} for n, key in enumerate(KEYS)]


def ids(left: Any, right: Any) -> tuple[int | None, int | None]:
    return left["id"], right and right["id"]


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_all_types_together(partitions):
    options = PipelineOptions([f"--beam_joins_partitions={partitions}"])
    with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
        typed = p | "typed" >> beam.Create([TYPED[:1], TYPED[1:]]) | "typed table" >> TableFromChangelog(key="id", **CDC)
        keyed = p | "keyed" >> beam.Create([TYPED[:2]]) | "typed keys" >> TableFromChangelog(key=NAMES, **CDC)
        opaque = p | "opaque" >> beam.Create(OPAQUE) | "opaque keys" >> TableFromChangelog(key=NAMES, **CDC)
        by_key = (keyed, opaque) | TableTableJoin(ids) | "joined" >> TableToChanges()
        assert_that(
            by_key | "by key" >> beam.Map(lambda change: (change.key, change.new)), equal_to([(KEYS[n], (n, n)) for n in (0, 1)])
        )
        for name, right in (("typed", keyed), ("opaque", opaque)):
            referring = (typed, right) | f"to {name}" >> ForeignKeyJoin(ids, foreign_key=NAMES, how="left")
            actual = referring | f"changes of {name}" >> TableToChanges() | f"found in {name}" >> beam.Map(lambda change: change.new)
            assert_that(actual, equal_to([(0, 0), (1, 1), (2, None)]), label=f"referred {name}")
        counts = typed | CountTable(group_by=NAMES) | "counts" >> TableToChanges()
        assert_that(
            counts | "groups" >> beam.Map(lambda change: (change.key, change.new)), equal_to([(key, 1) for key in KEYS]), label="g"
        )
        values = (
            typed | "values" >> TableToChanges() | "by name" >> beam.Map(lambda change: {name: change.new[name] for name in NAMES})
        )
        assert_that(values, equal_to(VALUES), label="v")
