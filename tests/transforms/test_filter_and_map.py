"""FilterTable, MapTable, TableToStream and LatestTable on what they accept and refuse."""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, FilterTable, LatestTable, MapTable, TableFromChangelog, TableToChanges, TableToStream
from beam_joins.transforms.engine.stages.incoming_tables import BATCH


def test_a_filtered_raw_changelog_has_a_tombstone_for_every_value_that_fails(direct):
    with direct() as p:
        kept = p | beam.Create([("a", 1), ("b", 2), ("a", 3), ("a", None)]) | FilterTable(lambda key, value: value < 2)
        assert_that(kept, equal_to([("a", 1), ("b", None), ("a", None), ("a", None)]))


def test_a_typed_raw_changelog_can_have_tombstones(direct):
    with direct() as p:
        typed = p | beam.Create([("a", 1), ("b", 2)]).with_output_types(tuple[str, int])
        kept = typed | FilterTable(lambda key, value: value < 2) | beam.Reshuffle()
        assert_that(kept, equal_to([("a", 1), ("b", None)]))


@pytest.mark.parametrize("make", [lambda: MapTable(lambda key, value: value), LatestTable])
def test_what_is_not_a_table_is_named(direct, make):
    with (
        pytest.raises(Exception, match="a table is a collection of Change, but has .* make a table with TableFromChangelog"),
        direct() as p,
    ):
        _ = p | beam.Create([("a", 1, 2, 3, 4)]) | make()


def test_two_changes_of_a_row_at_one_position_are_refused(direct):
    with pytest.raises(Exception, match="two changes of key 'a' at position 5"), direct() as p:
        _ = p | beam.Create([Change("a", None, 1, 0, 5), Change("a", None, 2, 0, 5)]) | LatestTable()


def test_negate_keeps_the_others(direct):
    with direct() as p:
        changes = p | beam.Create([Change("a", 1, 5, 0, 0)])
        assert_that(
            changes | FilterTable(lambda key, value: value < 2, negate=True) | TableToChanges(), equal_to([Change("a", None, 5, 0, 0)])
        )


def test_a_filter_refuses_what_is_neither_a_change_nor_a_pair(direct):
    with pytest.raises(Exception, match="takes changes or"), direct() as p:
        _ = p | beam.Create([{"id": 1}]) | FilterTable(lambda key, value: True)


@pytest.mark.parametrize("inputs", [None, 1, "", "no"])
def test_a_predicate_that_gives_no_bool_is_refused_with_what_it_gave(direct, inputs):
    for elements in ([Change("a", None, 1, 0, 5)], [("a", 1)]):
        with pytest.raises(Exception, match=f"predicate gave {inputs!r} of type {type(inputs).__name__}: give True"), direct() as p:
            _ = p | beam.Create(elements) | FilterTable(lambda key, value: inputs)


def test_a_predicate_may_give_a_bool_of_numpy(direct):
    with direct() as p:
        kept = p | beam.Create([("a", 1), ("b", 2)]) | FilterTable(lambda key, value: np.int64(value) < 2)
        assert_that(kept, equal_to([("a", 1), ("b", None)]))


def test_a_filter_and_a_map_need_functions():
    with pytest.raises(ValueError, match="predicate=7"):
        FilterTable(7)
    with pytest.raises(ValueError, match="fn='x'"):
        MapTable("x")


def test_a_stream_of_a_table_has_its_new_values_at_their_times(direct):
    with direct() as p:
        stream = p | beam.Create([Change("a", None, 1, 7, 1), Change("a", 1, None, 9, 2)]) | TableToStream()
        timed = stream | beam.Map(lambda pair, time=beam.DoFn.TimestampParam: (*pair, time.micros))
        assert_that(timed, equal_to([("a", 1, 7), ("a", None, 9)]))


def test_the_latest_table_has_the_last_row_by_position_whatever_the_order(direct):
    with direct() as p:
        changes = [Change("a", 1, 2, 0, 5), Change("a", None, 1, 9, 3), Change("b", 7, None, 0, 2), Change("b", None, 7, 0, 1)]
        assert_that(p | beam.Create(changes) | LatestTable(), equal_to([("a", 2)]))


def test_a_row_with_more_changes_than_fit_into_a_batch_is_one_row_of_the_latest_table(direct):
    with direct() as p:
        table = p | beam.Create([("a", n) for n in range(BATCH + 2)]) | TableFromChangelog(sequence_by=lambda pair: pair[1])
        assert_that(table | TableToChanges() | LatestTable(), equal_to([("a", BATCH + 1)]))
