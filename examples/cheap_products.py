"""The products that cost less than ten, kept up to date: a product that gets dearer leaves the table, and one
that is deleted does, too.

It prints, in any order:

    Change(key='pot', old=None, new=9, timestamp=5000000, position=5)
    Change(key='pot', old=9, new=None, timestamp=6000000, position=6)
    Change(key='cup', old=None, new=7.5, timestamp=1000000, position=1)
    Change(key='cup', old=7.5, new=None, timestamp=3000000, position=3)
"""

import apache_beam as beam

from beam_joins import FilterTable, MapTable, TableFromChangelog, TableToChanges

CHANGELOG = [
    {"sku": "cup", "price": 7.5, "op": "c", "lsn": 1, "at": 1_000_000},
    {"sku": "pot", "price": 12, "op": "c", "lsn": 2, "at": 2_000_000},
    {"sku": "cup", "price": 10.5, "op": "u", "lsn": 3, "at": 3_000_000},
    {"sku": "pot", "price": 9, "op": "u", "lsn": 5, "at": 5_000_000},
    {"sku": "pot", "price": 9, "op": "d", "lsn": 6, "at": 6_000_000},
]

with beam.Pipeline() as pipeline:
    products = (
        pipeline
        | beam.Create(CHANGELOG)
        | TableFromChangelog(key="sku", sequence_by="lsn", timestamp_by="at", apply_as_deletes={"op": ["d"]})
    )
    prices = products | MapTable(lambda sku, product: product["price"])
    cheap = prices | FilterTable(lambda sku, price: price < 10)
    _ = cheap | TableToChanges() | beam.Map(print)
