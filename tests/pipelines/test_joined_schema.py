"""The Avro schemas of enriched orders: each named type is defined where it is first used, whatever columns are left out."""

from pathlib import Path
from typing import Any

import fastavro

from beam_joins.pipelines.changelog_files.joined_schema import changelog_schema, joined_schema, key_type, row_schema
from tests.pipelines.orders_run import Row, Run, read_avro

OPERATION: Row = {"type": "enum", "name": "shop.Op", "symbols": ["c", "u", "d"]}


def record(name: str, **types: Any) -> Row:
    return {"type": "record", "name": name, "fields": [{"name": column, "type": type_} for column, type_ in types.items()]}


def enriched(order: Row, customer: Row, without: list[str]) -> Row:
    rows = [(row_schema("orders", order, without), ""), (row_schema("customers", customer, ()), "customer")]
    return joined_schema("EnrichedOrder", rows, "Customer")


def test_a_type_that_only_the_column_left_out_defines_moves_to_where_it_is_first_used(run: Run) -> None:
    step = record("shop.Step", was="shop.Op", now=["null", "shop.Op"])
    order = record(
        "shop.Order",
        op=OPERATION,
        order_id="long",
        customer_id="long",
        steps={"type": "array", "items": step},
        last=["null", "shop.Step"],
        lsn="long",
        updated_at="long",
    )
    customer = record("shop.Customer", op=OPERATION, customer_id="long", before=["null", "shop.Op"], lsn="long", updated_at="long")
    change = {"op": "c", "lsn": 1, "updated_at": 1, "customer_id": 1}
    own = {"order_id": 7, "steps": [{"was": "c", "now": "u"}], "last": {"was": "d", "now": None}}
    for path, schema, row in (("o.avro", order, {**change, **own}), ("c.avro", customer, {**change, "before": "u"})):
        with Path(path).open("wb") as file:
            fastavro.writer(file, schema, [row])
    ran = run("--orders", "o.avro", "--customers", "c.avro", "--output", "e.avro", "--latest", "l.avro")
    assert ran.code == 0, ran.err
    expected = {**own, "customer_id": 1, "updated_at": 1, "customer": {"customer_id": 1, "before": "u", "updated_at": 1}}
    assert list(read_avro(Path("l.avro"))) == [expected]
    assert [(row["old"], row["new"]) for row in read_avro(Path("e.avro"))] == [(None, expected)]


def test_a_key_of_a_named_type_is_defined_once_in_the_changelog() -> None:
    customer = record("Customer", customer_id="long")
    for first in (OPERATION, "string"):
        order = record("Order", before=first, order_id=OPERATION if first == "string" else "shop.Op", parent=["null", "Order"])
        row = enriched(order, customer, without=["before"])
        fastavro.parse_schema(changelog_schema(row, key_type("orders", order, "order_id")))


def test_a_record_within_the_column_left_out_takes_its_own_types_along() -> None:
    order = record("Order", meta=record("Meta", op=OPERATION, at="long"), order_id="long", last="Meta", op="shop.Op")
    row = enriched(order, record("Customer", id="long"), without=["meta"])
    names = [(field["name"], field["type"]) for field in row["fields"]]
    assert names[1][1]["fields"][0]["type"] == {"type": "enum", "name": "orders.shop.Op", "symbols": ["c", "u", "d"]}
    assert names[2] == ("op", "orders.shop.Op")
