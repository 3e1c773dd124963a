"""Tables in columns in Beam: what comes out is what comes out of the same pipeline on records, however the
input is cut and partitioned.
"""

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToStream,
    vectorized,
)
from beam_joins.transforms.engine.construction.table_type import is_batches
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
from tests.transforms.counted import dropped


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


def changes(table):
    """The changes of a table, one by one."""
    return table | f"{table.producer.full_label} as changes" >> TableToChanges()


def rows_of_batch(batch):
    """The keys and values of a batch as pairs."""
    return zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)


@pytest.mark.parametrize("emit", ["updates", "changes", "records", "latest"])
def test_a_changelog_makes_the_same_table_and_drops_the_same_records_in_both_forms(direct, emit):
    options = {**CDC, "emit": emit, "except_columns": ["lsn", "at", "gone", "shop"]}
    rows = order_rows(1)
    for partitions, cut in CUTS if emit == "updates" else CUTS[1:2]:
        with compared(direct(partitions)) as (p, both):
            for form, log in {"records": records(p, "records", rows), "columns": batches(p, "columns", rows, ORDERS, cut)}.items():
                outputs = log | f"table of {form}" >> TableFromChangelog(**options).with_outputs()
                both.add("table", form, changes(outputs.table))
                both.add("dropped", form, outputs.dropped)


@pytest.mark.slow
def test_a_foreign_key_join_gives_the_same_in_both_forms(direct):
    orders, customers = order_rows(2), customer_rows(2)
    for (partitions, cut), joiner in zip(CUTS, ENRICHED, strict=True):
        with compared(direct(partitions), empty=["dropped left"]) as (p, both):
            forms = {
                "records": (records(p, "orders", orders), records(p, "customers", customers), enriched),
                "columns": (batches(p, "order", orders, ORDERS, cut), batches(p, "customer", customers, CUSTOMERS, cut), joiner),
            }
            for form, (left, right, of_form) in forms.items():
                table = TableFromChangelog(**CDC)
                tables = left | f"orders of {form}" >> table, right | f"customers of {form}" >> table
                for how in ("inner", "left"):
                    outputs = tables | f"{how} of {form}" >> ForeignKeyJoin(of_form, foreign_key="by", how=how).with_outputs()
                    both.add(f"table {how}", form, changes(outputs.table))
                    both.add(f"dropped {how}", form, outputs.dropped)


def test_the_latest_table_is_the_same_in_both_forms(direct):
    orders = order_rows(1)
    for partitions, cut in CUTS:
        with compared(direct(partitions)) as (p, both):
            log = records(p, "orders", orders) | "table of records" >> TableFromChangelog(**CDC)
            both.add("latest", "records", log | LatestTable())
            table = batches(p, "batches", orders, ORDERS, cut) | "table of columns" >> TableFromChangelog(**CDC)
            for form, of_form in (("columns", table), ("columns apart", table | "cut up" >> beam.Reshuffle())):
                rows = of_form | f"latest of {form}" >> LatestTable() | f"rows of {form}" >> beam.FlatMap(rows_of_batch)
                both.add("latest", form, rows)


@pytest.mark.slow
def test_a_table_table_join_on_several_columns_gives_the_same_in_both_forms(direct):
    table = TableFromChangelog(**{**CDC, "key": ["shop", "id"]})
    sides = order_rows(3, 40), order_rows(4, 40)
    for (partitions, cut), joiner in zip(CUTS, SUMS, strict=True):
        with compared(direct(partitions)) as (p, both):
            forms = {
                "records": ([records(p, f"side {i}", rows) for i, rows in enumerate(sides)], SUMS[0]),
                "columns": ([batches(p, f"batches {i}", rows, ORDERS, cut) for i, rows in enumerate(sides)], joiner),
            }
            for form, (logs, of_form) in forms.items():
                tables = tuple(log | f"table {i} of {form}" >> table for i, log in enumerate(logs))
                for how in ("inner", "left", "outer"):
                    both.add(how, form, changes(tables | f"{how} of {form}" >> TableTableJoin(of_form, how=how)))


