"""Orders with their customers and the customers' regions, the orders whose customer is not known, and what
each region has ordered.

Nothing is left in the North when Ann has moved.

It prints, in any order:

    nobody's (3, 8)
    region ('South', 17)
    region ('North', 0)
    order (2, '5 of Bo in South')
    order (1, '12 of Ann in South')
"""

import apache_beam as beam

from beam_joins import ForeignKeyJoin, LatestTable, SumTable, TableFromChangelog

ORDERS = [
    {"id": 1, "customer": 7, "amount": 12, "lsn": 1},
    {"id": 2, "customer": 8, "amount": 5, "lsn": 3},
    {"id": 3, "customer": 9, "amount": 8, "lsn": 4},
]
CUSTOMERS = [
    {"id": 7, "name": "Ann", "region": "n", "lsn": 2},
    {"id": 8, "name": "Bo", "region": "s", "lsn": 5},
    {"id": 7, "name": "Ann", "region": "s", "lsn": 6},
]
REGIONS = [{"id": "n", "name": "North", "lsn": 0}, {"id": "s", "name": "South", "lsn": 0}]


def enriched(order, customer):
    return {"amount": order["amount"], "name": customer["name"], "region": customer["region"]}


def placed(order, region):
    return {**order, "region": region["name"]}


with beam.Pipeline() as pipeline:
    orders, customers, regions = (
        pipeline | f"read {name}" >> beam.Create(rows) | name >> TableFromChangelog(key="id", sequence_by="lsn")
        for name, rows in (("orders", ORDERS), ("customers", CUSTOMERS), ("regions", REGIONS))
    )
    of_customers = (orders, customers) | "with customers" >> ForeignKeyJoin(enriched, foreign_key="customer")
    of_regions = (of_customers, regions) | "with regions" >> ForeignKeyJoin(placed, foreign_key="region")
    nobodys = (orders, customers) | "of nobody" >> ForeignKeyJoin(lambda order: order["amount"], foreign_key="customer", how="anti")
    sums = of_regions | "sums" >> SumTable(group_by="region", of="amount")

    latest = of_regions | "latest orders" >> LatestTable()
    _ = latest | "print orders" >> beam.MapTuple(
        lambda key, row: print("order", (key, f"{row['amount']} of {row['name']} in {row['region']}"))
    )
    _ = nobodys | "latest of nobody" >> LatestTable() | "print nobody" >> beam.Map(lambda row: print("nobody's", row))
    _ = sums | "latest sums" >> LatestTable() | "print regions" >> beam.Map(lambda row: print("region", row))
