"""Elements become columns when they are routed: all of a bundle, with their times, and those that functions
fail for apart.
"""

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

from beam_joins.coders.block import read_block
from beam_joins.keys.hashes import hashes
from beam_joins.transforms.engine.blocks.block_writer import BAD, DROPPED
from beam_joins.transforms.engine.stages.routed_records import ELEMENTS, RecordRoute
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions


def rows_of_block(partition_and_block):
    _, rows = read_block(partition_and_block[1])
    return list(zip(*rows.to_pydict().values(), strict=True))


def routed(p, elements, functions, to):
    key_of = functions.function("key", lambda number: number if number % 5 else number // 0)

    def rows(records):
        records.drop("null_key", [None if number % 2 else number for number in records.elements])
        key = records.each(key_of, records.elements)
        columns = (pa.array(records.kept(column)) for column in (key, records.times.tolist()))
        table = pa.record_batch(list(columns), names=["key", "timestamp"])
        records.writer.send("rows", hashes(table["key"]), table)

    timed = p | beam.Create(elements) | beam.Map(lambda number: TimestampedValue(number, number))
    return timed | RecordRoute(rows, functions, to=to)


def test_every_element_is_a_row_at_its_time_however_many_there_are():
    numbers = [number for number in range(2, 5 * ELEMENTS, 2) if number % 5]
    with beam.Pipeline("FnApiRunner", options=PipelineOptions(["--beam_joins_blocks=inline"])) as p:
        outputs = routed(p, numbers, StageFunctions("a stage", None), ("rows",))
        rows = outputs["rows"] | beam.FlatMap(rows_of_block)
        assert_that(rows, equal_to([(number, number * 1_000_000) for number in numbers]))


def test_what_is_dropped_and_what_a_function_raises_for_have_outputs_of_their_own_at_their_times(direct):
    with direct() as p:
        outputs = routed(p, [1, 2, 10], StageFunctions("a stage", Exception), ("rows", DROPPED, BAD))
        assert_that(outputs["rows"] | beam.FlatMap(rows_of_block), equal_to([(2, 2_000_000)]), label="rows")
        dropped = outputs[DROPPED] | beam.Map(lambda dropped, time=beam.DoFn.TimestampParam: (tuple(dropped), time.micros))
        assert_that(dropped, equal_to([(("null_key", 1, 1_000_000), 1_000_000)]), label="dropped")
        bad = outputs[BAD] | "times" >> beam.Map(lambda bad, time=beam.DoFn.TimestampParam: (bad[0], bad[1][0], time.micros))
        assert_that(bad, equal_to([(10, "ZeroDivisionError", 10_000_000)]), label="bad")
