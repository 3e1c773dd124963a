"""AggregateTable, CountTable, SumTable and ReduceTable in pipelines, and what they drop and refuse."""

from decimal import Decimal
from typing import Any

import apache_beam as beam
import pyarrow as pa
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
    SumTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    Window,
    Windowed,
    vectorized,
)
from beam_joins.transforms.engine.construction.table_type import Physical, TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions

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


def on_partitions(p, count):
    """The pipeline, whose stages have so many partitions."""
    p.options.view_as(ReplayOptions).beam_joins_partitions = count
    return p


@pytest.mark.parametrize(("partitions", "changes"), [(1, EMPLOYEES), (5, EMPLOYEES[::-1])])
@pytest.mark.each_value
def test_the_four_forms_give_the_same_changes_for_any_order_and_partitions_on_every_runner(pipeline, partitions, changes):
    with pipeline() as p:
        table = on_partitions(p, partitions) | "table" >> beam.Create(changes)
        aggregated = table | "aggregate" >> AggregateTable(**PAY)
        summed = table | "sum" >> SumTable(group_by="team", of="pay")
        counted = table | "count" >> CountTable(group_by=lambda name, row: row["team"])
        longest = table | "reduce" >> ReduceTable(
            group_by=lambda name, row: (row["team"], 1),
            add=lambda one, other: {"team": one["team"], "pay": one["pay"] + other["pay"]},
            subtract=lambda one, other: {"team": one["team"], "pay": one["pay"] - other["pay"]},
        )
        for name, paid in (("aggregated", aggregated), ("summed", summed)):
            assert_that(paid | f"changes {name}" >> TableToChanges(), equal_to(PAID), label=name)
        assert_that(
            counted | "changes" >> TableToChanges() | "pairs" >> beam.Map(lambda change: (change.key, change.old, change.new)),
            equal_to([("red", None, 1), ("red", 1, 2), ("blue", None, 1), ("red", 2, 1), ("blue", 1, 2), ("red", 1, 0)]),
            label="counts",
        )
        assert_that(
            longest | "latest" >> LatestTable(),
            equal_to([(("red", 1), {"team": "red", "pay": 0}), (("blue", 1), {"team": "blue", "pay": 7})]),
            label="reduced",
        )


def test_changes_carry_their_event_time(direct):
    with direct() as p:
        times = (
            p
            | beam.Create(EMPLOYEES)
            | AggregateTable(**PAY)
            | TableToChanges()
            | beam.Map(lambda change, time=beam.DoFn.TimestampParam: change.timestamp == time.micros)
        )
        assert_that(times, equal_to([True] * len(PAID)))


def test_a_value_without_a_group_has_no_part_and_is_dropped_and_counted(direct):
    lost = Change("ann", {"team": "red"}, {"team": None}, 20, 2)
    back = Change("ann", {"team": None}, {"team": "red"}, 30, 3)
    p = direct()
    outputs = p | beam.Create([Change("ann", None, {"team": "red"}, 10, 1), lost, back]) | CountTable(group_by="team").with_outputs()
    assert_that(
        outputs.table | TableToChanges(),
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
        assert_that(total | TableToChanges(), equal_to([Change(Window(0, 10), None, 7, 1, 1)]))


def test_a_group_that_has_no_one_encoding_is_refused_in_the_run(direct):
    with pytest.raises(Exception, match="the group"), direct() as p:
        _ = p | beam.Create([Change("k", None, 1, 0, 0)]) | CountTable(group_by=lambda key, value: {"a": object()})


def test_an_aggregate_may_be_changed_in_place(direct):
    with direct() as p:
        listed = p | beam.Create([Change("a", None, 1, 0, 1), Change("b", None, 2, 0, 2), Change("a", 1, None, 0,
            3)]) | AggregateTable(
            group_by=lambda key, value: "all",
            initial=list,
            add=lambda values, value: values.append(value) or values,
            subtract=lambda values, value: values.remove(value) or values,
        )  # fmt: skip
        expected = [Change("all", None, [1], 0, 1), Change("all", [1], [1, 2], 0, 2), Change("all", [1, 2], [2], 0, 3)]
        assert_that(listed | TableToChanges(), equal_to(expected))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_by": 7}, "group_by=7: give a field name, a list of field names, or a function of key and value"),
        ({"group_by": ""}, "group_by='': give a field name, a list of field names, or a function of key and value"),
        ({"initial": []}, r"initial=\[\] would be shared by all groups: give a function, such as list"),
        ({"add": None}, "add=None: give a function of the aggregate and a value"),
        ({"subtract": "-"}, "subtract='-': give a function of the aggregate and a value"),
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


ROWS = pa.Table.from_pylist(
    [
        {"id": 1, "lsn": 1, "city": "Oslo", "kind": "a", "n": 5, "x": 0.5, "d": Decimal("0.10"), "gone": False},
        {"id": 2, "lsn": 2, "city": "Oslo", "kind": "b", "n": None, "x": 0.25, "d": Decimal("0.20"), "gone": False},
        {"id": 3, "lsn": 3, "city": None, "kind": "b", "n": 7, "x": 9.0, "d": Decimal("9.00"), "gone": False},
        {"id": 1, "lsn": 4, "city": "Rome", "kind": "a", "n": 6, "x": 1.5, "d": Decimal("0.30"), "gone": False},
        {"id": 2, "lsn": 5, "city": "Oslo", "kind": "b", "n": 3, "x": 1.0, "d": Decimal("0.20"), "gone": True},
    ]
)
LOG = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "apply_as_deletes": "gone"}


