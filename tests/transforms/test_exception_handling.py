"""with_exception_handling(): the records for which a function raises are left out, and are an output of their
own.
"""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    FunctionFailed,
    MapTable,
    OneToManyJoin,
    ReduceTable,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    Window,
    Windowed,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
    WindowedTableToStream,
)
from beam_joins.transforms.engine.construction.table_type import TableType, as_table
from tests.transforms.orders_that_raise import CUSTOMERS, LOG, ORDERS, changes, errors, joined, n_of, of_row, stream, table


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.each_value
def test_a_pair_whose_joiner_raises_has_no_row(pipeline, form, how):
    with pipeline() as p:
        tables = table(p, "orders", ORDERS, form), table(p, "customers", CUSTOMERS, form)
        good, bad = tables | ForeignKeyJoin(joined, foreign_key="by", how=how).with_exception_handling()
        alone = [(3, None, "3 None", 4)] if how == "left" else []
        assert_that(changes(good), equal_to([(1, None, "1 Ann", 2), (2, None, "5 Ann", 5), (1, "1 Ann", None, 6), *alone]))
        pairs = [(2, ORDERS[1], CUSTOMERS[0]), (1, ORDERS[4], CUSTOMERS[0])]
        assert_that(errors(bad), equal_to(pairs), label="bad")


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.each_value
def test_a_row_whose_foreign_key_raises_refers_to_nothing(direct, form, how):
    with direct() as p:
        tables = table(p, "orders", ORDERS, form), table(p, "customers", CUSTOMERS, form)
        join = ForeignKeyJoin(
            lambda o, c: [o and o["id"], c and 1], foreign_key=lambda key, order: n_of(order) and order["by"], how=how
        )
        joined, dropped, bad = tables | join.with_outputs().with_exception_handling()
        rows = {"inner": [[1, 1], [2, 1]], "left": [[1, 1], [1, None], [2, None], [2, 1], [3, None]]}
        rows["outer"] = [*rows["left"], [None, 1]]
        assert_that(joined | TableToChanges(), all_rows(rows[how]))
        assert_that(errors(bad) | "new" >> beam.Map(lambda change: change.new), equal_to([ORDERS[1], ORDERS[4]]), label="bad")
        null = [ORDERS[2]] if how == "inner" else []
        assert_that(dropped | beam.Map(lambda drop: drop.record.new), equal_to(null), label="dropped")


def all_rows(expected):
    def check(inputs):
        rows = sorted((change.new for change in inputs if change.new), key=repr)
        assert [row for i, row in enumerate(rows) if row not in rows[:i]] == sorted(expected, key=repr), rows

    return check


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.each_value
def test_every_join_of_tables_leaves_bad_pairs_out(direct, form, how):
    with direct() as p:
        left, right = table(p, "orders", ORDERS, form), table(p, "others", [{"id": 1, "name": "x", "lsn": 9}], form)
        good, bad = (left, right) | TableTableJoin(lambda o, n: n_of(o), how=how).with_exception_handling()
        rows = [] if how == "inner" else [(1, None, 1, 2), (3, None, 3, 4), (2, None, 5, 5), (1, 1, None, 6)]
        assert_that(changes(good), equal_to(rows))
        none = [] if how == "inner" else [(2, ORDERS[1], None), (1, ORDERS[4], None)]
        assert_that(errors(bad), equal_to([*none, (1, ORDERS[4], {"id": 1, "name": "x", "lsn": 9})]), label="bad")


