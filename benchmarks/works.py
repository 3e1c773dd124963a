"""The works: what each contestant computes, from which tables, into which columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["uniform", "zipf", "tables", "four", "many", "many-hot", "streams", "wide", "wide-large", "short", "shop"]
"""Which input: see :mod:`benchmarks.data.changes`."""
Format = Literal["parquet", "json"]
"""Of the files that are read, and of those that are written."""
SUFFIXES: Final[dict[Format, str]] = {"parquet": ".parquet", "json": ".jsonl"}

BASE_MICROSECONDS: Final = 1_700_000_000_000_000
"""The time of position 0, in microseconds since the epoch."""
STREAM_MICROSECONDS: Final = 100_000_000_000
"""The span of the streams' times, in microseconds (100,000 s)."""
WINDOW_MICROSECONDS: Final = 3_000_000_000
"""A view and a click match when their times differ by at most this, in microseconds (3,000 s)."""

ORDER: Final = {"amount": "bigint", "quantity": "bigint", "status": "string", "city": "string", "note": "string"}
"""The columns of a wide order beside its keys and those about the change, with their SQL types."""
CUSTOMER: Final = {"name": "string", "segment": "string"}
"""The same of a customer."""

_CHANGELOG: Final = {"id": "bigint", "position": "bigint", "deleted": "boolean"}
SHOP: Final = {
    "orders": {"order_id": "string", "customer_id": "string", **ORDER, "updated_at": "bigint"},
    "customers": {"customer_id": "string", **CUSTOMER, "updated_at": "bigint"},
}
"""The values of the wide tables, keys and times among them."""
RAW: Final = {table: {**columns, "lsn": "bigint", "op": "string"} for table, columns in SHOP.items()}
"""The columns of the files of wide tables, with their SQL types; ``op`` is ``u`` or ``d``."""


def struct(fields: Mapping[str, str]) -> str:
    """The SQL type of a row with these fields.

    >>> struct({"a": "bigint", "b": "string"})
    'struct(a bigint, b string)'
    """
    return f"struct({', '.join(f'{name} {type_}' for name, type_ in fields.items())})"


_ENRICHED: Final = {**SHOP["orders"], "customer": struct(SHOP["customers"])}
_CHANGES: Final = {
    "key": "string",
    "op": "string",
    "old": struct(_ENRICHED),
    "new": struct(_ENRICHED),
    "timestamp": "bigint",
    "position": "bigint",
}

TABLES: Final[dict[Kind, tuple[str, ...]]] = {
    **dict.fromkeys(("tables", "many", "many-hot"), ("left", "right")),
    "four": ("a", "b", "c", "d"),
    "streams": ("views", "clicks"),
    **dict.fromkeys(("uniform", "zipf", "wide", "wide-large", "short", "shop"), ("orders", "customers")),
}
"""The names of the tables."""


@dataclass(frozen=True)
class Work:
    """One join to compute. ``name`` is what ``--work`` takes.

    ``results`` are the columns of each result, with their SQL types, by the folder that it is written to; the
    folder of an only result is "".
    """

    name: str
    meaning: str
    kind: Kind
    results: Mapping[str, Mapping[str, str]]
    reads: Format = "parquet"
    writes: Format = "parquet"

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return TABLES[self.kind]

    @property
    def wide(self) -> bool:
        """Whether its tables are those of :data:`RAW`."""
        return self.kind in ("wide", "wide-large", "short", "shop")

    @property
    def by_place(self) -> bool:
        """Whether rows are joined by their places, which are no keys."""
        return self.kind in ("many", "many-hot")

    @property
    def small_right(self) -> bool:
        """Whether the right table is one to broadcast."""
        return self.kind in ("uniform", "zipf", "wide", "short", "shop")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the only result."""
        (columns,) = self.results.values()
        return tuple(columns)


def _foreign_key(name: str, kind: Kind, size: str, columns: Mapping[str, str]) -> Work:
    return Work(name, f"foreign-key join, whole changelog, {size}", kind, {"": columns})


_NAMED: Final = {**_CHANGELOG, "amount": "bigint", "name": "string"}
_PAIRS: Final = {"left_id": "bigint", "right_id": "bigint", "position": "bigint", "deleted": "boolean", "a": "bigint", "b": "bigint"}
_WIDE: Final = {"order_id": "string", "position": "bigint", "deleted": "boolean", **ORDER, **CUSTOMER}
_BOTH: Final = {"changes": _CHANGES, "latest": _ENRICHED}

WORKS: Final = {
    work.name: work
    for work in (
        _foreign_key("fk-uniform", "uniform", "customers evenly referred to", _NAMED),
        _foreign_key("fk-zipf", "zipf", "few customers with most orders", _NAMED),
        Work(
            "fk-final",
            "foreign-key join, final table only",
            "uniform",
            {"": {"id": "bigint", "amount": "bigint", "name": "string"}},
        ),
        Work(
            "tables",
            "outer join of two tables on their key, whole changelog",
            "tables",
            {"": {**_CHANGELOG, "a": "bigint", "b": "bigint"}},
        ),
        Work(
            "tables-four",
            "outer join of four tables on their key, whole changelog",
            "four",
            {"": {**_CHANGELOG, **dict.fromkeys(TABLES["four"], "bigint")}},
        ),
        Work(
            "many-few", "inner join by columns that are no keys, one row a value on each side, whole changelog", "many", {"": _PAIRS}
        ),
        Work("many-hot", "the same, ten rows a value", "many-hot", {"": _PAIRS}),
        Work(
            "streams",
            "inner join of two streams by key and time",
            "streams",
            {"": {"key": "bigint", "view": "bigint", "click": "bigint", "ts": "bigint"}},
        ),
        Work(
            "changelog",
            "old and new values of a table's changes",
            "tables",
            {"": {"id": "bigint", "position": "bigint", "old": "bigint", "new": "bigint"}},
        ),
        _foreign_key("fk-records", "uniform", "the joiner a Python function of one record", {**_CHANGELOG, "label": "string"}),
        _foreign_key("fk-wide", "wide", "text keys, ten columns, one of 200 bytes", _WIDE),
        _foreign_key("fk-wide-large", "wide-large", "text keys, ten columns, one of 200 bytes, both tables large", _WIDE),
        _foreign_key("fk-short", "short", "text keys, ten short columns, orders that hardly change, few customers", _WIDE),
        Work("orders-json", "the orders command, JSON lines to whole changelog and final table", "shop", _BOTH, "json", "json"),
        Work("orders-latest", "the orders command, JSON lines to final table", "shop", {"latest": _ENRICHED}, "json", "json"),
        Work("orders-parquet", "the orders command, Parquet to the same as JSON lines", "shop", _BOTH, writes="json"),
    )
}
"""All works by name. ``changelog`` uses the left table only."""
