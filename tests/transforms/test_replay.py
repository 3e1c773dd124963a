"""The engine: blocks go out when they are full, and before that when what waits is large; partitions wait grouped or in state."""

import copy

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, ForeignKeyJoin, TableFromChangelog, TableTableJoin
from beam_joins.coders import read_block
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import BLOCK_RECORDS, PENDING_BYTES, BlockWriter
from beam_joins.transforms.engine.replay import ReplayOptions


def rows(outputs):
    return [read_block(block)[1].num_rows for _, (_, block) in outputs]


def test_a_block_goes_out_when_it_is_full():
    writer = BlockWriter(partitions=1)
    for i in range(BLOCK_RECORDS + 1):
        writer.send("rows", b"k", Record(b"k", b"v", i, i))
    assert rows(writer.pop_ready()) == [BLOCK_RECORDS]
    assert [read_block(block)[1].num_rows for _, (_, block), _ in writer.flush()] == [1]


def test_wide_records_do_not_wait_for_a_full_block():
    writer = BlockWriter(partitions=1)
    wide = bytes(PENDING_BYTES // 4)
    for i in range(5):
        writer.send("rows", b"k", Record(b"k", wide, i, i))
    assert rows(writer.pop_ready()) == [4]


@pytest.mark.spark
def test_a_chain_of_joins_whose_partitions_wait_in_state_runs_on_spark(spark_options):
    options = copy.deepcopy(spark_options)
    options.view_as(ReplayOptions).beam_joins_replay = "state"
    with beam.Pipeline(options=options) as p:
        a, b = (p | name >> beam.Create([("k", name), ("l", "k")]) | f"table {name}" >> at_one_position() for name in "ab")
        both = (a, b) | TableTableJoin(lambda left, right: left + right)
        joined = (both, b) | ForeignKeyJoin(
            foreign_key=lambda key, value: value[0], joiner=lambda left, right: left + right, partitions=3
        )
        assert_that(joined, equal_to([Change("l", None, "kkb", 1, 1)]))


def at_one_position():
    return TableFromChangelog(key=lambda pair: pair[0], timestamp_by=lambda pair: 1) | beam.Map(
        lambda change: change._replace(new=change.new[1])
    ).with_output_types(Change)


def test_an_unknown_way_to_wait_is_refused():
    with pytest.raises(SystemExit):
        PipelineOptions(["--beam_joins_replay=hope"]).view_as(ReplayOptions)
