"""WindowedAggregate and WindowedTableToStream in pipelines, and what they drop and refuse."""

from datetime import timedelta

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import (
    Change,
    Dropped,
    FilterTable,
    LatestTable,
    MapTable,
    TableFromChangelog,
    TableToChanges,
    TableToStream,
    Window,
    Windowed,
    WindowedAggregate,
    WindowedTableToStream,
)
from beam_joins.transforms.engine.construction.table_type import table_type
from beam_joins.transforms.engine.construction.windows import windows_of
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from tests.transforms.counted import dropped

SECOND = 1_000_000
VIEWS = [("home", 1), ("home", 9), ("help", 3), ("home", 10), ("home", 9), (None, 5)]
COUNT = {"initial": 0, "add": lambda count, value: count + 1}


def stream(p, records, name="stream"):
    """Of (key, seconds) or (key, seconds, value)."""
    timed = [TimestampedValue((key, *(value or ["v"])), seconds) for key, seconds, *value in records]
    return p | name >> beam.Create(timed)


def window(start, end):
    return Window(start * SECOND, end * SECOND)


def row(page, start, end, old, new, seconds):
    return Change(Windowed(page, window(start, end)), old, new, seconds * SECOND, seconds * SECOND)


TUMBLING = [
    row("home", 0, 10, None, 1, 1),
    row("home", 0, 10, 1, 3, 9),
    row("help", 0, 10, None, 1, 3),
    row("home", 10, 20, None, 1, 10),
]