def test_a_pair_of_one_and_many_whose_key_mapper_raises_has_no_row(direct):
    def mapper(key):
        return n_of({"n": key.primary_key if key.primary_key != 2 else None})

    with direct() as p:
        tables = table(p, "customers", CUSTOMERS), table(p, "orders", ORDERS)
        join = OneToManyJoin(lambda c, o: o["n"] or 0, foreign_key="by", key_mapper=mapper, key_inverse=lambda n: ("ann", n))
        good, bad = tables | join.with_exception_handling()
        assert_that(changes(good), equal_to([(1, None, 1, 2), (1, 1, 0, 6)]))
        assert_that(
            errors(bad) | beam.Map(lambda change: (change.key, change.new)), equal_to([(("ann", 2), 0), (("ann", 2), 5)]), label="bad"
        )


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize(
    ("transform", "rows"),
    [
        (lambda: FilterTable(lambda key, value: n_of(value) < 4), [(1, None, 1, 2), (3, None, 3, 4), (1, 1, None, 6)]),
        (lambda: FilterTable(lambda key, value: n_of(value) < 4, negate=True), [(2, None, 5, 5)]),
        (lambda: MapTable(of_row), [(1, None, 1, 2), (3, None, 3, 4), (2, None, 5, 5), (1, 1, None, 6)]),
    ],
)
@pytest.mark.each_value
def test_a_row_whose_predicate_or_mapping_raises_is_not_there(direct, form, transform, rows):
    with direct() as p:
        good, bad = table(p, "orders", ORDERS, form) | transform().with_exception_handling()
        short = changes(good) | "n" >> beam.Map(lambda row: tuple(v["n"] if isinstance(v, dict) else v for v in row))
        assert_that(short, equal_to(rows))
        assert_that(errors(bad) | "new" >> beam.Map(lambda change: change.new), equal_to([ORDERS[1], ORDERS[4]]), label="bad")


def test_a_raw_changelog_has_a_tombstone_where_the_predicate_raises(direct):
    with direct() as p:
        good, bad = (
            p
            | beam.Create([("a", {"n": None}), ("b", {"n": 1})])
            | FilterTable(lambda key, row: of_row(key, row) > 0).with_exception_handling()
        )
        assert_that(good, equal_to([("a", None), ("b", {"n": 1})]))
        assert_that(errors(bad), equal_to([("a", {"n": None})]), label="bad")


def test_a_row_whose_group_is_not_known_is_in_none_and_one_that_cannot_be_added_is_never_subtracted(direct):
    with direct() as p:
        orders = table(p, "orders", ORDERS)
        groups, dropped, bad = (
            orders | "g" >> CountTable(group_by=lambda key, value: n_of(value) % 2).with_exception_handling().with_outputs()
        )
        assert_that(changes(groups), equal_to([(1, None, 1, 2), (1, 1, 2, 4), (1, 2, 3, 5), (1, 3, 2, 6)]), label="groups")
        assert_that(dropped, equal_to([]), label="dropped")
        assert_that(errors(bad), equal_to([Change(2, None, ORDERS[1], 3, 3), Change(1, ORDERS[0], ORDERS[4], 6, 6)]), label="bad")


def test_a_value_that_cannot_be_added_is_never_subtracted(direct):
    with direct() as p:
        total = AggregateTable(
            group_by=lambda key, value: "all", initial=0, add=lambda n, o: n + n_of(o), subtract=lambda n, o: n - n_of(o)
        )
        sums, bad = table(p, "orders", ORDERS) | total.with_exception_handling()
        assert_that(changes(sums), equal_to([("all", None, 1, 2), ("all", 1, 4, 4), ("all", 4, 9, 5), ("all", 9, 8, 6)]))
        assert_that(errors(bad), equal_to([("all", 2, ORDERS[1]), ("all", 1, ORDERS[4])]), label="bad")


def test_what_was_added_and_cannot_be_subtracted_fails_the_run(direct):
    with (
        pytest.raises(FunctionFailed, match="ReduceTable: subtract raised ValueError: n is not known for the key 'all'"),
        direct() as p,
    ):
        (
            table(p, "orders", ORDERS)
            | ReduceTable(
                group_by=lambda key, value: "all", add=lambda one, other: one, subtract=lambda n, o: n_of({"n": None})
            ).with_exception_handling()
        )


STREAM_FUNCTIONS = {
    "joiner": StreamTableJoin(joined, how="left", sequence_by="lsn"),
    "sequence": StreamTableJoin(
        lambda o, c: f"{o['n']} {c and c['name']}", how="left", sequence_by=lambda key, o: n_of(o) and o["lsn"]
    ),
}


