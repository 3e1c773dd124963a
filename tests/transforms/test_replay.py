"""The engine: blocks go out when they are full, and before that when what waits is large; partitions wait in
state or grouped.
"""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, ForeignKeyJoin, MapTable, TableFromChangelog, TableTableJoin, TableToChanges
from beam_joins.coders import read_block
from beam_joins.transforms.engine.blocks import block_writer
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions


def batch(*keys):
    """Rows with these keys, each 100 bytes wide."""
    times = np.arange(len(keys))
    return pa.record_batch([keys, [b"x" * 100] * len(keys), times, times], names=["key", "value", "timestamp", "position"])


def sent(outputs):
    """The keys in each block, by the partition that it goes to."""
    blocks = [getattr(output, "value", output) for _, output in outputs]
    return [(partition, read_block(block)[1]["key"].to_pylist()) for partition, block in blocks]


def flushed(writer):
    return sent((to, block) for to, block, _ in writer.flush())


def test_rows_go_to_the_partition_of_their_hash_in_their_order():
    writer = BlockWriter(partitions=3)
    writer.send("rows", np.array([1, 5, 1, 4], np.uint64), batch("a", "b", "c", "d"))
    writer.send("rows", np.array([], np.uint64), batch())
    writer.send("rows", np.array([2], np.uint64), batch("e"))
    assert writer.pop_ready() == []
    assert flushed(writer) == [(1, ["a", "c", "d"]), (2, ["b", "e"])]
    assert flushed(writer) == []


def test_a_block_goes_out_when_it_is_full(monkeypatch):
    monkeypatch.setattr(block_writer, "BLOCK_BYTES", 300)
    writer = BlockWriter(partitions=2)
    for key in "abcd":
        writer.send("rows", np.array([0], np.uint64), batch(key))
    assert sent(writer.pop_ready()) == [(0, ["a", "b", "c"])]
    assert flushed(writer) == [(0, ["d"])]


def test_what_waits_goes_out_when_it_is_large_and_counts_no_longer(monkeypatch):
    monkeypatch.setattr(block_writer, "PENDING_BYTES", 300)
    writer = BlockWriter(partitions=2)
    for n, key in enumerate("abcdef"):
        writer.send("rows", np.array([n % 2], np.uint64), batch(key))
    assert sent(writer.pop_ready()) == [(0, ["a", "c"]), (1, ["b"]), (1, ["d", "f"]), (0, ["e"])]
    monkeypatch.setattr(block_writer, "BLOCK_BYTES", 200)
    for key in "abcdef":
        writer.send("rows", np.array([0], np.uint64), batch(key))
    assert sent(writer.pop_ready()) == [(0, ["a", "b"]), (0, ["c", "d"]), (0, ["e", "f"])]


def test_a_chain_of_joins_is_the_same_however_many_partitions_there_are(pipeline):
    with pipeline(partitions=3) as p:
        a, b = (p | name >> beam.Create([("k", name), ("l", "k")]) | f"table {name}" >> at_one_position() for name in "ab")
        both = (a, b) | TableTableJoin(lambda left, right: left + right)
        joined = (both, b) | ForeignKeyJoin(lambda left, right: left + right, foreign_key=lambda key, value: value[0])
        assert_that(joined | TableToChanges(), equal_to([Change("l", None, "kkb", 1, 1)]))


def at_one_position():
    table = TableFromChangelog(key=lambda pair: pair[0], timestamp_by=lambda pair: 1)
    return table | "value" >> MapTable(lambda key, pair: pair[1])


@pytest.mark.parametrize("option", ["--beam_joins_broadcast_bytes=none", "--beam_joins_partitions=many"])
def test_a_wrong_option_of_the_engine_is_refused(option):
    with pytest.raises(SystemExit):
        PipelineOptions([option]).view_as(ReplayOptions)


@pytest.mark.parametrize("partitions", ["0", "-1"])
def test_a_number_of_partitions_that_makes_no_sense_is_refused(partitions):
    p = beam.Pipeline(options=PipelineOptions([f"--beam_joins_partitions={partitions}"]))
    with pytest.raises(ValueError, match="partitions=.*: give a positive whole number"):
        _ = p | beam.Create([("k", 1)]) | TableFromChangelog()
