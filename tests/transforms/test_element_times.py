"""Element times are milliseconds, whatever the shape of the pipeline: microseconds are cut where a position
or a lookup is read from them.
"""

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import (
    Change,
    Dropped,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableToChanges,
    WindowedAggregate,
    WindowedStreamJoin,
)


def timed(row):
    key, micros, value = row
    return TimestampedValue((key, value), Timestamp(micros=micros))


def stream(p, name, rows, shape):
    """Rows (key, microseconds, value) as a stream that is read where it is made, or in the next stage."""
    inputs = p | f"{name} rows" >> beam.Create(rows, reshuffle=False) | f"{name} times" >> beam.Map(timed)
    if shape == "fused":
        return inputs
    nothing = p | f"nothing of {name}" >> beam.Create([], reshuffle=False)
    return (inputs, nothing) | f"stage of {name}" >> beam.Flatten()


def with_micros(element, time=beam.DoFn.TimestampParam):
    return (element, time.micros)


both_shapes = pytest.mark.parametrize("shape", ["fused", "in two stages"])


@both_shapes
@pytest.mark.parametrize(("first", "place"), [(1_000_001, 1_000_000), (-1_999, -1_000)], ids=["after 1970", "before 1970"])
def test_two_records_of_one_millisecond_have_one_position(direct, shape, first, place):
    with direct() as p:
        log = stream(p, "log", [("k", first, "A"), ("k", first + 1, "B"), ("l", first + 1_000, "C")], shape)
        outputs = log | TableFromChangelog().with_outputs()
        changes = [Change("k", None, "B", place, place), Change("l", None, "C", place + 1_000, place + 1_000)]
        assert_that(outputs.table | TableToChanges(), equal_to(changes), label="table")
        assert_that(outputs.dropped | beam.Map(lambda lost: (lost.record, lost.timestamp)), equal_to([(("k", "A"), place)]))


@both_shapes
def test_a_stream_looks_a_table_up_as_of_the_millisecond(direct, shape):
    rows = [("k", 1_000_123, "v"), ("k", 1_001_000, "w"), (None, 2_000_999, "n")]
    with direct() as p:
        left = stream(p, "left", rows, shape)
        table = p | beam.Create([Change("k", None, "row", 0, 5), Change("k", "row", "new", 1_000_100, 1_000_100)])
        outputs = (left, table) | StreamTableJoin(lambda value, row: (value, row), how="left").with_outputs()
        expected = [(("k", ("v", "row")), 1_000_000), (("k", ("w", "new")), 1_001_000), ((None, ("n", None)), 2_000_000)]
        assert_that(outputs.stream | "own" >> beam.Map(with_micros), equal_to(expected), label="own key")
        foreign = (left, table) | StreamForeignKeyJoin(lambda value, row: (value, row), foreign_key=lambda key, value: key, how="left")
        assert_that(foreign | "foreign" >> beam.Map(with_micros), equal_to(expected), label="foreign key")
        dropped = (left, table) | "inner" >> StreamTableJoin(lambda value, row: row).with_outputs()
        assert_that(dropped.dropped, equal_to([Dropped("null_key", (None, "n"), 2_000_000)]), label="dropped")


@both_shapes
def test_streams_match_by_milliseconds(direct, shape):
    with direct() as p:
        left = stream(p, "left", [("k", 1_000_900, "l"), (None, 3_000_001, "n")], shape)
        right = stream(p, "right", [("k", 1_002_100, "r"), ("k", 1_003_000, "s")], shape)
        join = WindowedStreamJoin(lambda a, b: (a, b), how="left", before=0, after=Duration(micros=2_000), grace=0)
        expected = [(("k", ("l", "r")), 1_002_000), ((None, ("n", None)), 3_000_000)]
        assert_that((left, right) | join | beam.Map(with_micros), equal_to(expected))


@both_shapes
def test_a_windowed_aggregate_counts_by_milliseconds(direct, shape):
    with direct() as p:
        views = stream(p, "views", [("k", 1_000_001, "a"), ("k", 1_000_999, "b")], shape)
        counts = views | WindowedAggregate(FixedWindows(60), initial=0, add=lambda count, view: count + 1)
        seen = counts | TableToChanges() | beam.Map(lambda change: (change.old, change.new, change.timestamp, change.position))
        assert_that(seen, equal_to([(None, 2, 1_000_000, 1_000_000)]))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_what_one_join_does_changes_nothing_for_the_next(direct, how):
    with direct() as p:
        left = stream(p, "left", [("k", 1_000_123, "v")], "fused")
        one = p | "one" >> beam.Create([Change("k", None, "row", 0, 5)])
        two = p | "two" >> beam.Create([Change("k", None, "old", 0, 5), Change("k", "old", "new", 1_000_100, 1_000_100)])
        first = (left, one) | "first" >> StreamTableJoin(lambda value, row: value, how=how)
        assert_that((first, two) | "second" >> StreamTableJoin(lambda value, row: row, how="left"), equal_to([("k", "old")]))
