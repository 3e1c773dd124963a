"""Every transform runs with Beam's option --runtime_type_check: what a step gives is of the type that it
says.
"""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    Change,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    ReduceTable,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToStream,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
    WindowedTableToStream,
)


def checked():
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--runtime_type_check"]))


def stream(p, name, rows):
    timed = p | f"{name} rows" >> beam.Create(rows) | f"{name} times" >> beam.Map(lambda row: TimestampedValue(row[:2], row[2]))
    timed.element_type = beam.typehints.Tuple[str, beam.typehints.Optional[str]]
    return timed


def value(key, value):
    return value


def pair(left, right):
    return f"{left}+{right}"


def test_the_option_checks_what_a_step_says(direct):
    with pytest.raises(Exception, match="According to type-hint expected output should be of type <class 'int'>"), checked() as p:
        _ = p | beam.Create(["a"]) | beam.Map(lambda text: text).with_output_types(int)


@pytest.mark.slow
def test_tables_streams_and_windows_go_through_with_types_checked():
    with checked() as p:
        words = stream(p, "words", [("a", "x", 1), ("a", "y", 2), ("x", "z", 3), ("b", None, 4), ("b", "a", 5)])
        outputs = words | TableFromChangelog().with_outputs()
        table = outputs.table | FilterTable(lambda key, value: value != "q") | MapTable(value)
        inner = (table, table) | "inner" >> ForeignKeyJoin(pair, foreign_key=value)
        changes = inner | TableToChanges()
        typed = changes | beam.Map(lambda change: change).with_input_types(Change[str, str]).with_output_types(Change[str, str])
        assert_that(typed | LatestTable(), equal_to([("b", "a+y")]), label="inner")
        outer = (table, table) | "outer" >> ForeignKeyJoin(pair, foreign_key=value, how="outer").with_outputs()
        many = (table, table) | OneToManyJoin(pair, foreign_key=value) | "latest of many" >> LatestTable()
        assert_that(many | beam.Map(lambda row: row[1]), equal_to(["y+a"]), label="many")
        same = (table, table) | TableTableJoin(pair, how="outer")
        counts = same | CountTable(group_by=lambda key, value: len(value)).with_outputs()
        assert_that(counts.table | "latest count" >> LatestTable(), equal_to([(3, 3)]), label="counts")
        reduced = table | ReduceTable(group_by=value, add=lambda one, other: other, subtract=lambda one, other: one)
        looked_up = (words, table) | StreamTableJoin(pair, how="left")
        referred = (words, table) | StreamForeignKeyJoin(pair, foreign_key=value, how="left").with_outputs()
        close = (words, words) | WindowedStreamJoin(pair, how="outer", before=1, after=1, grace=0).with_outputs()
        windows = words | WindowedAggregate(FixedWindows(60), initial=0, add=lambda count, word: count + 1).with_outputs()
        both = (windows.table, windows.table) | WindowedTableJoin(pair)
        written = both | WindowedTableToStream(lambda key, window, value: (key, value))
        for name, pcoll in {
            "outer": outer.table,
            "reduced": reduced,
            "a stream": table | TableToStream(),
            "looked up": looked_up,
            "referred": referred.stream,
            "close": close.stream,
            "written": written,
        }.items():
            assert_that(
                pcoll | f"{name} is there" >> beam.combiners.Count.Globally(), lambda counted: counted[0] > 0 or fail(), label=name
            )
        reasons = (outer.dropped, counts.dropped, referred.dropped, close.dropped, windows.dropped, outputs.dropped) | beam.Flatten()
        dropped = reasons | beam.Map(lambda dropped: dropped.reason)
        assert_that(dropped, equal_to(["null_value"] * 3), label="dropped")


def fail():
    raise AssertionError("nothing came out")


def test_tables_in_columns_go_through_with_types_checked():
    rows = pa.table({"id": [1, 1, 2], "lsn": [1, 2, 3], "by": [2, 2, 1]})
    with checked() as p:
        batches = p | beam.Create([rows]).with_output_types(pa.Table)
        table = batches | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        joined = (table, table) | ForeignKeyJoin({"by": "left.by", "of": "right.by"}, foreign_key="by")
        both = (joined, table) | TableTableJoin({"of": "left.of", "lsn": "right.lsn"})
        assert_that(
            both | LatestTable() | beam.FlatMap(lambda batch: batch["value"].to_pylist()),
            equal_to([{"of": 1, "lsn": 2}, {"of": 2, "lsn": 3}]),
        )
        latest = table | TableToChanges() | MapTable(lambda key, row: row["by"]) | "latest of changes" >> LatestTable()
        assert_that(latest, equal_to([(1, 2), (2, 1)]), label="latest")
        close = (batches, batches) | WindowedStreamJoin({"by": "left.by"}, before=0, after=0, grace=0, key="id", timestamp_by="lsn")
        matched = close | "values" >> beam.FlatMap(lambda batch: batch["value"].to_pylist())
        assert_that(matched, equal_to([{"by": 2}, {"by": 2}, {"by": 1}]), label="close")
