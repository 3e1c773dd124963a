"""Two streams and a table: which views were clicked within ten seconds, and what the price was when a view
was made.

It prints, in any order:

    ('ann', 'home clicked after 4 s')
    ('ann', 'tea not clicked')
    ('bo', 'home not clicked')
    price ('tea', 'ann saw 4.0')
    price ('tea', 'bo saw 5.0')
"""

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

from beam_joins import StreamTableJoin, TableFromChangelog, WindowedStreamJoin

VIEWS = [(0, "ann", "home"), (30, "ann", "tea"), (2, "bo", "home")]
CLICKS = [(4, "ann", "home"), (55, "ann", "tea")]
LOOKS = [(10, "tea", "ann"), (50, "tea", "bo")]
PRICES = [{"sku": "tea", "price": 4.0, "at": 0}, {"sku": "tea", "price": 5.0, "at": 40_000_000}]


def stream(pipeline, name, events):
    timed = pipeline | f"create {name}" >> beam.Create([TimestampedValue((who, (what, at)), at) for at, who, what in events])
    return timed | name >> beam.Map(lambda pair: pair).with_output_types(tuple[str, tuple[str, int]])


def clicked(view, click):
    page, seen = view
    return f"{page} not clicked" if click is None else f"{page} clicked after {click[1] - seen} s"


with beam.Pipeline() as pipeline:
    views, clicks, looks = (
        stream(pipeline, name, events) for name, events in (("views", VIEWS), ("clicks", CLICKS), ("looks", LOOKS))
    )
    after = (views, clicks) | WindowedStreamJoin(clicked, how="left", before=0, after=10, grace=5)
    _ = after | "clicked" >> beam.Map(print)

    prices = pipeline | beam.Create(PRICES) | TableFromChangelog(key="sku", timestamp_by="at")
    seen = (looks, prices) | StreamTableJoin(lambda look, row: f"{look[0]} saw {row['price']}")
    _ = seen | "seen" >> beam.Map(lambda pair: print("price", pair))