def test_a_chain_of_joins_gives_the_same_in_both_forms(direct):
    """The second join reads what the first gave, whose columns a joiner of records may leave null in a whole
    partition.
    """
    orders, customers = order_rows(5), customer_rows(5)
    with compared(direct(3)) as (p, both):
        forms = {
            "records": (records(p, "orders", orders), records(p, "customers", customers)),
            "columns": (batches(p, "order batches", orders, ORDERS), batches(p, "customer batches", customers, CUSTOMERS)),
        }
        for form, logs in forms.items():
            left, right = (
                side | f"{name} of {form}" >> TableFromChangelog(**CDC) for name, side in zip(("left", "right"), logs, strict=True)
            )
            first = (left, right) | f"first of {form}" >> ForeignKeyJoin(
                lambda order, customer: {**order, "name": customer and customer["name"]}, foreign_key="by", how="left"
            )
            second = (first, right) | f"second of {form}" >> ForeignKeyJoin(
                lambda order, customer: {"names": [order["name"], customer["name"]], "amount": order["amount"]},
                foreign_key=lambda key, row: None if row["by"] is None else (row["by"] + key) % 4,
            )
            third = (second, left) | f"third of {form}" >> TableTableJoin(
                lambda row, order: {**(row or {"amount": None}), "by": order and order["by"]}, how="left"
            )
            both.add("chain", form, changes(third))


@pytest.mark.slow
def test_every_other_transform_takes_a_table_in_columns_as_it_takes_one_of_records(direct):
    orders, customers = order_rows(6), customer_rows(6)
    stream = [(key, f"seen {key}") for key in range(5)]
    with compared(direct(3)) as (p, both):
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
                inputs = of | f"{what} of {form}" >> transform
                both.add(what, form, changes(inputs) if is_batches(inputs) else inputs)

            add("filtered", FilterTable(lambda key, row: row["amount"] % 2 == 0), left)
            add("mapped", MapTable(lambda key, row: row["amount"]), left)
            add("a stream", TableToStream(), left)
            add("counted", CountTable(group_by="shop"), left)
            add(
                "aggregated",
                AggregateTable(
                    group_by=lambda key, row: row["by"],
                    initial=int,
                    add=lambda total, row: total + row["amount"],
                    subtract=lambda total, row: total - row["amount"],
                ),
                left,
            )
            one_to_many = OneToManyJoin(lambda customer, order: (order["amount"], customer["name"]), foreign_key="by")
            add("one to many", one_to_many, (right, left))
            add(
                "outer",
                ForeignKeyJoin(lambda o, c: (o and o["amount"], c and c["name"]), foreign_key="by", how="outer"),
                (left, right),
            )
            add(
                "looked up",
                StreamTableJoin(lambda view, row: (view, row), how="left", sequence_by=lambda key, view: 15),
                (views, right),
            )
            mixed = TableTableJoin(lambda order, customer: (order["amount"], customer["name"]))
            add("with a table of records", mixed, (left, right | f"mapped away of {form}" >> MapTable(lambda key, row: row)))


def test_a_table_crosses_a_shuffle(direct):
    orders = order_rows(7)
    with compared(direct(3)) as (p, both):
        for form, log in (("records", records(p, "orders", orders)), ("columns", batches(p, "batches", orders, ORDERS, single_rows))):
            table = log | f"table of {form}" >> TableFromChangelog(**{**CDC, "key": ["shop", "id"]})
            shuffled = table | f"reshuffle of {form}" >> beam.Reshuffle()
            if form == "columns":
                shuffled = shuffled | beam.Map(lambda batch: batch).with_output_types(table.element_type)
            both.add("table", form, changes(shuffled))


