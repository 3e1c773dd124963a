"""AggregateTable, CountTable and ReduceTable in pipelines, and what they drop and refuse."""

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    Dropped,
    LatestTable,
    ReduceTable,
    TableFromChangelog,
    TableTableJoin,
    Window,
    Windowed,
)
from beam_joins.transforms.engine.table_type import TableType, as_table, table_type

EMPLOYEES = [
    Change("ann", None, {"team": "red", "pay": 5}, 10, 1),
    Change("bob", None, {"team": "red", "pay": 7}, 30, 2),
    Change("cyd", None, {"team": "blue", "pay": 1}, 20, 2),
    Change("ann", {"team": "red", "pay": 5}, {"team": "blue", "pay": 6}, 40, 3),
    Change("bob", {"team": "red", "pay": 7}, None, 25, 4),
]
PAY = {
    "group_by": "team",
    "initial": 0,
    "add": lambda total, row: total + row["pay"],
    "subtract": lambda total, row: total - row["pay"],
}
PAID = [
    Change("red", None, 5, 10, 1),
    Change("red", 5, 12, 30, 2),
    Change("blue", None, 1, 20, 2),
    Change("red", 12, 7, 40, 3),
    Change("blue", 1, 7, 40, 3),
    Change("red", 7, 0, 40, 4),
]


def test_the_three_forms_give_the_same_changes_for_any_order_and_partitions_on_every_runner(pipeline):
    with pipeline() as p:
        for partitions, changes in ((1, EMPLOYEES), (5, EMPLOYEES[::-1])):
            table = p | f"table {partitions}" >> beam.Create(changes)
            paid = table | f"sum {partitions}" >> AggregateTable(**PAY, partitions=partitions)
            counted = table | f"count {partitions}" >> CountTable(group_by=lambda name, row: row["team"], partitions=partitions)
            longest = table | f"reduce {partitions}" >> ReduceTable(
                group_by=lambda name, row: (row["team"], 1),
                add=lambda one, other: {"team": one["team"], "pay": one["pay"] + other["pay"]},
                subtract=lambda one, other: {"team": one["team"], "pay": one["pay"] - other["pay"]},
                partitions=partitions,
            )
            assert_that(paid, equal_to(PAID), label=f"sums {partitions}")
            assert_that(
                counted | f"pairs {partitions}" >> beam.Map(lambda change: (change.key, change.old, change.new)),
                equal_to([("red", None, 1), ("red", 1, 2), ("blue", None, 1), ("red", 2, 1), ("blue", 1, 2), ("red", 1, 0)]),
                label=f"counts {partitions}",
            )
            assert_that(
                longest | f"latest {partitions}" >> LatestTable(),
                equal_to([(("red", 1), {"team": "red", "pay": 0}), (("blue", 1), {"team": "blue", "pay": 7})]),
                label=f"reduced {partitions}",
            )


def test_changes_carry_their_event_time(direct):
    with direct() as p:
        times = (
            p
            | beam.Create(EMPLOYEES)
            | AggregateTable(**PAY)
            | beam.Map(lambda change, time=beam.DoFn.TimestampParam: change.timestamp == time.micros)
        )
        assert_that(times, equal_to([True] * len(PAID)))


def test_a_value_without_a_group_has_no_part_and_is_dropped_and_counted(direct):
    lost = Change("ann", {"team": "red"}, {"team": None}, 20, 2)
    back = Change("ann", {"team": None}, {"team": "red"}, 30, 3)
    p = direct()
    outputs = p | beam.Create([Change("ann", None, {"team": "red"}, 10, 1), lost, back]) | CountTable(group_by="team").with_outputs()
    assert_that(
        outputs.table,
        equal_to([Change("red", None, 1, 10, 1), Change("red", 1, 0, 20, 2), Change("red", 0, 1, 30, 3)]),
        label="the table",
    )
    assert_that(outputs.dropped, equal_to([Dropped("null_group", lost, 20)]), label="the dropped")
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_name("dropped_null_group"))["counters"]
    assert counter.committed == 1


def test_an_aggregate_of_a_changelog_joins_with_another_table(direct):
    with direct() as p:
        people = [{"id": n, "lsn": n, "at": n, "city": city} for n, city in enumerate(["Oslo", "Rome", "Oslo"])]
        cities = [{"city": "Oslo", "lsn": 9, "at": 9, "land": "Norway"}]
        cdc = {"sequence_by": "lsn", "timestamp_by": "at"}
        counts = p | "people" >> beam.Create(people) | "table" >> TableFromChangelog(key="id", **cdc) | CountTable(group_by="city")
        assert table_type(counts).order == "sequence"
        lands = p | "cities" >> beam.Create(cities) | "lands" >> TableFromChangelog(key="city", **cdc)
        joined = (counts, lands) | TableTableJoin(lambda count, land: (land["land"], count))
        assert_that(joined | LatestTable(), equal_to([("Oslo", ("Norway", 2))]))


def test_a_windowed_table_can_be_grouped_by_its_windows(direct):
    counts = [Change(Windowed(page, Window(0, 10)), None, n, 1, 1) for page, n in (("home", 3), ("help", 4))]
    with direct() as p:
        table = as_table(p | beam.Create(counts), TableType(str, int, "time", windowed=True))
        total = table | ReduceTable(
            group_by=lambda page, count: page.window, add=lambda one, other: one + other, subtract=lambda one, other: one - other
        )
        assert_that(total, equal_to([Change(Window(0, 10), None, 7, 1, 1)]))


def test_a_group_that_has_no_one_encoding_is_refused_in_the_run(direct):
    with pytest.raises(Exception, match="the group"), direct() as p:
        _ = p | beam.Create([Change("k", None, 1, 0, 0)]) | CountTable(group_by=lambda key, value: {"a": object()})


def test_an_aggregate_may_be_changed_in_place(direct):
    with direct() as p:
        listed = p | beam.Create([Change("a", None, 1, 0, 1), Change("b", None, 2, 0, 2), Change("a", 1, None, 0, 3)]) | AggregateTable(
            group_by=lambda key, value: "all",
            initial=list,
            add=lambda values, value: values.append(value) or values,
            subtract=lambda values, value: values.remove(value) or values,
        )  # fmt: skip
        expected = [Change("all", None, [1], 0, 1), Change("all", [1], [1, 2], 0, 2), Change("all", [1, 2], [2], 0, 3)]
        assert_that(listed, equal_to(expected))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_by": 7}, "group_by=7: give a function of key and value"),
        ({"group_by": ""}, "group_by='': give a function of key and value"),
        ({"initial": []}, r"initial=\[\] would be shared by all groups: give a function, such as list"),
        ({"add": None}, "add=None: give a function of the aggregate and a value"),
        ({"subtract": "-"}, "subtract='-': give a function of the aggregate and a value"),
        ({"partitions": 0}, "partitions=0: give a positive whole number"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        AggregateTable(**{**PAY, **options})


def test_a_reduce_without_a_function_is_refused_at_construction():
    with pytest.raises(ValueError, match="add=1: give a function"):
        ReduceTable(group_by="team", add=1, subtract=max)


def test_windowed_input_is_refused_by_the_name_of_the_transform(direct):
    with pytest.raises(ValueError, match="CountTable needs its input in the global window"):
        _ = direct() | beam.Create(EMPLOYEES) | beam.WindowInto(FixedWindows(1)) | CountTable(group_by="team")