@pytest.mark.parametrize(("partitions", "views"), [(1, VIEWS), (5, VIEWS[::-1])])
def test_a_windowed_count_is_the_same_for_any_order_and_partitions_on_every_runner(pipeline, partitions, views):
    with pipeline() as p:
        p.options.view_as(ReplayOptions).beam_joins_partitions = partitions
        counts = stream(p, views) | "count" >> WindowedAggregate(FixedWindows(10), **COUNT)
        assert_that(counts | TableToChanges(), equal_to(TUMBLING), label="counts")
        latest = (
            counts
            | "rows" >> LatestTable()
            | "timed" >> beam.Map(lambda pair, time=beam.DoFn.TimestampParam: (*pair, time.micros // SECOND))
        )
        assert_that(
            latest,
            equal_to([
                (Windowed("home", window(0, 10)), 3, 9),
                (Windowed("help", window(0, 10)), 1, 3),
                (Windowed("home", window(10, 20)), 1, 10),
            ]),
            label="latest",
        )  # fmt: skip
        pages = counts | "pages" >> WindowedTableToStream(lambda key, window, n: ((key, window.start // SECOND), n))
        assert_that(pages, equal_to([(("home", 0), 1), (("home", 0), 3), (("help", 0), 1), (("home", 10), 1)]), label="mapped")


def test_hopping_windows_are_beams_sliding_windows(direct):
    with direct() as p:
        counts = stream(p, [("k", 7), ("k", 12)]) | WindowedAggregate(SlidingWindows(10, 5, offset=1), **COUNT)
        assert_that(
            counts | TableToChanges(),
            equal_to(
                [row("k", 1, 11, None, 1, 7), row("k", 6, 16, None, 1, 7), row("k", 6, 16, 1, 2, 12), row("k", 11, 21, None, 1, 12)]
            ),
        )


class Thirds(FixedWindows):
    """Windows that are not quite Beam's."""

    def assign(self, context):
        (window,) = super().assign(context)
        return [IntervalWindow(window.start, window.start + Duration(micros=self.size.micros // 3))]


@given(
    st.integers(-(10**10), 10**10),
    st.integers(1, 50).flatmap(lambda period: st.tuples(st.integers(1, 70), st.just(period), st.integers(0, period - 1))),
)
def test_the_windows_of_a_time_are_those_that_beam_assigns(micros, sizes):
    size, period, offset = (Duration(micros=n * 100_000) for n in sizes)
    start = Timestamp(micros=offset.micros)
    for window_fn in (FixedWindows(size, start), SlidingWindows(size, period, start), Thirds(size)):
        assigned = window_fn.assign(WindowFn.AssignContext(Timestamp(micros=micros)))
        index, start, end = windows_of(window_fn)(np.array([0, micros]))
        actual = [Window(a, b) for i, a, b in zip(index.tolist(), start.tolist(), end.tolist(), strict=True) if i == 1]
        assert actual == [Window(w.start.micros, w.end.micros) for w in assigned]


def test_values_are_added_a_missing_one_as_none(direct):
    with direct() as p:
        records = [("k", 1, "a"), ("k", 2, None), ("k", 3, "b")]
        values = stream(p, records) | WindowedAggregate(FixedWindows(10), initial=tuple, add=lambda values, value: (*values, value))
        assert_that(values | MapTable(lambda key, value: value) | LatestTable() | beam.Values(), equal_to([("a", None, "b")]))


@pytest.mark.parametrize("grace", [5, timedelta(seconds=5), Duration(5)])
def test_by_sequence_a_record_after_its_window_and_grace_is_late_counted_and_an_output(direct, grace):
    p = direct()
    records = [("k", 1, 1), ("k", 14, 2), ("k", 3, 3), ("k", 15, 4), ("k", 4, 5), ("j", 4, 6), ("k", 9, None), (None, 9, 7)]
    outputs = stream(p, records) | WindowedAggregate(
        FixedWindows(10), **COUNT, grace=grace, sequence_by=lambda key, value: value
    ).with_outputs()  # fmt: skip
    assert_that(
        outputs.table | TableToChanges() | beam.Map(lambda change: (change.key.key, change.key.window.start,
            change.new, change.timestamp, change.position)),
        equal_to([
            ("k", 0, 1, 1 * SECOND, 1),
            ("k", 10 * SECOND, 1, 14 * SECOND, 2),
            ("k", 0, 2, 3 * SECOND, 3),
            ("k", 10 * SECOND, 2, 15 * SECOND, 4),
            ("j", 0, 1, 4 * SECOND, 6),
        ]),
        label="the table",
    )  # fmt: skip
    assert_that(outputs.late, equal_to([Dropped("late", (Windowed("k", window(0, 10)), 5), 4 * SECOND)]), label="the late")
    assert_that(
        outputs.dropped,
        equal_to([
            Dropped("null_sequence", ("k", None), 9 * SECOND),
            Dropped("null_key", (None, 7), 9 * SECOND),
        ]),
        label="the dropped",
    )  # fmt: skip
    assert table_type(outputs.table).order == "sequence"
    result = p.run()
    result.wait_until_finish()
    assert dropped(result) == {"dropped_late": 1, "dropped_null_sequence": 1, "dropped_null_key": 1}


def test_by_event_time_nothing_is_late(direct):
    with direct() as p:
        counts = stream(p, [("k", 100), ("k", 1)]) | WindowedAggregate(FixedWindows(10), **COUNT, grace=0)
        assert_that(counts | LatestTable() | beam.Values(), equal_to([1, 1]))


def test_filters_and_maps_of_a_windowed_table_are_windowed_tables(direct):
    with direct() as p:
        views = stream(p, VIEWS[:5]) | "Types" >> beam.Map(lambda view: view).with_output_types(tuple[str, str])
        counts = views | WindowedAggregate(FixedWindows(10), **COUNT)
        assert (table_type(counts).key, table_type(counts).order) == (str, "time")
        busy = counts | FilterTable(lambda key, count: key.window.start == 0 and count < 3) | MapTable(lambda key, count: -count)
        assert table_type(busy).windowed
        assert_that(
            busy | TableToChanges(),
            equal_to([row("home", 0, 10, None, -1, 1), row("home", 0, 10, -1, None, 9), row("help", 0, 10, None, -1, 3)]),
        )


def test_a_mapped_stream_has_tombstones_and_the_times_of_its_changes(direct):
    changes = [row("k", 0, 10, 5, None, 7), row("k", 0, 10, None, 5, 3)]
    with direct() as p:
        mapped = p | beam.Create(changes) | WindowedTableToStream(lambda key, window, value: ((key, window.end), value))
        timed = mapped | beam.Map(lambda pair, time=beam.DoFn.TimestampParam: (*pair, time))
        assert_that(timed, equal_to([(("k", 10 * SECOND), None, Timestamp(7)), (("k", 10 * SECOND), 5, Timestamp(3))]))


def test_a_windowed_table_keyed_by_its_window_as_a_stream_is_a_table_again(direct):
    with direct() as p:
        counts = stream(p, VIEWS) | WindowedAggregate(FixedWindows(10), **COUNT)
        again = counts | WindowedTableToStream(lambda key, window, n: ((key, window.start), n)) | TableFromChangelog()
        assert_that(again | LatestTable(), equal_to([(("home", 0), 3), (("help", 0), 1), (("home", 10 * SECOND), 1)]))


def test_a_windowed_table_goes_to_a_stream_only_through_a_mapping(direct):
    counts = stream(direct(), VIEWS) | WindowedAggregate(FixedWindows(10), **COUNT)
    with pytest.raises(ValueError, match="only through a mapping: use WindowedTableToStream"):
        _ = counts | TableToStream()


def test_a_table_without_windows_is_refused_by_the_mapping(direct):
    table = stream(direct(), [("k", 1)]) | TableFromChangelog()
    with pytest.raises(ValueError, match="WindowedTableToStream takes a windowed table"):
        _ = table | WindowedTableToStream(lambda key, window, value: (key, value))
    with pytest.raises(Exception, match="a windowed table has changes keyed by Windowed, not by .k."), direct() as p:
        _ = p | beam.Create([Change("k", None, 1, 0, 0)]) | WindowedTableToStream(lambda key, window, value: (key, value))


def test_a_mapping_must_be_a_function_that_gives_pairs(direct):
    with pytest.raises(ValueError, match="fn=7: give a function of key, window and value"):
        WindowedTableToStream(7)
    with pytest.raises(Exception, match=r"fn gave 1 for Windowed.*: give a \(key, value\) pair"), direct() as p:
        _ = p | beam.Create(TUMBLING[:1]) | WindowedTableToStream(lambda key, window, value: value)


@pytest.mark.parametrize(
    ("window_fn", "options", "message"),
    [
        (Sessions(5), {}, "merges windows, .*sessions are not supported"),
        (GlobalWindows(), {}, "has no windows to tell apart: give FixedWindows or SlidingWindows"),
        (10, {}, "window_fn=10 is no WindowFn: give FixedWindows or SlidingWindows"),
        (FixedWindows(1), {"initial": {}}, "initial={} would be shared by all groups: give a function, such as dict"),
        (FixedWindows(1), {"add": 1}, "add=1: give a function of the aggregate and a value"),
        (FixedWindows(1), {"grace": -1}, "grace=-1 is negative"),
        (FixedWindows(1), {"grace": "5 s"}, "grace='5 s': give"),
        (FixedWindows(1), {"sequence_by": 7}, "sequence_by=7: give a field name, a list of field names, or a function"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(window_fn, options, message):
    with pytest.raises(ValueError, match=message):
        WindowedAggregate(window_fn, **{**COUNT, **options})


def test_windowed_input_tables_and_what_is_no_pair_are_refused(direct):
    with pytest.raises(ValueError, match="WindowedAggregate needs its input in the global window"):
        _ = stream(direct(), VIEWS) | beam.WindowInto(FixedWindows(10)) | WindowedAggregate(FixedWindows(10), **COUNT)
    with pytest.raises(ValueError, match="not a table: apply TableToStream"):
        _ = stream(direct(), VIEWS) | TableFromChangelog() | WindowedAggregate(FixedWindows(10), **COUNT)
    with pytest.raises(Exception, match="pairs"), direct() as p:
        _ = p | beam.Create([1]) | WindowedAggregate(FixedWindows(10), **COUNT)
    with pytest.raises(Exception, match="a position is a whole number"), direct() as p:
        _ = stream(p, [("k", 1)]) | WindowedAggregate(FixedWindows(10), **COUNT, sequence_by=lambda key, value: 1.5)


VIEW_ROWS = [
    {"page": "home", "lang": "en", "at": 1 * SECOND, "n": 1, "by": "ann"},
    {"page": "home", "lang": "en", "at": 14 * SECOND, "n": 2, "by": "bob"},
    {"page": "home", "lang": "en", "at": 3 * SECOND, "n": 3, "by": "cyd"},
    {"page": None, "lang": "en", "at": 4 * SECOND, "n": 4, "by": "dan"},
    {"page": "help", "lang": "en", "at": None, "n": 5, "by": "eve"},
    {"page": "help", "lang": "en", "at": 5 * SECOND, "n": None, "by": "fay"},
]
WHO = {"initial": tuple, "add": lambda names, row: (*names, row["by"]), "grace": 0}


@pytest.mark.parametrize("key", ["page", ["page", "lang"]])
def test_a_stream_of_batches_is_aggregated_by_columns_of_key_and_time(direct, key):
    with direct() as p:
        batches = p | beam.Create([pa.Table.from_pylist(VIEW_ROWS)]).with_output_types(pa.Table)
        outputs = batches | WindowedAggregate(FixedWindows(10), **WHO, key=key, timestamp_by="at", sequence_by="n").with_outputs()
        home = "home" if key == "page" else ("home", "en")
        assert table_type(outputs.table).key == (
            pa.string() if key == "page" else pa.struct([("page", pa.string()), ("lang", pa.string())])
        )
        changes = [(home, 0, None, ("ann",), 1), (home, 10 * SECOND, None, ("bob",), 2)]
        flat = outputs.table | TableToChanges() | beam.Map(lambda c: (c.key.key, c.key.window.start, c.old, c.new, c.position))
        assert_that(flat, equal_to(changes), label="table")
        late = Dropped("late", (Windowed(home, window(0, 10)), VIEW_ROWS[2]), 3 * SECOND)
        assert_that(outputs.late, equal_to([late]), label="late")
        reasons = outputs.dropped | "reasons" >> beam.Map(lambda dropped: (dropped.reason, dropped.record["by"]))
        assert_that(reasons, equal_to([("null_key", "dan"), ("null_timestamp", "eve"), ("null_sequence", "fay")]), label="dropped")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "page"}, "WindowedAggregate of streams in columns needs key= and timestamp_by=: the names of their columns"),
        ({"key": "side", "timestamp_by": "at"}, "key='side': there is no such column; there are page, lang, at"),
        ({"key": "page", "timestamp_by": "by"}, "timestamp_by gave times of type string"),
        ({"key": "page", "timestamp_by": "at", "sequence_by": "lsn"}, "sequence_by='lsn': there is no such column"),
    ],
)
def test_columns_that_a_stream_does_not_have_are_refused_at_construction(direct, options, message):
    batches = direct() | beam.Create([pa.Table.from_pylist(VIEW_ROWS)]).with_output_types(pa.Table)
    with pytest.raises(ValueError, match=message):
        _ = batches | WindowedAggregate(FixedWindows(10), **WHO, **options)


def test_batches_whose_columns_are_not_known_need_a_schema(direct):
    with direct() as p:
        batches = p | beam.Create([0]) | beam.Map(lambda _: pa.Table.from_pylist(VIEW_ROWS)).with_output_types(pa.Table)
        columns = {"key": "page", "timestamp_by": "at"}
        with pytest.raises(ValueError, match="the columns of a stream are not known when the pipeline is built"):
            _ = batches | "unknown" >> WindowedAggregate(FixedWindows(10), **WHO, **columns)
        reference = WindowedAggregate(FixedWindows(60), **WHO, **columns, stream_schema=pa.Table.from_pylist(VIEW_ROWS).schema)
        names = batches | reference | LatestTable() | beam.Values()
        assert_that(names, equal_to([("ann", "cyd", "bob"), ("fay",)]))


def test_options_of_columns_are_refused_for_pairs(direct):
    with pytest.raises(ValueError, match="WindowedAggregate takes key= for streams in columns only"):
        _ = stream(direct(), VIEWS) | WindowedAggregate(FixedWindows(10), **COUNT, key="page")


def test_a_stream_without_times_has_no_windows_of_64_bits(direct):
    with pytest.raises(Exception, match="do not fit in 64 bits: give the elements timestamps"), direct() as p:
        _ = p | beam.Create([("k", 1)]) | WindowedAggregate(FixedWindows(10), **COUNT)