def test_blocks_that_leave_before_their_bundle_ends_lose_nothing(direct, monkeypatch):
    monkeypatch.setattr("beam_joins.transforms.engine.blocks.block_writer.PENDING_BYTES", 1)
    orders, customers = order_rows(8), customer_rows(8)
    with compared(direct(3)) as (p, both):
        for form, left, right in (
            ("records", records(p, "orders", orders), records(p, "customers", customers)),
            ("columns", batches(p, "order rows", orders, ORDERS, single_rows), batches(p, "customer rows", customers, CUSTOMERS)),
        ):
            tables = left | f"left of {form}" >> TableFromChangelog(**CDC), right | f"right of {form}" >> TableFromChangelog(**CDC)
            joined = tables | f"join of {form}" >> ForeignKeyJoin(enriched, foreign_key="by", how="left")
            both.add("joined", form, changes(joined))


def test_what_is_dropped_is_counted_whether_or_not_anyone_looks(direct):
    p = direct()
    tables = (
        batches(p, "orders", order_rows(1), ORDERS) | "left" >> TableFromChangelog(**CDC),
        batches(p, "customers", customer_rows(1), CUSTOMERS) | "right" >> TableFromChangelog(**CDC),
    )
    _ = tables | ForeignKeyJoin(enriched, foreign_key="by")
    result = p.run()
    result.wait_until_finish()
    counts = dropped(result)
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
    return tuple(log | f"table {i}" >> TableFromChangelog(**CDC, schema=CUSTOMERS) for i, log in enumerate(logs))


def is_the_table(name, table, expected):
    assert_that(table | f"{name} in records" >> TableToChanges(), equal_to(expected), label=f"is {name}")


@pytest.mark.parametrize("nothing", ["no batch", "deletes only"])
def test_a_side_without_a_row_is_an_empty_table(direct, nothing):
    with direct() as p:
        some, none = some_and_none(p, nothing)
        for name, how, sides, expected in (
            ("right empty", "left", (some, none), ALONE),
            ("left empty", "left", (none, some), []),
            ("both empty", "inner", (none, none), []),
        ):
            join = ForeignKeyJoin(JOINERS["by record"], foreign_key="id", how=how)
            is_the_table(name, sides | name >> join, expected)
        same_key = TableTableJoin(JOINERS["names"], how="outer")
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
        join = ForeignKeyJoin(JOINERS[joiner], foreign_key="id", how=how)
        is_the_table("joined", some_and_none(p, nothing) | join, ALONE if how == "left" else [])


def test_every_batch_of_a_join_has_the_columns_that_its_joiner_gives(direct):
    """Most of the partitions are empty, and a joiner of records says nothing of columns where it is not
    called.
    """
    schema = pa.schema([("l", pa.string())])
    with direct() as p:
        left, right = some_and_none(p, "deletes only")
        names = (left, right) | TableTableJoin(lambda left, right: {"l": left["name"]}, how="left", schema=schema)
        columns = names | beam.Map(lambda batch: tuple(field.name for field in batch.new.type)) | beam.Distinct()
        assert_that(columns, equal_to([("l",)]))


def test_a_table_of_python_objects_is_joined_and_made_changes_of_but_is_no_arrow_table(direct):
    with direct() as p:
        left, right = some_and_none(p, "deletes only")
        objects = (left, right) | TableTableJoin(lambda left, right: (left["name"], right), how="left")
        again = (objects, left) | "again" >> TableTableJoin(lambda both, left: [*both, left["name"]])
        seen = again | TableToChanges() | beam.Map(lambda change: change.new)
        assert_that(seen, equal_to([["Ann", None, "Ann"]]))
        assert_that(again | LatestTable(), equal_to([(1, ["Ann", None, "Ann"])]), label="latest")
    message = "the values of this table are Python objects .opaque., .*: give the transform that made them schema="
    with pytest.raises(Exception, match=message), direct() as p:
        left, right = some_and_none(p, "deletes only")
        _ = (left, right) | TableTableJoin(lambda left, right: left, how="left") | beam.Map(lambda batch: batch.to_arrow())
    with pytest.raises(Exception, match="give the transform that made them schema="), direct() as p:
        left, right = some_and_none(p, "deletes only")
        objects = (left, right) | TableTableJoin(lambda left, right: left, how="left")
        _ = (objects, left) | "again" >> TableTableJoin({"x": "left.name"})