@pytest.mark.parametrize("join", STREAM_FUNCTIONS)
def test_records_of_a_stream_whose_functions_raise_are_left_out(direct, join):
    with direct() as p:
        sides = stream(p, "orders", ORDERS, "by"), table(p, "customers", CUSTOMERS)
        good, bad = sides | STREAM_FUNCTIONS[join].with_exception_handling()
        assert_that(good, equal_to([("ann", "1 Ann"), (None, "3 None"), ("ann", "5 Ann")]))
        assert_that(errors(bad) | "values" >> beam.Map(lambda record: record[1]), equal_to([ORDERS[1], ORDERS[4]]), label="bad")


@pytest.mark.parametrize(
    ("option", "record"),
    [("add", lambda order: (Windowed(order["id"], Window(0, 9_000_000)), order)), ("sequence_by", lambda order: (order["id"], order))],
)
def test_a_record_that_cannot_be_added_to_a_window_has_no_part_in_it(direct, option, record):
    functions = {"add": lambda n, o: n + (o["n"] or 0), option: lambda n, o: n + n_of(o)}
    with direct() as p:
        total = WindowedAggregate(FixedWindows(9), initial=0, **functions)
        sums, bad = stream(p, "orders", ORDERS) | total.with_exception_handling()
        sums = sums | TableToChanges() | "short" >> beam.Map(lambda change: (change.key.key, change.old, change.new))
        assert_that(sums, equal_to([(1, None, 1), (3, None, 3), (2, None, 5)]))
        assert_that(errors(bad), equal_to([record(ORDERS[1]), record(ORDERS[4])]), label="bad")


def test_a_record_whose_foreign_key_or_window_raises_has_no_row(direct):
    with direct() as p:
        orders, customers = stream(p, "orders", ORDERS), table(p, "customers", CUSTOMERS)
        fk = StreamForeignKeyJoin(
            lambda o, c: c and c["name"], foreign_key=lambda key, o: n_of(o) and o["by"], how="left", sequence_by="lsn"
        )
        joined, dropped, bad = (orders, customers) | fk.with_exception_handling().with_outputs()
        assert_that(joined, equal_to([(1, "Ann"), (2, None), (3, None), (2, "Ann"), (1, None)]))
        assert_that(errors(bad), equal_to([(2, ORDERS[1]), (1, ORDERS[4])]), label="bad")


def test_a_pair_of_streams_whose_joiner_raises_is_left_out(direct):
    with direct() as p:
        orders = stream(p, "orders", [*ORDERS, {**ORDERS[1], "id": None}, {**ORDERS[0], "id": None}])
        join = WindowedStreamJoin(lambda o, other: n_of(o), how="left", before=0, after=0, grace=0)
        joined, late, dropped, bad = (orders, orders) | join.with_outputs().with_exception_handling()
        assert_that(joined, equal_to([(1, 1), (3, 3), (2, 5), (None, 1)]))
        pairs = [(2, ORDERS[1], ORDERS[1]), (1, ORDERS[4], ORDERS[4]), (None, {**ORDERS[1], "id": None}, None)]
        assert_that(errors(bad), equal_to(pairs), label="bad")


def test_batches_of_streams_leave_out_what_functions_raise_for(direct):
    with direct() as p:
        orders = p | beam.Create([pa.Table.from_pylist(ORDERS)]).with_output_types(pa.Table)
        options = {"key": "id", "timestamp_by": "lsn", "before": 0, "after": 0, "grace": 0, "schema": pa.int64()}
        cases = {
            "joiner": WindowedStreamJoin(lambda o, other: n_of(o), **options),
            "sequence": WindowedStreamJoin(lambda o, other: o["n"], sequence_by=lambda key, o: n_of(o), **options),
        }
        for name, join in cases.items():
            good, bad = (orders, orders) | name >> join.with_exception_handling()
            rows = (
                good
                | f"{name} rows" >> beam.FlatMap(lambda batch: batch.to_pylist())
                | f"{name} n" >> beam.Map(lambda row: row["value"])
            )
            assert_that(rows, equal_to([1, 3, 5]), label=name)
            count = bad | f"{name} count" >> beam.combiners.Count.Globally()
            assert_that(count, equal_to([2 if name == "joiner" else 4]), label=f"{name} bad")


