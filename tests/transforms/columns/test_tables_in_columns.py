"""Tables in columns in Beam: what comes out is what comes out of the same pipeline on records, however the input is cut and partitioned."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    AggregateTable,
    Change,
    ChangeBatch,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToRecords,
    TableToStream,
    vectorized,
)
from tests.transforms.columns.both_forms import (
    CDC,
    CUSTOMERS,
    CUTS,
    ORDERS,
    batches,
    compared,
    customer_rows,
    one_batch,
    order_rows,
    records,
    single_rows,
)


def enriched(order, customer):
    return {"amount": order["amount"], "name": customer and customer["name"]}


ENRICHED = [
    enriched,
    vectorized(lambda order, customer: {"amount": order["amount"], "name": customer["name"]}),
    {"amount": "left.amount", "name": "right.name"},
]
SUMS = [
    lambda left, right: {"l": left and left["amount"], "r": right and right["amount"]},
    {"l": pc.field("left", "amount"), "r": pc.field("right", "amount")},
    {"l": "left.amount", "r": "right.amount"},
]


def in_records(form, table):
    """The table as a collection of changes, whichever form it is in."""
    assert (table.element_type is ChangeBatch) is (form != "records")
    return table if form == "records" else table | f"{table.producer.full_label} to records" >> TableToRecords()


def rows_of_batch(batch):
    """The keys and values of a batch as pairs."""
    return zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)


@pytest.mark.parametrize("emit", ["updates", "changes", "records", "latest"])
def test_a_changelog_makes_the_same_table_and_drops_the_same_records_in_both_forms(direct, emit):
    options = {**CDC, "emit": emit, "except_columns": ["lsn", "at", "gone", "shop"]}
    rows = order_rows(1)
    with compared(direct()) as (p, both):
        made = {"records": (records(p, "records", rows), {})}
        for partitions, cut in CUTS if emit == "updates" else CUTS[1:2]:
            made[f"{partitions} {cut.__name__}"] = batches(p, f"{cut.__name__}", rows, ORDERS, cut), {"partitions": partitions}
        for form, (log, more) in made.items():
            outputs = log | f"table of {form}" >> TableFromChangelog(**{**options, **more}).with_outputs()
            both.add("table", form, in_records(form, outputs.table))
            both.add("dropped", form, outputs.dropped)


def test_a_foreign_key_join_gives_the_same_in_both_forms(direct):
    orders, customers = order_rows(2), customer_rows(2)
    with compared(direct(), empty=["dropped left"]) as (p, both):

        def add(form, left, right, joiner, **options):
            table = TableFromChangelog(**{**CDC, **options})
            tables = left | f"orders of {form}" >> table, right | f"customers of {form}" >> table
            for how in ("inner", "left"):
                join = ForeignKeyJoin(foreign_key="by", joiner=joiner, how=how, **options).with_outputs()
                outputs = tables | f"{how} of {form}" >> join
                both.add(f"table {how}", form, in_records(form, outputs.table))
                both.add(f"dropped {how}", form, outputs.dropped)

        add("records", records(p, "orders", orders), records(p, "customers", customers), enriched, partitions=2)
        for (partitions, cut), joiner in zip(CUTS, ENRICHED, strict=True):
            form = f"{partitions} {cut.__name__}"
            sides = batches(p, f"orders {form}", orders, ORDERS, cut), batches(p, f"customers {form}", customers, CUSTOMERS, cut)
            add(form, *sides, joiner, partitions=partitions)


def test_the_latest_table_is_the_same_in_both_forms(direct):
    orders = order_rows(1)
    with compared(direct()) as (p, both):
        log = records(p, "orders", orders) | "table of records" >> TableFromChangelog(**CDC)
        both.add("latest", "records", log | LatestTable())
        for partitions, cut in CUTS:
            form = f"{partitions} {cut.__name__}"
            table = batches(p, form, orders, ORDERS, cut) | f"table of {form}" >> TableFromChangelog(
                **{**CDC, "partitions": partitions}
            )
            rows = table | f"latest of {form}" >> LatestTable() | f"rows of {form}" >> beam.FlatMap(rows_of_batch)
            both.add("latest", form, rows)


def test_a_table_table_join_on_several_columns_gives_the_same_in_both_forms(direct):
    options = {**CDC, "key": ["shop", "id"]}
    sides = order_rows(3, 40), order_rows(4, 40)
    with compared(direct()) as (p, both):
        for how in ("inner", "left", "outer"):
            tables = (
                records(p, f"{how} {i}", rows) | f"{how} table {i}" >> TableFromChangelog(**options) for i, rows in enumerate(sides)
            )
            both.add(how, "records", tuple(tables) | how >> TableTableJoin(SUMS[0], how=how, partitions=2))
        for (partitions, cut), joiner in zip(CUTS, SUMS, strict=True):
            form = f"{partitions} {cut.__name__}"
            table = TableFromChangelog(**{**options, "partitions": partitions})
            tables = tuple(
                batches(p, f"{form} {i}", rows, ORDERS, cut) | f"table {i} of {form}" >> table for i, rows in enumerate(sides)
            )
            for how in ("inner", "left", "outer"):
                joined = tables | f"{how} of {form}" >> TableTableJoin(joiner, how=how, partitions=partitions)
                both.add(how, form, in_records(form, joined))


def test_a_chain_of_joins_gives_the_same_in_both_forms(direct):
    """The second join reads what the first gave, whose columns a joiner of records may leave null in a whole partition."""
    orders, customers = order_rows(5), customer_rows(5)
    with compared(direct()) as (p, both):
        forms = {
            "records": (records(p, "orders", orders), records(p, "customers", customers)),
            "columns": (batches(p, "order batches", orders, ORDERS), batches(p, "customer batches", customers, CUSTOMERS)),
        }
        for form, logs in forms.items():
            left, right = (
                side | f"{name} of {form}" >> TableFromChangelog(**CDC) for name, side in zip(("left", "right"), logs, strict=True)
            )
            first = (left, right) | f"first of {form}" >> ForeignKeyJoin(
                foreign_key="by",
                joiner=lambda order, customer: {**order, "name": customer and customer["name"]},
                how="left",
                partitions=3,
            )
            second = (first, right) | f"second of {form}" >> ForeignKeyJoin(
                foreign_key=lambda key, row: None if row["by"] is None else (row["by"] + key) % 4,
                joiner=lambda order, customer: {"names": [order["name"], customer["name"]], "amount": order["amount"]},
                partitions=3,
            )
            third = (second, left) | f"third of {form}" >> TableTableJoin(
                lambda row, order: {**(row or {"amount": None}), "by": order and order["by"]}, how="left", partitions=2
            )
            both.add("chain", form, in_records(form, third))


def test_every_other_transform_takes_a_table_in_columns_as_it_takes_one_of_records(direct):
    orders, customers = order_rows(6), customer_rows(6)
    stream = [(key, f"seen {key}") for key in range(5)]
    with compared(direct()) as (p, both):
        views = p | "views" >> beam.Create(stream)
        forms = {
            "records": (records(p, "orders", orders), records(p, "customers", customers)),
            "columns": (batches(p, "order batches", orders, ORDERS), batches(p, "customer batches", customers, CUSTOMERS)),
        }
        for form, logs in forms.items():
            left, right = (
                side | f"{name} of {form}" >> TableFromChangelog(**CDC) for name, side in zip(("left", "right"), logs, strict=True)
            )

            def add(what, transform, of, form=form):
                both.add(what, form, of | f"{what} of {form}" >> transform)

            add("filtered", FilterTable(lambda key, row: row["amount"] % 2 == 0), left)
            add("mapped", MapTable(lambda key, row: row["amount"]), left)
            add("a stream", TableToStream(), left)
            add("counted", CountTable(group_by="shop", partitions=2), left)
            add(
                "aggregated",
                AggregateTable(
                    group_by=lambda key, row: row["by"],
                    initial=int,
                    add=lambda total, row: total + row["amount"],
                    subtract=lambda total, row: total - row["amount"],
                    partitions=2,
                ),
                left,
            )
            one_to_many = OneToManyJoin(
                foreign_key="by", joiner=lambda customer, order: (order["amount"], customer["name"]), partitions=2
            )
            add("one to many", one_to_many, (right, left))
            add(
                "outer",
                ForeignKeyJoin(foreign_key="by", joiner=lambda o, c: (o and o["amount"], c and c["name"]), how="outer", partitions=2),
                (left, right),
            )
            add(
                "looked up",
                StreamTableJoin(lambda view, row: (view, row), how="left", sequence_by=lambda key, view: 15, partitions=2),
                (views, right),
            )
            mixed = TableTableJoin(lambda order, customer: (order["amount"], customer["name"]), partitions=2)
            add("with a table of records", mixed, (left, right | f"mapped away of {form}" >> MapTable(lambda key, row: row)))


def test_a_table_crosses_a_shuffle(direct):
    orders = order_rows(7)
    with compared(direct()) as (p, both):
        for form, log in (("records", records(p, "orders", orders)), ("columns", batches(p, "batches", orders, ORDERS, single_rows))):
            table = (
                log
                | f"table of {form}" >> TableFromChangelog(**{**CDC, "key": ["shop", "id"]})
                | f"reshuffle of {form}" >> beam.Reshuffle()
            )
            if form == "columns":
                table = table | beam.Map(lambda batch: batch).with_output_types(ChangeBatch) | TableToRecords()
            both.add("table", form, table)


def test_blocks_that_leave_before_their_bundle_ends_lose_nothing(direct, monkeypatch):
    monkeypatch.setattr("beam_joins.transforms.engine.block_writer.PENDING_BYTES", 1)
    orders, customers = order_rows(8), customer_rows(8)
    with compared(direct()) as (p, both):
        for form, left, right in (
            ("records", records(p, "orders", orders), records(p, "customers", customers)),
            ("columns", batches(p, "order rows", orders, ORDERS, single_rows), batches(p, "customer rows", customers, CUSTOMERS)),
        ):
            tables = left | f"left of {form}" >> TableFromChangelog(**CDC), right | f"right of {form}" >> TableFromChangelog(**CDC)
            joined = tables | f"join of {form}" >> ForeignKeyJoin(foreign_key="by", joiner=enriched, how="left", partitions=3)
            both.add("joined", form, in_records(form, joined))


def test_what_is_dropped_is_counted_whether_or_not_anyone_looks(direct):
    p = direct()
    tables = (
        batches(p, "orders", order_rows(1), ORDERS) | "left" >> TableFromChangelog(**CDC),
        batches(p, "customers", customer_rows(1), CUSTOMERS) | "right" >> TableFromChangelog(**CDC),
    )
    _ = tables | ForeignKeyJoin(foreign_key="by", joiner=enriched)
    result = p.run()
    result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_namespace("beam_joins"))["counters"]
    counts = {}
    for counter in counters:
        name = counter.key.metric.name
        counts[name] = counts.get(name, 0) + counter.committed
    assert counts.keys() == {
        f"dropped_{reason}" for reason in ("null_key", "null_sequence", "null_timestamp", "ambiguous_position", "null_foreign_key")
    }
    assert (counts["dropped_null_key"], counts["dropped_null_sequence"], counts["dropped_null_timestamp"]) == (2, 2, 3)


SOME = [{"id": 1, "lsn": 1, "at": 5, "name": "Ann", "gone": False}]
DELETED = [{"id": 1, "lsn": 0, "at": 0, "name": None, "gone": True}]
ALONE = [Change(1, None, {"l": "Ann", "r": None}, 5, 1)]
NOTHING = {"no batch": ([], lambda table: []), "an empty batch": ([], one_batch), "deletes only": (DELETED, one_batch)}
JOINERS = {
    "by record": lambda left, right: {"l": left and left["name"], "r": right and right["name"]},
    "names": {"l": "left.name", "r": "right.name"},
    "expressions": {"l": "left.name", "r": pc.field("right", "name")},
    "by column": vectorized(lambda left, right: {"l": left["name"], "r": right["name"]}),
}


def some_and_none(p, nothing):
    """A table of one row, and one that has none."""
    rows, cut = NOTHING[nothing]
    logs = batches(p, "some", SOME, CUSTOMERS), batches(p, "none", rows, CUSTOMERS, cut)
    return tuple(log | f"table {i}" >> TableFromChangelog(**CDC) for i, log in enumerate(logs))


def is_the_table(name, table, expected):
    assert_that(table | f"{name} in records" >> TableToRecords(), equal_to(expected), label=f"is {name}")


@pytest.mark.parametrize("nothing", ["no batch", "deletes only"])
def test_a_side_without_a_row_is_an_empty_table(direct, nothing):
    with direct() as p:
        some, none = some_and_none(p, nothing)
        for name, how, sides, expected in (
            ("right empty", "left", (some, none), ALONE),
            ("left empty", "left", (none, some), []),
            ("both empty", "inner", (none, none), []),
        ):
            join = ForeignKeyJoin(foreign_key="id", joiner=JOINERS["by record"], how=how, partitions=2)
            is_the_table(name, sides | name >> join, expected)
        same_key = TableTableJoin(JOINERS["names"], how="outer", partitions=2)
        is_the_table("right empty too", (some, none) | "same key" >> same_key, ALONE)
        mirrored = [Change(1, None, {"l": None, "r": "Ann"}, 5, 1)]
        is_the_table("left empty too", (none, some) | "mirrored" >> same_key, mirrored)
        assert_that(none | LatestTable(), equal_to([]), label="nothing is the latest")


@pytest.mark.parametrize(
    ("how", "joiner", "nothing"),
    [
        ("left", "names", "no batch"),
        ("inner", "expressions", "no batch"),
        ("left", "expressions", "deletes only"),
        ("inner", "by column", "an empty batch"),
        ("left", "by column", "deletes only"),
    ],
)
def test_a_joiner_of_columns_finds_those_of_an_empty_table_null(direct, how, joiner, nothing):
    with direct() as p:
        join = ForeignKeyJoin(foreign_key="id", joiner=JOINERS[joiner], how=how, partitions=1)
        is_the_table("joined", some_and_none(p, nothing) | join, ALONE if how == "left" else [])


def test_every_batch_of_a_join_has_the_columns_that_its_joiner_gives(direct):
    """Most of the partitions are empty, and a joiner of records says nothing of columns where it is not called."""
    schema = pa.schema([("l", pa.string())])
    with direct() as p:
        left, right = some_and_none(p, "deletes only")
        names = (left, right) | TableTableJoin(lambda left, right: {"l": left["name"]}, how="left", schema=schema, partitions=16)
        columns = names | beam.Map(lambda batch: tuple(field.name for field in batch.new.type)) | beam.Distinct()
        assert_that(columns, equal_to([("l",)]))


def test_a_table_of_python_objects_is_joined_and_made_changes_of_but_is_no_arrow_table(direct):
    with direct() as p:
        left, right = some_and_none(p, "deletes only")
        objects = (left, right) | TableTableJoin(lambda left, right: (left["name"], right), how="left")
        again = (objects, left) | "again" >> TableTableJoin(lambda both, left: [*both, left["name"]])
        seen = again | TableToRecords() | beam.Map(lambda change: change.new)
        assert_that(seen, equal_to([["Ann", None, "Ann"]]))
    for use in (LatestTable(), beam.Map(lambda batch: batch.to_arrow())):
        with (
            pytest.raises(
                Exception, match="the values of this table are Python objects, .*: give the transform that made them schema="
            ),
            direct() as p,
        ):
            left, right = some_and_none(p, "deletes only")
            _ = (left, right) | TableTableJoin(lambda left, right: left, how="left") | use
    with pytest.raises(Exception, match="give that transform schema="), direct() as p:
        left, right = some_and_none(p, "deletes only")
        objects = (left, right) | TableTableJoin(lambda left, right: left, how="left")
        _ = (objects, left) | "again" >> TableTableJoin({"x": "left.name"})
