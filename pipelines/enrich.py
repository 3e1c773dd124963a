"""Orders with their customers: the pipeline of ``python -m pipelines.orders``, on what its reader gives."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins import FilterTable, ForeignKeyJoin, TableFromChangelog, vectorized
from beam_joins.keys.columns import Bools
from beam_joins.pipelines.changelog_files.reading import DELETED, ENOUGH, KEY, PLACE, REFERENCE, TIME, Form, Reading
from beam_joins.pipelines.changelog_files.splicing import SPLICED
from beam_joins.sorting import valid

How = Literal["inner", "left"]
FOUND = "found"
"""The column of the result that says whether an order has a customer; the others are the rows in each form."""


class Enriched(NamedTuple):
    """The table of enriched orders, what each changelog's table dropped, and the tables of orders and of customers that were joined."""

    table: PCollection[Any]
    dropped_orders: PCollection[Any]
    dropped_customers: PCollection[Any]
    orders: PCollection[Any]
    customers: PCollection[Any]


def enrich(
    orders: PCollection[pa.RecordBatch],
    customers: PCollection[pa.RecordBatch],
    *,
    order_reading: Reading,
    customer_reading: Reading,
    how: How = "inner",
    customer_field: str = "customer",
    keeps_reference: bool = False,
) -> Enriched:
    """Each order with the customer that it refers to, under ``customer_field``; with ``how="left"`` null for one without.

    Takes the records of two changelogs as :class:`~beam_joins.pipelines.changelog_files.read_changelog.ReadChangelog` gives them, and gives a
    table keyed by the order. Orders below the ``least`` amount of their reading are left out, and those without an amount. With ``keeps_reference`` the
    result has the column of the customer's key too.
    """
    orders, dropped_orders = orders | "Orders" >> table(order_reading)
    customers, dropped_customers = customers | "Customers" >> table(customer_reading)
    if order_reading.least is not None:
        orders = orders | "Minimal amount" >> FilterTable(vectorized(lambda rows: rows[ENOUGH]))
    joiner = joiner_of(order_reading.forms, customer_field, (REFERENCE,) if keeps_reference else ())
    enriched = (orders, customers) | "Enrich" >> ForeignKeyJoin(vectorized(joiner), foreign_key=REFERENCE, how=how)
    return Enriched(enriched, dropped_orders, dropped_customers, orders, customers)


def table(reading: Reading) -> TableFromChangelog:
    """The table of a changelog that is read so, and its dropped records."""
    positions = [name for name in reading.schema.names if name.startswith("sequence_")]
    values = reading.value.names
    return TableFromChangelog(
        key=KEY,
        timestamp_by=TIME,
        sequence_by=positions or None,
        tie_break_by=PLACE,
        apply_as_deletes=DELETED,
        except_columns=[name for name in reading.schema.names if name not in values],
    ).with_outputs()


def joiner_of(
    forms: tuple[Form, ...], customer_field: str, kept: tuple[str, ...] = ()
) -> Callable[[pa.RecordBatch, pa.RecordBatch], dict[str, pa.Array]]:
    """A joiner of rows in these forms, which also keeps columns of the order.

    >>> join = joiner_of(("json lines",), "customer")
    >>> order, customer = pa.record_batch({"json lines": [b'{"id":1}']}), pa.record_batch({"json lines": [b'{"name":"Ann"}']})
    >>> join(order, customer)["json lines"][0].as_py()
    b'{"id":1,"customer":{"name":"Ann"}}'
    """

    def join(order: pa.RecordBatch, customer: pa.RecordBatch) -> dict[str, pa.Array]:
        found: dict[str, pa.Array] = {FOUND: customer[forms[0]].is_valid(), **{name: order[name] for name in kept}}
        for form in forms:
            found[form] = SPLICED[form](order[form], customer[form], customer_field)
        return found

    return join


def refers_to_none(orders: pa.Array) -> Bools:
    """Which values of the table of orders refer to no customer."""
    return ~valid(pc.struct_field(orders, REFERENCE)) if len(orders) else np.zeros(0, np.bool_)


def has_customer(enriched: pa.Array) -> Bools:
    """Which values of the table of enriched orders have a customer."""
    found: Bools = pc.struct_field(enriched, FOUND).fill_null(False).to_numpy(zero_copy_only=False)
    return found