def test_a_windowed_row_whose_window_of_or_shift_raises_looks_up_nothing(direct):
    with direct() as p:
        rows = [Change(Windowed(key, Window(0, 10)), None, key, 0, key) for key in (1, 2)]
        windows = as_table(p | "w" >> beam.Create(rows), TableType(int, int, "sequence", windowed=True))
        orders = table(p, "orders", ORDERS[:2])
        named = WindowedTableJoin(lambda o, n: [o["id"], n], how="left", window_of=lambda key, o: n_of(o) and Window(0, 10))
        good, bad = (orders, windows) | "named" >> named.with_exception_handling()
        assert_that(good | TableToChanges() | "new" >> beam.Map(lambda c: c.new), equal_to([[1, 1], [2, None]]), label="named")
        assert_that(errors(bad), equal_to([(2, ORDERS[1])]), label="bad")
        shifted = WindowedTableJoin(lambda a, b: [a, b], shift=lambda window: n_of({"n": None}), how="inner")
        none, all_bad = (windows, windows) | "shifted" >> shifted.with_exception_handling()
        assert_that(none, equal_to([]), label="none")
        assert_that(all_bad | "keys" >> beam.Map(lambda element: element[0][1]), equal_to([1, 2]), label="all bad")
        out = (
            windows | WindowedTableToStream(lambda key, window, n: (key, n_of({"n": n if n < 2 else None}))).with_exception_handling()
        )
        assert_that(out.good, equal_to([(1, 1)]), label="good")
        assert_that(out.bad | "new 2" >> beam.Map(lambda element: element[0].new), equal_to([2]), label="bad 2")


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("option", ["key", "timestamp_by", "sequence_by", "tie_break_by", "apply_as_deletes"])
@pytest.mark.each_value
def test_a_record_of_a_changelog_whose_functions_raise_is_left_out(direct, form, option):
    reads = {"key": "id", "timestamp_by": "lsn", "sequence_by": "lsn", "tie_break_by": "lsn", "apply_as_deletes": None}[option]
    functions = {**LOG, option: lambda row: n_of(row) and (row[reads] if reads else False)}
    rows = [*ORDERS, {"id": None, "by": "", "n": 7, "lsn": 8}]
    source = rows if form == "records" else [pa.Table.from_pylist(rows)]
    with direct() as p:
        log = p | beam.Create(source).with_output_types(dict if form == "records" else pa.Table)
        made, dropped, bad = log | TableFromChangelog(**functions).with_exception_handling().with_outputs()
        good = [(1, None, 1, 2), (3, None, 3, 4), (2, None, 5, 5)]
        assert_that(changes(made) | beam.Map(lambda row: (row[0], row[1], row[2]["n"], row[3])), equal_to(good))
        assert_that(errors(bad), equal_to([ORDERS[1], ORDERS[4]]), label="bad")
        assert_that(dropped | beam.Map(lambda drop: drop.record["n"]), equal_to([7]), label="dropped once")


def test_a_record_without_a_named_field_is_bad_too(direct):
    with direct() as p:
        made, bad = (
            p
            | beam.Create([{"id": 1, "lsn": 1}, {"id": 2}])
            | TableFromChangelog(key="id", sequence_by="lsn").with_exception_handling()
        )
        assert_that(made | TableToChanges() | beam.Map(lambda change: change.key), equal_to([1]))
        assert_that(
            bad | "bad" >> beam.Map(lambda element: (element[0], element[1][0])), equal_to([({"id": 2}, "ValueError")]), label="bad"
        )


@pytest.mark.parametrize("exc_class", [KeyError, (KeyError, OSError)])
def test_exceptions_of_other_classes_fail_the_run(direct, exc_class):
    with pytest.raises(FunctionFailed, match="Mapped: fn raised ValueError"), direct() as p:
        table(p, "orders", ORDERS) | "Mapped" >> MapTable(of_row).with_exception_handling(exc_class=exc_class)
