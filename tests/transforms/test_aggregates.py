"""AggregateTable with aggregates: the forms of its options, totals, null and empty groups, and what it refuses."""

import datetime as dt
from decimal import Decimal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import AggregateTable, CountTable, LatestTable, SumTable, TableFromChangelog, TableToChanges, vectorized
from beam_joins import aggregates as agg
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.io import WriteChangelog
from tests.pipelines.streaming.jobs import Append, written

ROWS = [
    {"id": 1, "team": "red", "pay": 5, "paid": True, "at": 1},
    {"id": 2, "team": "red", "pay": 7, "paid": False, "at": 2},
    {"id": 3, "team": None, "pay": 1, "paid": True, "at": 3},
    {"id": 1, "team": "blue", "pay": 6, "paid": True, "at": 4},
    {"id": 2, "team": "red", "pay": None, "paid": None, "at": 5},
]
SCHEMA = pa.schema([("id", pa.int64()), ("team", pa.string()), ("pay", pa.int64()), ("paid", pa.bool_()), ("at", pa.int64())])
FORMS = pytest.mark.parametrize("form", ["records", "columns"])


def table(p, form, rows=ROWS, schema=SCHEMA):
    typed = form == "columns"
    source = beam.Create([pa.Table.from_pylist(rows, schema)]).with_output_types(pa.Table) if typed else beam.Create(rows)
    return p | "rows" >> source | "table" >> TableFromChangelog(key="id", sequence_by="at", timestamp_by="at", schema=None)


def changes(grouped):
    return grouped | TableToChanges() | beam.Map(lambda change: (change.key, change.old, change.new, change.position))


@FORMS
def test_a_row_has_several_aggregates_that_follow_rows_which_move_and_change(direct, form):
    aggregates = {"n": agg.count(), "total": "sum(pay)", "most": agg.max("pay"), "teams": agg.count_distinct("team")}
    with direct() as p:
        grouped = table(p, form) | AggregateTable(aggregates, group_by="team")
        red = [{"n": 1, "total": 5, "most": 5, "teams": 1}, {"n": 2, "total": 12, "most": 7, "teams": 1}]
        red += [{"n": 1, "total": 7, "most": 7, "teams": 1}, {"n": 1, "total": None, "most": None, "teams": 1}]
        blue = {"n": 1, "total": 6, "most": 6, "teams": 1}
        places = [1, 2, 4, 5]
        expected = [("red", old, new, at) for old, new, at in zip([None, *red], red, places, strict=False)]
        assert_that(changes(grouped), equal_to([*expected, ("blue", None, blue, 4)]))


WHERE = {
    "a column": "paid",
    "an expression": pc.field("paid") & (pc.field("pay") > 0),
    "a function": lambda key, row: row["paid"] is True,
    "vectorized": vectorized(lambda rows: pc.fill_null(rows["paid"], False)),
}


@pytest.mark.parametrize("where", WHERE.values(), ids=list(WHERE))
def test_a_condition_of_any_form_says_which_rows_count(direct, where):
    with direct() as p:
        grouped = table(p, "columns") | AggregateTable(
            {"n": agg.count(where=where), "total": agg.sum("pay", where=where)}, group_by="team"
        )
        expected = [
            ("red", None, {"n": 1, "total": 5}, 1),
            ("red", {"n": 1, "total": 5}, {"n": 1, "total": 5}, 2),
            ("red", {"n": 1, "total": 5}, {"n": 0, "total": None}, 4),
            ("red", {"n": 0, "total": None}, {"n": 0, "total": None}, 5),
            ("blue", None, {"n": 1, "total": 6}, 4),
        ]
        assert_that(changes(grouped), equal_to(expected))


def test_a_group_without_rows_has_no_row_or_keeps_it_with_counts_of_0(direct):
    rows = [{"id": 1, "team": "red", "pay": 5, "at": 1}, {"id": 1, "team": "blue", "pay": 5, "at": 2}]
    row, none = {"n": 1, "least": 5}, {"n": 0, "least": None}
    with direct() as p:
        made = table(p, "records", rows)
        for kept, last in (("drop", None), ("keep", none)):
            grouped = made | kept >> AggregateTable({"n": "count()", "least": "min(pay)"}, group_by="team", empty_groups=kept)
            got = (
                grouped
                | f"{kept} changes" >> TableToChanges()
                | f"{kept} rows" >> beam.Map(lambda c: (c.key, c.old, c.new, c.position))
            )
            assert_that(got, equal_to([("red", None, row, 1), ("red", row, last, 2), ("blue", None, row, 2)]), label=kept)


