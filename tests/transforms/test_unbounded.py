"""Unbounded input gives what the same history gives as bounded input, whatever the order of arrival and the
watermarks.
"""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import DirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.spark_runner import SparkRunner
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    Dropped,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    Window,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
)
from beam_joins import aggregates as agg
from beam_joins.transforms.engine.turns.ticks import Ticks
from tests.transforms.unbounded_runs import (
    Event,
    Watermark,
    arrivals,
    given_bounded,
    given_unbounded,
    history,
    one_stream,
    two_sources,
    with_late,
)

on_prism = pytest.mark.usefixtures("prism")


def tables(left, right, **options):
    return left | "left table" >> TableFromChangelog(**options), right | "right table" >> TableFromChangelog(**options)


def joined(left, right):
    return f"{left}-{right}"


def refers_to(key, value):
    return None if value.startswith("d") else value[0]


def foreign_key_join(how):
    joiner = (lambda left: left) if how in ("semi", "anti") else joined
    return lambda left, right: tables(left, right) | ForeignKeyJoin(joiner, foreign_key=refers_to, how=how)


def windows(stream, label):
    return stream | label >> WindowedAggregate(FixedWindows(5), initial="", add=lambda values, value: f"{values} {value}")


def value_of(key, value):
    return value


def chain(left, right):
    """Six stages of many turns, one behind the other."""
    lefts, rights = tables(left, right)
    both = (lefts, rights) | ForeignKeyJoin(joined, foreign_key=refers_to, how="left")
    shorter = both | MapTable(lambda key, value: value[0] + key) | FilterTable(lambda key, value: not value.startswith("c"))
    counts = shorter | CountTable(group_by=lambda key, value: value[0])
    return (rights, counts) | TableTableJoin(joined, how="outer")


def as_stream(left, right):
    table = left | TableFromChangelog()
    changes = table | TableToChanges()
    again = changes | beam.Map(lambda change: change).with_output_types(changes.element_type)
    return (again, right | "right table" >> TableFromChangelog()) | TableTableJoin(joined)


TABLES = {
    "a table": lambda left, right: left | TableFromChangelog(),
    "a table of changes only": lambda left, right: left | TableFromChangelog(emit="changes"),
    **{f"a foreign-key join, {how}": foreign_key_join(how) for how in ("inner", "left", "right", "outer", "semi", "anti")},
    "a foreign-key join of lists": lambda left, right: (
        tables(left, right) | ForeignKeyJoin(joined, foreign_keys=lambda key, value: list(value), how="left")
    ),
    "one to many": lambda left, right: tables(left, right) | OneToManyJoin(joined, foreign_key=refers_to, how="outer"),
    **{
        f"many to many, {how}": lambda left, right, how=how: (
            tables(left, right)
            | ManyToManyJoin(
                (lambda left: left) if how == "semi" else joined,
                left_on=refers_to,
                right_on=refers_to,
                condition=None if how == "outer" else lambda left, right: left < right,
                how=how,
            )
        )
        for how in ("inner", "outer", "semi")
    },
    **{
        f"a join by key, {how}": lambda left, right, how=how: (
            tables(left, right) | TableTableJoin((lambda left: left) if how in ("semi", "anti") else joined, how=how)
        )
        for how in ("inner", "left", "outer", "anti")
    },
    "a join by key of three": lambda left, right: (
        (*tables(left, right), left | "Third" >> TableFromChangelog())
        | TableTableJoin(lambda *values: f"{values}", tables=["a", "b", "c"], how=["outer", "left"])
    ),
    "counts": lambda left, right: left | TableFromChangelog() | CountTable(group_by=refers_to),
    "aggregates": lambda left, right: (
        left
        | TableFromChangelog()
        | AggregateTable(
            {"n": "count()", "least": agg.min(value_of), "most": agg.max(value_of), "kinds": agg.count_distinct(value_of)},
            group_by=refers_to,
        )
    ),
    "a total": lambda left, right: left | TableFromChangelog() | AggregateTable({"n": "count()", "most": agg.max(value_of)}),
    "an aggregate": lambda left, right: (
        left
        | TableFromChangelog()
        | AggregateTable(
            group_by=refers_to,
            initial=list,
            add=lambda values, value: sorted([*values, value]),
            subtract=lambda values, value: [each for each in values if each != value],
        )
    ),
    "a chain": chain,
    "changes one by one": as_stream,
}

