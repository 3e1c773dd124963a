"""The tables elsewhere that are merged into in one transaction: what their writers keep to is tested over this table."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import deltalake
import duckdb
import pyarrow as pa
from google.api_core.exceptions import NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from beam_joins.coders.block import write_block
from beam_joins.io import WriteBigQuery, WriteDelta, WriteDuckLake
from beam_joins.pipelines.formats.types.target_types import parquet_type, target_type
from beam_joins.pipelines.results.merge_once import MergeOfRun, MergeOnce
from beam_joins.pipelines.systems.write_duck_lake import load
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.tables import PlainRows
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.table_rows import newest
from tests.pipelines.tables import WIDE, WIDE_ROWS, Row


class Merged(NamedTuple):
    """A table in the working directory, by its path in sentences."""

    path: str
    writer: Callable[..., MergeOnce]
    rows: Callable[[], list[Row]]
    version: Callable[[], int]
    """How many merges the table has had."""
    make: Callable[[pa.Schema], None]
    """Creates a table that is there before."""
    wide: Sequence[Row] = WIDE_ROWS
    """Rows of all types, whose values it has."""
    fixture: str = "own_directory"

    def merge_of(
        self, rows: Sequence[tuple[int, str | None]], application: str = "tests", run: int = 1
    ) -> tuple[MergeOfRun, list[bytes]]:
        """A merge into the table, and the parts of its rows."""
        reference = TableType(pa.int64(), pa.struct([("name", pa.string())]))
        plain = PlainRows("Test", reference, "id", stored=parquet_type)
        merge = MergeOfRun(self.writer().into(plain), plain, application, run)
        batch = ChangeBatch(
            key=pa.array([key for key, _ in rows], pa.int64()),
            new=pa.array([None if name is None else {"name": name} for _, name in rows], reference.value),
            before=pa.nulls(len(rows), pa.int64()),
            timestamp=pa.array(range(len(rows))),
            position=pa.array(range(len(rows))),
        )
        return merge, [merge.part([write_block(newest(batch), "rows")]), b""]


def _delta_rows() -> list[Row]:
    return deltalake.DeltaTable("delta").to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


def _make_delta(schema: pa.Schema) -> None:
    deltalake.DeltaTable.create("delta", schema)


DELTA = Merged(
    "delta",
    lambda **options: WriteDelta("delta", **options),
    _delta_rows,
    lambda: int(deltalake.DeltaTable("delta").version()),
    _make_delta,
)


def lake() -> duckdb.DuckDBPyConnection:
    """A connection to the lake in the working directory."""
    connection = duckdb.connect()
    load(connection)
    connection.execute("ATTACH 'ducklake:lake.ducklake' AS lake; SET TimeZone = 'UTC'")
    return connection


def _rows_of_lake() -> list[Row]:
    with lake() as connection:
        return connection.sql("FROM lake.prices").to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def _merges_of_lake() -> int:
    with lake() as connection:
        changes = connection.sql("SELECT changes FROM lake.snapshots()").fetchall()
    return sum({"tables_created", "schemas_created"}.isdisjoint(each) for (each,) in changes)


def _make_in_lake(schema: pa.Schema) -> None:
    with lake() as connection:
        connection.register("made", schema.empty_table())
        connection.execute("CREATE TABLE lake.prices AS FROM made")


DUCKLAKE = Merged(
    "lake.ducklake, table prices",
    lambda **options: WriteDuckLake("lake.ducklake", "prices", **options),
    _rows_of_lake,
    _merges_of_lake,
    _make_in_lake,
)
PRICES = "shop.sales.prices"


def big_query() -> bigquery.Client:
    """A client of the server that the environment names."""
    return bigquery.Client("shop", AnonymousCredentials())  # type: ignore[no-untyped-call]


def _rows_in_big_query() -> list[Row]:
    with big_query() as client:
        rows = [dict(row) for row in client.list_rows(PRICES)]
    table = pa.Table.from_pylist(rows)
    types = {field.name: field.type for field in [*table.schema, *WIDE]}
    return table.cast(pa.schema([(name, types[name]) for name in table.schema.names])).to_pylist()  # type: ignore[no-any-return]


def _merges_in_big_query() -> int:
    with big_query() as client:
        try:
            return max((row["merges"] for row in client.list_rows(f"{PRICES}_beam_joins_runs")), default=0)
        except NotFound:
            return 0


def _make_in_big_query(schema: pa.Schema) -> None:
    fields = target_type("bigquery", "", pa.struct(list(schema)))["fields"]
    with big_query() as client:
        client.create_table(bigquery.Table(PRICES, [bigquery.SchemaField.from_api_repr(field) for field in fields]))


BIGQUERY = Merged(
    f"bigquery:{PRICES}",
    lambda **options: WriteBigQuery(PRICES, **options),
    _rows_in_big_query,
    _merges_in_big_query,
    _make_in_big_query,
    [{**row, "words": [word for word in row["words"] or () if word is not None]} for row in WIDE_ROWS],
    "big_query",
)
EMULATED = BIGQUERY._replace(fixture="emulated_big_query")
MERGED = {"delta": DELTA, "ducklake": DUCKLAKE, "bigquery": BIGQUERY}