@FORMS
def test_null_groups_are_dropped_or_kept_as_tuples(direct, form):
    with direct() as p:
        rows = table(p, form, ROWS[:3])
        outputs = rows | "dropped" >> AggregateTable({"n": "count()"}, group_by="team").with_outputs()
        lost = outputs.dropped | beam.Map(lambda dropped: (dropped.reason, dropped.record.key, dropped.timestamp))
        assert_that(lost, equal_to([("null_group", 3, 3)]), label="dropped rows")
        kept = rows | AggregateTable({"n": "count()"}, group_by=["team"], null_groups="keep")
        expected = [(("red",), None, {"n": 1}, 1), (("red",), {"n": 1}, {"n": 2}, 2), ((None,), None, {"n": 1}, 3)]
        assert_that(changes(kept), equal_to(expected), label="kept")


@FORMS
def test_counts_and_sums_may_drop_empty_groups_and_keep_null_ones(direct, form):
    rows = [{"id": 1, "team": "red", "pay": 5, "at": 1}, {"id": 1, "team": None, "pay": None, "at": 2}]
    options = {"group_by": ["team"], "empty_groups": "drop", "null_groups": "keep"}
    with direct() as p:
        made = table(p, form, rows, SCHEMA.remove(3))
        for name, transform, there, none in (("n", CountTable(**options), 1, 1), ("sum", SumTable(of="pay", **options), 5, 0)):
            got = (
                made
                | name >> transform
                | f"{name} changes" >> TableToChanges()
                | f"{name} rows" >> beam.Map(lambda c: (c.key, c.old, c.new))
            )
            expected = [(("red",), None, there), (("red",), there, None), ((None,), None, none)]
            assert_that(got, equal_to(expected), label=name)
        kept = made | CountTable(group_by="team", null_groups="keep")
        assert_that(changes(kept), equal_to([(("red",), None, 1, 1), (("red",), 1, 0, 2), ((None,), None, 1, 2)]), label="kept")


@FORMS
@pytest.mark.parametrize("rows", [ROWS[:2], []], ids=["rows", "no rows"])
def test_a_total_has_a_row_from_the_start(direct, form, rows):
    with direct() as p:
        total = table(p, form if rows else "columns", rows) | AggregateTable({"n": "count()", "least": "min(pay)"})
        none, one, two = {"n": 0, "least": None}, {"n": 1, "least": 5}, {"n": 2, "least": 5}
        begin = ((), None, none, NO_TIME)
        expected = [begin, ((), none, one, 1), ((), one, two, 2)] if rows else [begin]
        assert_that(changes(total), equal_to(expected))


def test_columns_of_all_kinds_have_extremes_of_their_types(direct):
    kinds = {
        "whole": (pa.int8(), [3, -7]),
        "large": (pa.uint64(), [2**64 - 1, 5]),
        "fraction": (pa.float64(), [float("nan"), -0.5]),
        "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25")]),
        "text": (pa.string(), ["ä", "z"]),
        "bytes": (pa.binary(), [b"\xff", b""]),
        "truth": (pa.bool_(), [True, False]),
        "day": (pa.date32(), [dt.date(2026, 1, 2), dt.date(1969, 1, 1)]),
        "instant": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)]),
        "hour": (pa.time64("us"), [dt.time(23), dt.time(1)]),
    }
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), *((name, kind) for name, (kind, _) in kinds.items())])
    rows = [{"id": n, "at": n, **{name: values[n] for name, (_, values) in kinds.items()}} for n in range(2)]
    with direct() as p:
        least = table(p, "columns", rows, schema) | AggregateTable({name: agg.min(name) for name in kinds})
        last = least | TableToChanges() | beam.Filter(lambda change: change.position == 1) | beam.Map(lambda change: change.new)
        assert_that(
            last,
            equal_to([{name: min(values, key=repr) if name == "fraction" else min(values) for name, (_, values) in kinds.items()}]),
        )