STREAMS = {
    "windows": lambda left, right: windows(left, "windows") | TableToChanges(),
    "windows joined": lambda left, right: (
        (windows(left, "left windows"), windows(right, "right windows")) | TableTableJoin(joined, how="outer") | TableToChanges()
    ),
    "windows with the ones before": lambda left, right: (
        (windows(left, "left windows"), windows(right, "right windows"))
        | WindowedTableJoin(joined, how="left", shift=lambda window: Window(window.start - 5_000_000, window.end - 5_000_000))
        | TableToChanges()
    ),
    "windows with a table": lambda left, right: (
        (windows(left, "left windows"), right | TableFromChangelog()) | WindowedTableJoin(joined, how="left") | TableToChanges()
    ),
    "a table with windows": lambda left, right: (
        (left | TableFromChangelog(), windows(right, "right windows"))
        | WindowedTableJoin(
            joined, how="left", window_of=lambda key, value: Window(0, 5_000_000) if value < "c" else Window(5_000_000, 10_000_000)
        )
        | TableToChanges()
    ),
    **{
        f"two streams, {how}": lambda left, right, how=how: (
            (left, right) | WindowedStreamJoin(joined, how=how, before=3, after=1, grace=2)
        )
        for how in ("inner", "left", "outer")
    },
    **{
        f"a stream with a table, {how}": lambda left, right, how=how: (
            (left, right | TableFromChangelog()) | StreamTableJoin(joined, how=how)
        )
        for how in ("inner", "left")
    },
    "a stream with the row it refers to": lambda left, right: (
        (left, right | TableFromChangelog()) | StreamForeignKeyJoin(joined, foreign_key=refers_to, how="left")
    ),
}


def elements(outputs):
    return sorted(repr(element) for element, _ in outputs)


def changes(name):
    return lambda left, right: TABLES[name](left, right) | "changes" >> TableToChanges()


@pytest.mark.parametrize("read", [pytest.param(one_stream, marks=pytest.mark.sweep), two_sources])
@pytest.mark.parametrize("name", TABLES)
@on_prism
def test_a_table_has_the_changes_of_bounded_input(name, read):
    events = history(1)
    expected = given_bounded(events, changes(name))
    assert elements(given_unbounded("prism", read, arrivals(events, 1), changes(name))) == elements(expected) != []


@pytest.mark.parametrize("read", [pytest.param(one_stream, marks=pytest.mark.sweep), two_sources])
@pytest.mark.parametrize("name", STREAMS)
@on_prism
def test_a_stream_has_the_records_of_bounded_input(name, read):
    events = history(2, deletes=False)
    expected = given_bounded(events, STREAMS[name])
    assert elements(given_unbounded("prism", read, arrivals(events, 2), STREAMS[name])) == elements(expected) != []


def content_at_end(outputs):
    """The rows that are there after all changes, in the order of their positions; no row has two changes at
    one.
    """
    actual = [change for change, _ in outputs]
    assert len({(change.key, change.position) for change in actual}) == len(actual)
    rows = {}
    for change in sorted(actual, key=lambda change: change.position):
        assert rows.get(change.key) == change.old
        rows[change.key] = change.new
    return {key: value for key, value in rows.items() if value is not None}


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("an aggregate", "counts", "a chain")])
@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.sweep)])
@on_prism
def test_a_table_with_late_records_ends_as_the_bounded_one(name, seed):
    events = history(seed)
    expected = content_at_end(given_bounded(events, changes(name)))
    assert content_at_end(given_unbounded("prism", one_stream, with_late(events, seed), changes(name))) == expected


