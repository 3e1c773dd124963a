"""FilterTable, MapTable, TableToStream and LatestTable on what they accept and refuse."""

import re

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, FilterTable, LatestTable, ManyToManyJoin, MapTable, TableFromChangelog, TableToChanges, TableToStream
from beam_joins.transforms.connect.tables import table_type
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


ROWS = pa.table({"shop": ["a", "a", "b", "a"], "n": [1, 2, 1, 1], "pay": [5, None, 1, 7], "at": [1, 2, 3, 4]})


def typed_table(p, key="n"):
    return p | beam.Create([ROWS]) | TableFromChangelog(key=key, sequence_by="at", timestamp_by="at")


def changes_of(table):
    return table | TableToChanges() | beam.Map(lambda change: (change.key, change.old, change.new, change.position))


def test_an_expression_says_which_rows_of_columns_stay_and_a_null_does_not(direct):
    with direct() as p:
        paid = typed_table(p) | FilterTable(pc.field("pay") > 4) | MapTable({"pay": "value.pay"})
        expected = [(1, None, {"pay": 5}, 1), (1, {"pay": 5}, None, 3), (1, None, {"pay": 7}, 4)]
        assert_that(changes_of(paid), equal_to(expected))


@pytest.mark.parametrize(("key", "columns", "new"), [("n", {"nr": "key"}, {"nr": 2}), (["shop", "n"], {"nr": "key.n"}, {"nr": 2})])
def test_columns_of_the_key_the_value_and_of_expressions_make_the_new_values(direct, key, columns, new):
    with direct() as p:
        made = typed_table(p, key) | MapTable(columns | {"twice": pc.field("value", "at") * 2, "whole": "value"})
        assert table_type(made).value.field("twice").type == pa.int64()
        (of_second,) = (row for row in ROWS.to_pylist() if row["at"] == 2)
        second = changes_of(made) | beam.Filter(lambda change: change[3] == 2)
        assert_that(second, equal_to([(2 if key == "n" else ("a", 2), None, new | {"twice": 4, "whole": of_second}, 2)]))


def test_the_parts_of_a_combined_key_are_columns(direct):
    with direct() as p:
        left, right = ("left" >> beam.Create([ROWS]), "right" >> beam.Create([ROWS.slice(0, 1)]))
        sides = [
            p | rows | f"table {n}" >> TableFromChangelog(key="n", sequence_by="at", timestamp_by="at")
            for n, rows in enumerate((left, right))
        ]
        pairs = tuple(sides) | ManyToManyJoin({"at": "left.at"}, on="shop")
        made = pairs | MapTable({"left": "key.foreign_key", "right": "key.primary_key"})
        assert_that(
            changes_of(made) | beam.Filter(lambda change: change[3] == 2), equal_to([((2, 1), None, {"left": 2, "right": 1}, 2)])
        )


REFUSED = [
    (FilterTable(pc.field("price") > 4), "predicate=(price > 4): there is no column 'price'; there are shop, n, pay, at"),
    (FilterTable(pc.field("shop")), "predicate gave values of type string: give true for a row that stays"),
    (MapTable({"a": "value.price"}), "fn: the value has no column 'price'; it has shop, n, pay, at"),
    (MapTable({"a": pc.field("value", "x")}), "fn: there is no column 'value.x'; there are key.value, value.shop, value.n"),
]


@pytest.mark.parametrize(("transform", "sentence"), REFUSED)
def test_columns_that_are_not_there_are_named_when_the_pipeline_is_built(direct, transform, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        typed_table(beam.Pipeline()) | transform


@pytest.mark.parametrize("columns", [{}, {"a": "price"}, {"a": 7}])
def test_columns_of_neither_the_key_nor_the_value_are_refused_at_construction(columns):
    with pytest.raises(ValueError, match="fn={"):
        MapTable(columns)


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
