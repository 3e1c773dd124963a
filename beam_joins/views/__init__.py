"""Views: queries over tables as trees of data, which :class:`~beam_joins.View` keeps as transforms.

>>> import pyarrow as pa
>>> import pyarrow.compute as pc
>>> from beam_joins import views
>>> orders = views.table("orders", pa.schema({"id": pa.int64(), "customer": pa.int64(), "amount": pa.int64()}), key="id")
>>> customers = views.table("customers", pa.schema({"id": pa.int64(), "city": pa.string()}), key="id")
>>> large = orders.filter(pc.field("amount") > 10)
>>> by_city = large.join(customers, left_on="customer", right_on="id").aggregate({"total": "sum(amount)"}, group_by="city")
>>> print(by_city)
aggregate total = sum('amount') by city
  inner join on customer = id
    filter (amount > 10)
      table orders: id, customer, amount
    table customers: id, city
"""

from beam_joins.views.relations import Relation, table
from beam_joins.views.sql_query import sql

__all__ = ["Relation", "sql", "table"]