def test_late_records_of_a_table_are_applied_or_only_reported():
    steps = [event("a", 2, "a2"), event("a", 5, "a5"), *reached(7), event("a", 3, "a3"), event("b", 1, "b1"), *reached(9)]
    build = lambda left, right: reasons(left | TableFromChangelog().with_outputs())  # noqa: E731
    got = given_unbounded("direct", one_stream, steps, build, "--beam_joins_partitions=1")
    assert [element for element, _ in got if isinstance(element, Dropped)] == [
        Dropped("late_stale", ("a", "a3"), 3_000_000),
        Dropped("late_applied", ("b", "b1"), 1_000_000),
    ]
    # right behind the frontier, at the time of the latest turn
    assert (Change("b", None, "b1", 1_000_000, 5_000_001), 5_980) in got


def test_records_of_streams_that_are_late_are_reported_and_nothing_else():
    steps = [event("a", 2, "a2"), event("a", 5, "a5"), *reached(7), event("a", 3, "a3"), event("a", 8, "a8")]
    build = lambda left, right: reasons(  # noqa: E731
        (left, right) | WindowedStreamJoin(joined, how="left", before=1, after=1, grace=0).with_outputs()
    )
    got = [element for element, _ in given_unbounded("direct", one_stream, steps, build)]
    assert sorted(got, key=repr) == [
        ("a", "a2-None"),
        ("a", "a5-None"),
        ("a", "a8-None"),
        Dropped("late_left", ("a", "a3"), 3_000_000),
    ]


def test_a_record_without_a_match_comes_out_when_its_window_has_closed_though_no_other_comes():
    steps = [event("a", 2, "a2"), *reached(10), event("b", 20, "b20")]
    build = lambda left, right: (left, right) | WindowedStreamJoin(joined, how="left", before=1, after=1, grace=1)  # noqa: E731
    assert given_unbounded("direct", one_stream, steps, build) == [(("a", "a2-None"), 5_980), (("b", "b20-None"), 23_980)]


def test_a_watermark_in_whole_seconds_has_passed_the_timers_of_twenty_stages():
    times = np.arange(0, 10_000_000, 12_345)
    for stage in range(20):
        ticks = Ticks(1_000_000, lag=stage * 1000)
        ends = ticks.ends(times)
        assert (ends > times).all()
        assert (ends - times <= ticks.micros).all()
        assert [ticks.turn_of(ticks.fires_at(end)) for end in ends.tolist()] == ends.tolist()
        assert all(ticks.fires_at(end) < -(-end // 1_000_000) * 1_000_000 for end in ends.tolist())


def event(key, seconds, value):
    return Event("left", seconds * 1000, key, value)


def reached(seconds):
    return [Watermark(side, seconds * 1000) for side in ("left", "right")]


def reasons(outputs):
    named = outputs._asdict()
    main = named.pop("table", None)
    main = named.pop("stream") if main is None else main | TableToChanges()
    return (
        tuple(each | f"{name} as it is" >> beam.Map(lambda one: one) for name, each in {"main": main, **named}.items())
        | beam.Flatten()
    )


@pytest.mark.parametrize(
    ("runner", "options", "unbounded", "message"),
    [
        (DirectRunner(), [], True, "DirectRunner loses what comes behind timers: use PrismRunner"),
        (SparkRunner(), [], True, "does not read: read bounded pieces"),
        (SparkRunner(), ["--streaming"], False, "leave --streaming out"),
        (FnApiRunner(), ["--beam_joins_tick=0"], True, "--beam_joins_tick=0: give 0.1 seconds or more"),
    ],
)
def test_a_runner_or_a_tick_that_cannot_be_is_refused_when_the_pipeline_is_built(runner, options, unbounded, message):
    log = beam.Pipeline(runner=runner, options=PipelineOptions(options)) | beam.Create([("k", "v")])
    log.is_bounded = not unbounded
    with pytest.raises(ValueError, match=message):
        _ = log | TableFromChangelog()


@pytest.mark.parametrize(
    "applied",
    [
        lambda table: table | LatestTable(),
        lambda table: (table, table) | ForeignKeyJoin(joined, foreign_key=refers_to, broadcast=True),
    ],
)
def test_what_needs_the_whole_input_is_refused_for_one_without_an_end(applied):
    log = beam.Pipeline(runner=FnApiRunner()) | beam.Create([("k", "v")])
    log.is_bounded = False
    with pytest.raises(ValueError, match="takes bounded input only, as unbounded input has no end"):
        _ = applied(log | TableFromChangelog())
