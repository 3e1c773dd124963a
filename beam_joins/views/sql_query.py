"""SQL queries as relations."""

import sys
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from beam_joins.extras import needs
from beam_joins.views.relations import Relation


def require_select(query: str) -> None:
    """Refuse what is no SELECT, or has a part that no view keeps. Raises ``ValueError``.

    >>> require_select("SELECT id FROM shops ORDER BY id")
    Traceback (most recent call last):
    ValueError: query: ORDER BY is not kept: a view is a table without an order, leave it out
    """
    if not isinstance(query, str) or not query.strip():
        raise ValueError(f"query={query!r}: give a SELECT")
    with needs("sql"):
        from beam_joins.views.planned.sql_plans import parsed  # noqa: PLC0415  # an extra
    try:
        parsed(query)
    except ValueError as error:
        raise ValueError(f"query: {error}") from None


class IbisTable(Protocol):
    """An expression of ibis that is a table."""

    def unbind(self) -> Any:
        """The same over tables without a database."""


def text_of_query(query: Any) -> Any:
    """The SQL of an expression of ibis; anything else as it is. Raises ``ValueError`` for an expression that ibis has no SQL for."""
    if isinstance(query, str) or type(query).__module__.partition(".")[0] != "ibis":
        return query
    try:
        return str(sys.modules["ibis"].to_sql(query, dialect="datafusion"))
    except Exception as error:  # of ibis, whose errors have no class of their own for it
        raise ValueError(f"query: {str(error).partition(chr(10))[0]}") from None


def sql(query: str | IbisTable, relations: Mapping[str, Relation]) -> Relation:
    """The relation of a SQL query, or of an expression of ibis, over relations by the names that they have in it
    (``pip install 'beam-joins[sql]'``).

    The query is planned by DataFusion, whose dialect it is in, and which evaluates its expressions. It is one SELECT with any of
    WHERE, JOIN, GROUP BY with count, sum, min, max and avg, HAVING, DISTINCT, UNION, INTERSECT, EXCEPT, EXISTS, IN and NOT IN,
    subqueries and WITH. Whole numbers that overflow are an error. Raises ``ValueError`` for a query that is not kept: it has
    an order, a window function, ``now()`` or another function whose result depends on more than its arguments, or joins rows
    without an equality of their columns.

    >>> import pyarrow as pa
    >>> from beam_joins import views
    >>> shops = views.table("shops", pa.schema({"id": pa.int64(), "city": pa.string()}), key="id")
    >>> print(views.sql("SELECT city, count(*) AS shops FROM shops WHERE id > 9 GROUP BY city", {"shops": shops}))
    select city, shops = count
      aggregate count = count() by city
        filter (id > 9)
          table shops: id, city
    """
    text = text_of_query(query)
    require_select(text)
    if not isinstance(relations, Mapping) or not all(isinstance(each, Relation) for each in relations.values()):
        raise ValueError(
            f"relations={relations!r}: give relations by their names, " + '{"orders": views.table("orders", schema, key="id")}'
        )
    with needs("sql"):
        from beam_joins.views.planned.sql_relations import relation_of  # noqa: PLC0415  # an extra
    return relation_of(text, relations)


def tables_of(query: str) -> list[str]:
    """The names of the tables that a query reads, without those of its common table expressions. Raises ``ValueError``.

    >>> tables_of("WITH paid AS (SELECT * FROM orders WHERE paid) SELECT city FROM paid JOIN customers ON by = customers.id")
    ['customers', 'orders']
    """
    require_select(query)
    with needs("sql"):
        from beam_joins.views.planned.sql_plans import tables_read  # noqa: PLC0415  # an extra
    return tables_read(query)


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a SQL type. Raises ``ValueError``.

    >>> arrow_type("DECIMAL(10, 2)"), arrow_type("TIMESTAMP WITH TIME ZONE")
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[us, tz=UTC]))
    """
    with needs("sql"):
        from beam_joins.views.planned.sql_engine import type_of  # noqa: PLC0415  # an extra
    return type_of(kind)
