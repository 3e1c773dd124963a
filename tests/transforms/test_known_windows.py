"""A table is known to be windowed, or says that it no longer is; a windowed table is the one side of a
one-to-many join; windows fit 64 bits.
"""

import pickle
from datetime import timedelta

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration

from beam_joins import (
    Change,
    CombinedKey,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableTableJoin,
    TableToChanges,
    TableToStream,
    Window,
    Windowed,
    WindowedAggregate,
    WindowedTableJoin,
    as_windowed_table,
)
from beam_joins.transforms.engine.construction.table_type import table_type

MINUTE = Window(0, 60_000_000)


def value(key, value):
    return value


def pair(left, right):
    return f"{left}+{right}"


def counts(p):
    views = p | "views" >> beam.Create([TimestampedValue(("home", "ann"), 3), TimestampedValue(("home", "bob"), 5)])
    return views | "counts" >> WindowedAggregate(FixedWindows(60), initial=0, add=lambda count, view: count + 1)


def again(element):
    """Nothing says what comes out of it."""
    return pickle.loads(pickle.dumps(element))


FORGETTING = {
    "map of batches": lambda p, table: table | beam.Map(again),
    "map of changes": lambda p, table: table | TableToChanges() | beam.Map(again),
    "flatten": lambda p, table: (table, p | "none" >> beam.Create([])) | beam.Flatten(),
}
IN_THE_RUN = {
    "stream-table join": lambda s, t: (s, t) | StreamTableJoin(pair),
    "stream-foreign-key join": lambda s, t: (s, t) | StreamForeignKeyJoin(pair, foreign_key=value),
    "latest table": lambda s, t: t | LatestTable(),
    "count table": lambda s, t: t | CountTable(group_by=value),
    "table-table join": lambda s, t: (t, t) | TableTableJoin(pair),
    "foreign-key join": lambda s, t: (t, t) | ForeignKeyJoin(pair, foreign_key=value),
    "one-to-many join": lambda s, t: (t, t) | OneToManyJoin(pair, foreign_key=value),
    "table to stream": lambda s, t: t | TableToStream(),
}


@pytest.mark.parametrize("forget", FORGETTING)
@pytest.mark.parametrize("case", IN_THE_RUN)
@pytest.mark.each_value
def test_a_windowed_table_that_is_not_known_to_be_one_says_so_in_the_run(direct, case, forget):
    sentence = (
        r"the table has the key Windowed\(key='home'.* and is not known to be a windowed table: behind a beam.Map .* as_windowed_table"
    )
    with pytest.raises(Exception, match=sentence), direct() as p:
        stream = p | beam.Create([TimestampedValue(("home", 3), 9)])
        _ = IN_THE_RUN[case](stream, FORGETTING[forget](p, counts(p)))


@pytest.mark.parametrize(
    ("tables", "join", "complaint"),
    [
        (lambda t, f: (t, f), lambda: TableTableJoin(pair), "their keys are never equal: use WindowedTableJoin"),
        (lambda t, f: (f, f), lambda: WindowedTableJoin(pair), "got no windowed table"),
        (lambda t, f: (t, f), lambda: WindowedTableJoin(pair, shift=lambda week: week), "both tables must be windowed"),
        (lambda t, f: (f, t), lambda: WindowedTableJoin(pair), "give it there, and only there"),
        (lambda t, f: (t, f), lambda: WindowedTableJoin(pair, how="outer"), "joins two windowed tables on the same window"),
        (lambda t, f: (t | TableToPairs(), f), lambda: StreamTableJoin(pair, window_of=value), "give it for one, and only for one"),
    ],
)
def test_what_is_refused_when_the_pipeline_is_built_says_that_it_may_have_been_forgotten(direct, tables, join, complaint):
    p = direct()
    reference = counts(p)
    forgotten = FORGETTING["map of batches"](p, reference)
    with pytest.raises(ValueError, match=rf"{complaint}.*\(behind a beam.Map .* forgotten.*as_windowed_table\(table\)\)"):
        _ = tables(reference, forgotten) | join()


class TableToPairs(beam.PTransform):
    def expand(self, table):
        return table | beam.FlatMap(lambda batch: [(c.key.key, c.new) for c in batch]).with_output_types(tuple[str, int])


def test_filtered_and_mapped_windowed_tables_are_still_known(direct):
    p = direct()
    assert table_type(counts(p) | FilterTable(lambda key, count: count) | MapTable(value)).windowed


@pytest.mark.parametrize("forget", FORGETTING)
def test_as_windowed_table_says_it_again(direct, forget):
    with direct() as p:
        table = counts(p)
        again = as_windowed_table(FORGETTING[forget](p, table))
        both = (table, again) | "same" >> TableTableJoin(pair) | LatestTable()
        assert_that(both, equal_to([(Windowed("home", MINUTE), "2+2")]), label="same")
        shifted = (again, table) | WindowedTableJoin(pair, shift=lambda window: window) | "latest" >> LatestTable()
        assert_that(shifted, equal_to([(Windowed("home", MINUTE), "2+2")]), label="shifted")