def typed(p):
    return p | "rows" >> beam.Create([ROWS]).with_output_types(pa.Table) | "typed" >> TableFromChangelog(**LOG)


def opaque(p):
    return p | "dicts" >> beam.Create(ROWS.to_pylist()) | "opaque" >> TableFromChangelog(**LOG)


def short(change):
    return change.key, change.old, change.new, change.position


COUNTS = [("Oslo", None, 1, 1), ("Oslo", 1, 2, 2), ("Oslo", 2, 1, 4), ("Rome", None, 1, 4), ("Oslo", 1, 0, 5)]
SUMS = {
    "n": [("Oslo", None, 5, 1), ("Oslo", 5, 5, 2), ("Oslo", 5, 0, 4), ("Rome", None, 6, 4), ("Oslo", 0, 0, 5)],
    "x": [("Oslo", None, 0.5, 1), ("Oslo", 0.5, 0.75, 2), ("Oslo", 0.75, 0.25, 4), ("Rome", None, 1.5, 4), ("Oslo", 0.25, 0.0, 5)],
    "d": [
        (group, None if old is None else Decimal(old), Decimal(new), position)
        for group, old, new, position in [
            ("Oslo", None, "0.10", 1), ("Oslo", "0.10", "0.30", 2), ("Oslo", "0.30", "0.20", 4), ("Rome", None,
                "0.30", 4), ("Oslo", "0.20", "0", 5),
        ]
    ],
}  # fmt: skip
GROUPS = ["city", ["city"], lambda key, row: row["city"], vectorized(lambda rows: rows["city"])]


@pytest.mark.slow
@pytest.mark.parametrize("form", [typed, opaque])
def test_counts_and_sums_are_the_same_of_columns_and_of_objects_however_groups_and_numbers_are_named(direct, form):
    with direct() as p:
        table = form(p)
        for i, group_by in enumerate(GROUPS[: 4 if form is typed else 3]):
            counts = table | f"count {i}" >> CountTable(group_by=group_by) | f"changes {i}" >> TableToChanges()
            as_group = (lambda row: (row[0][0], *row[1:])) if i == 1 else lambda row: row
            assert_that(
                counts | f"short {i}" >> beam.Map(short) | f"group {i}" >> beam.Map(as_group), equal_to(COUNTS), label=f"counts {i}"
            )
            for number, (name, expected) in enumerate(SUMS.items()):
                ways = {
                    "name": name,
                    "function": lambda key, row, name=name: row[name],
                    "columns": vectorized(lambda rows, name=name: rows[name]),
                }
                way = list(ways)[(number + i) % (3 if form is typed else 2)]  # each with each group, of one or another number
                label = f"{name} {way} {i}"
                sums = table | f"sum {label}" >> SumTable(group_by=group_by, of=ways[way]) | f"changes {label}" >> TableToChanges()
                rows = sums | f"short {label}" >> beam.Map(short) | f"group {label}" >> beam.Map(as_group)
                assert_that(rows, equal_to(expected), label=f"sums {label}")


def test_counts_and_sums_of_columns_are_columns_known_at_construction(direct):
    table = typed(direct())
    by_city = table | CountTable(group_by="city")
    assert table_type(by_city) == TableType(pa.string(), pa.int64(), "sequence", key_names=("city",))
    assert physical_of(by_city) == Physical("whole")
    assert table_type(table | "x" >> SumTable(group_by=["city", "kind"], of="x")).value == pa.float64()
    assert table_type(table | "d" >> SumTable(group_by="city", of="d")).value == pa.decimal128(38, 2)
    assert table_type(table | "f" >> SumTable(group_by="city", of=lambda key, row: row["n"])).value is Any


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CountTable(group_by="town"), "group_by='town': there is no such column; there are id, lsn, city"),
        (lambda: SumTable(group_by="city", of="m"), "of='m': there is no such column"),
        (lambda: SumTable(group_by="city", of="kind"), "values of type string cannot be added: give a column of numbers"),
        (
            lambda: CountTable(group_by=vectorized(lambda rows: rows["town"])),
            "group_by .*called with no rows when the pipeline is built",
        ),
    ],
)
def test_a_column_that_there_is_not_is_refused_at_construction(direct, make, message):
    table = typed(direct())
    with pytest.raises(ValueError, match=message):
        _ = table | make()


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (lambda key, row: row["city"], "of gave 'Oslo' of type str: give a number"),
        (
            lambda key, row: row["d"] if row["kind"] == "a" else row["x"],
            "the values of a group cannot be added: floats and numbers of type Decimal",
        ),
    ],
)
def test_what_cannot_be_summed_is_refused_in_the_run(direct, of, message):
    with pytest.raises(Exception, match=message), direct() as p:
        _ = opaque(p) | SumTable(group_by="city", of=of)


def test_a_row_whose_number_is_not_known_has_no_part_in_a_sum(direct):
    with direct() as p:
        sums = SumTable(group_by="city", of=lambda key, row: row["n"] + 0).with_outputs().with_exception_handling()
        outputs = typed(p) | sums
        expected = [("Oslo", None, 5, 1), ("Oslo", 5, 0, 4), ("Rome", None, 6, 4)]
        assert_that(outputs.table | TableToChanges() | beam.Map(short), equal_to(expected), label="sums")
        bad = outputs.bad | "bad" >> beam.Map(lambda bad: (bad[0].key, bad[1][0]))
        assert_that(bad, equal_to([(2, "TypeError")]), label="bad")
        assert_that(outputs.dropped | "dropped" >> beam.Map(lambda dropped: dropped.record.key), equal_to([3]), label="dropped")
