"""The tables elsewhere that are merged into in one transaction: what their writers keep to is tested over this table."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import deltalake
import duckdb
import pyarrow as pa

from beam_joins.batch import ChangeBatch
from beam_joins.coders.block import write_block
from beam_joins.io import WriteDelta, WriteDuckLake
from beam_joins.pipelines.formats.types.target_types import parquet_type
from beam_joins.pipelines.io.sinks.merge_once import MergeOfRun, MergeOnce
from beam_joins.pipelines.io.write_duck_lake import load
from beam_joins.transforms.connect import PlainRows
from beam_joins.transforms.engine.table_rows import newest
from beam_joins.transforms.engine.table_type import TableType
from tests.pipelines.tables import Row


class Merged(NamedTuple):
    """A table in the working directory, by its path in sentences."""

    path: str
    writer: Callable[..., MergeOnce]
    rows: Callable[[], list[Row]]
    version: Callable[[], int]
    """How many merges the table has had."""
    make: Callable[[pa.Schema], None]
    """Creates a table that is there before."""

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
MERGED = {"delta": DELTA, "ducklake": DUCKLAKE}