def test_what_cannot_be_a_windowed_table_is_refused(direct):
    p = direct()
    for other in (
        [Change("k", None, 1, 0, 0)],
        p | "numbers" >> beam.Create([1]),
        p | "pairs" >> beam.Create([("k", 1)]),
    ):
        with pytest.raises(ValueError, match="as_windowed_table takes a collection of changes keyed by Windowed"):
            as_windowed_table(other)


def test_a_windowed_table_is_the_one_side_of_a_one_to_many_join_on_every_runner(pipeline):
    with pipeline() as p:
        notes = p | beam.Create([Change(n, None, {"page": page, "text": f"t{n}"}, 9, 9) for n, page in ((1, "home"), (2, "help"))])
        join = OneToManyJoin(
            lambda count, note: f"{count} {note['text']}", foreign_key=lambda key, note: Windowed(note["page"], MINUTE)
        )
        joined = (counts(p), notes | "notes" >> MapTable(value)) | join
        key = CombinedKey(Windowed("home", MINUTE), 1)
        expected = [Change(key, None, "1 t1", 3_000_000, 3_000_000), Change(key, "1 t1", "2 t1", 5_000_000, 5_000_000)]
        assert_that(joined | TableToChanges(), equal_to(expected), label="joined")
        assert_that(joined | LatestTable(), equal_to([(key, "2 t1")]), label="latest")


def test_a_foreign_key_into_a_windowed_table_that_is_no_windowed_key_is_named(direct):
    with (
        pytest.raises(Exception, match="the foreign key 'home' is not Windowed, and the table that it refers to is windowed"),
        direct() as p,
    ):
        notes = p | beam.Create([Change(1, None, "home", 9, 9)])
        _ = (counts(p), notes) | OneToManyJoin(pair, foreign_key=value)


def test_windows_and_spans_beyond_64_bits_are_refused():
    for by in (2**62, Duration(micros=2**63 - 7), -(10**13)):
        with pytest.raises(ValueError, match="does not fit in 64 bits"):
            Window(0, 7).shift(by)
    for by in (Duration(micros=2**63 - 8), timedelta(days=1), -7, 1.5):
        micros = {Duration: 2**63 - 8, timedelta: 86_400_000_000, int: -7_000_000, float: 1_500_000}[type(by)]
        assert Window(0, 7).shift(by) == Window(micros, micros + 7)
    with pytest.raises(ValueError, match="by='week': give a span of time"):
        Window(0, 7).shift("week")
    for windows in (FixedWindows(Duration(micros=2**63)), SlidingWindows(1e13, 1)):
        with pytest.raises(ValueError, match="window_fn.size=.* does not fit in 64 bits of microseconds"):
            WindowedAggregate(windows, initial=0, add=pair)
    with pytest.raises(ValueError, match="grace=.* does not fit in 64 bits of microseconds"):
        WindowedAggregate(FixedWindows(1), initial=0, add=pair, grace=timedelta.max)


def aggregated(p, name, window_fn):
    views = p | f"views {name}" >> beam.Create([TimestampedValue(("home", "ann"), 3)])
    return views | name >> WindowedAggregate(window_fn, initial=0, add=lambda count, view: count + 1)


@pytest.mark.parametrize(
    ("right", "shift"),
    [
        (FixedWindows(7), None),
        (FixedWindows(5, offset=1), None),
        (SlidingWindows(5, 2.5, offset=1), None),
        (FixedWindows(5), lambda window: window.shift(-3)),
        (FixedWindows(7), lambda window: window.shift(-5)),
    ],
)
def test_windows_that_can_never_meet_are_refused_with_their_names(direct, right, shift):
    with pytest.raises(ValueError, match=r"WindowedTableJoin joins windows of 5 s with windows of [57] s"), direct() as p:
        _ = (aggregated(p, "left", FixedWindows(5)), aggregated(p, "right", right)) | WindowedTableJoin(pair, shift=shift)


def test_a_join_by_key_of_windows_that_can_never_meet_is_refused(direct):
    with pytest.raises(ValueError, match="TableTableJoin joins windows of 5 s with windows of 7 s"), direct() as p:
        _ = (aggregated(p, "left", FixedWindows(5)), aggregated(p, "right", FixedWindows(7))) | TableTableJoin(pair)


@pytest.mark.parametrize(
    ("right", "shift"),
    [
        (SlidingWindows(5, 2.5), None),
        (
            FixedWindows(60),
            lambda window: Window(window.start // 60_000_000 * 60_000_000, window.start // 60_000_000 * 60_000_000 + 60_000_000),
        ),
    ],
)
def test_windows_of_two_functions_that_can_meet_are_joined(direct, right, shift):
    with direct() as p:
        joined = (aggregated(p, "left", FixedWindows(5)), aggregated(p, "right", right)) | WindowedTableJoin(pair, shift=shift)
        assert_that(joined | LatestTable(), equal_to([(Windowed("home", Window(0, 5_000_000)), "1+1")]))