@pytest.mark.parametrize("runs", [[[0], [1]], [[], [0, 1]], [[0, 1], []]], ids=str)
def test_a_total_begins_once_in_incremental_runs(tmp_path, runs):
    out = tmp_path / "out"
    out.mkdir()
    for ids in runs:
        rows = [{"id": n, "team": "red", "pay": n, "paid": True, "at": n} for n in ids]
        options = PipelineOptions([f"--beam_joins_state={tmp_path}/state", "--beam_joins_partitions=3"])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
            total = table(p, "columns", rows) | AggregateTable({"n": "count()", "most": "max(pay)"})
            _ = changes(total) | beam.Map(list) | beam.ParDo(Append(out))
    none, one, two = {"n": 0, "most": None}, {"n": 1, "most": 0}, {"n": 2, "most": 1}
    assert sorted(written(out), key=lambda line: line[-1]) == [[[], None, none, NO_TIME], [[], none, one, 0], [[], one, two, 1]]


def test_a_total_of_columns_is_written_without_a_key(direct, tmp_path):
    with direct() as p:
        total = table(p, "columns", ROWS[:2]) | AggregateTable({"n": agg.count(), "pay": agg.sum("pay")})
        latest = total | LatestTable() | beam.Map(lambda rows: rows.to_pylist())
        assert_that(latest, equal_to([[{"key": None, "value": {"n": 2, "pay": 12}, "timestamp": 2}]]))
        for records in ("rows", "upserts", "changes"):
            _ = total | f"to {records}" >> WriteChangelog(f"{tmp_path}/{records}.parquet", records=records)
    lines = {each.stem: pq.read_table(each).to_pylist() for each in tmp_path.glob("*.parquet")}
    assert lines["rows"] == [{"n": 2, "pay": 12}]
    assert [(line["n"], line["pay"], line["position"]) for line in lines["upserts"]] == [(0, None, NO_TIME), (1, 5, 1), (2, 12, 2)]
    assert [(line["key"], line["new"]) for line in lines["changes"]][-1] == (None, {"n": 2, "pay": 12})


def test_a_condition_that_raises_leaves_its_row_out(direct):
    with direct() as p:
        good, bad = (
            table(p, "records", ROWS[:2])
            | AggregateTable({"n": agg.count(where=lambda key, row: {5: True}[row["pay"]])}, group_by="team").with_exception_handling()
        )
        assert_that(changes(good), equal_to([("red", None, {"n": 1}, 1)]))
        assert_that(bad | beam.Map(lambda each: (each[0].key, each[1][0])), equal_to([(2, "KeyError")]), label="bad")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give aggregates, the columns of the result, or initial, add and subtract, functions of your own"),
        ({"aggregates": {}}, "aggregates={}: give the columns of the result, such as"),
        ({"aggregates": {"n": "median(pay)"}}, "'median' is no aggregate: choose one of count, sum, min, max, mean, count_distinct"),
        ({"aggregates": {"n": "sum()"}}, r"sum\(\) is of values: name their column, as in sum\('amount'\)"),
        ({"aggregates": {"n": "pay"}}, r"aggregates={'n': 'pay'}: give an aggregate, such as sum\('amount'\), or its text"),
        ({"aggregates": {"n": "count()"}, "initial": 0}, "initial goes with add and subtract"),
        ({"aggregates": {"n": "count()"}, "add": max}, "give aggregates, the columns of the result, or initial"),
        ({"aggregates": {"n": "count()"}, "empty_groups": "gone"}, "empty_groups='gone': choose one of 'drop', 'keep'"),
        ({"aggregates": {"n": "count()"}, "null_groups": "keep"}, "null_groups='keep' is of columns: name them in group_by"),
        ({"initial": 0, "add": max, "subtract": min}, "group_by=None: add and subtract aggregate groups: give the group"),
        ({"group_by": "g", "initial": 0, "add": max, "subtract": min, "empty_groups": "keep"}, "empty_groups and null_groups go with"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        AggregateTable(**options)


@pytest.mark.parametrize(
    ("aggregates", "sentence"),
    [
        ({"n": "sum(team)"}, "aggregates: n: values of type string cannot be added: give a column of numbers"),
        ({"n": "sum(wage)"}, "of='wage': there is no such column; there are id, team, pay, paid"),
        ({"n": agg.count(where="team")}, "where gave values of type string: give true for a row that counts"),
        (
            {"n": agg.min(vectorized(lambda rows: pa.nulls(len(rows), pa.list_(pa.int64()))))},
            "aggregates: n: values of type list.* have no order",
        ),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_when_applied(direct, aggregates, sentence):
    with pytest.raises(ValueError, match=sentence):
        _ = table(direct(), "columns") | AggregateTable(aggregates, group_by="team")
