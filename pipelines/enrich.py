"""Orders with their customers: the pipeline of ``python -m pipelines.orders``, for use in other pipelines too."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from apache_beam.pvalue import PCollection

from beam_joins import FilterTable, ForeignKeyJoin, TableFromChangelog
from beam_joins.copied import reads_only
from beam_joins.pipelines.changelog_files.columns import PLACE, Columns

Value = dict[str, Any]
How = Literal["inner", "left"]


class Enriched(NamedTuple):
    """The table of enriched orders, what each of the three steps dropped, and the table of orders that was joined."""

    table: PCollection[Any]
    dropped_orders: PCollection[Any]
    dropped_customers: PCollection[Any]
    dropped_joins: PCollection[Any]
    orders: PCollection[Any]


def enrich(
    orders: PCollection[Value],
    customers: PCollection[Value],
    *,
    order_columns: Columns,
    customer_columns: Columns,
    foreign_key: str = "customer_id",
    how: How = "inner",
    amount: str = "amount",
    min_amount: float | Decimal | None = None,
    customer_field: str = "customer",
) -> Enriched:
    """Each order with the customer that it refers to, under ``customer_field``; with ``how="left"`` None for one without.

    Takes the rows of two changelogs and gives a table keyed by the order. ``min_amount`` leaves out orders below it, or
    without an amount. An order that has a column ``customer_field`` of its own fails the run.
    """
    orders, dropped_orders = orders | "Orders" >> table(order_columns)
    customers, dropped_customers = customers | "Customers" >> table(customer_columns)
    if min_amount is not None:
        orders = orders | "Minimal amount" >> FilterTable(at_least(amount, min_amount))
    enriched, dropped_joins = (orders, customers) | "Enrich" >> ForeignKeyJoin(
        reads_only(joiner(customer_field)),
        foreign_key=reads_only(lambda key, order: order.get(foreign_key)),
        how=how,
    ).with_outputs()
    return Enriched(enriched, dropped_orders, dropped_customers, dropped_joins, orders)


def table(columns: Columns) -> TableFromChangelog:
    """The table of a changelog with these columns, and its dropped records."""
    return TableFromChangelog(
        key=columns.key,
        timestamp_by=columns.time_of,
        sequence_by=columns.sequence_of if columns.sequence else None,
        tie_break_by=columns.place_of,
        apply_as_deletes=columns.is_delete,
        except_columns=(*columns.about_the_change(), PLACE),
    ).with_outputs()


def joiner(customer_field: str) -> Callable[[Value, Value | None], Value]:
    """A function that puts a customer into a copy of its order, and raises ValueError if the order has such a column already.

    >>> joiner("customer")({"order_id": 1}, {"name": "Ann"})
    {'order_id': 1, 'customer': {'name': 'Ann'}}
    """

    def join(order: Value, customer: Value | None) -> Value:
        if customer_field in order:
            raise ValueError(f"the order has a column '{customer_field}' already: give customer_field= another name")
        return {**order, customer_field: customer}

    return join


def at_least(column: str, least: float | Decimal) -> Callable[[Any, Value], bool]:
    """A predicate: the row has a number in the column, and it is not below.

    A float is compared with the float next to ``least``, other numbers with ``least`` itself: 0.1 is not below 0.1 in any form.

    >>> at_least("amount", 5)("k", {"amount": 5}), at_least("amount", 5)("k", {"amount": None})
    (True, False)
    """
    exact, rounded = Decimal(str(least)), float(least)

    def predicate(key: Any, row: Value) -> bool:
        amount = row.get(column)
        return amount is not None and bool(amount >= (rounded if isinstance(amount, float) else exact))

    return reads_only(predicate)
