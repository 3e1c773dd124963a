"""Tables of typed columns for the tests of writers."""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ChangeBatch, LatestTable, TableFromChangelog
from beam_joins.io import WriteParquet
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, physical_of, table_type

Row = dict[str, Any]
CHANGE = [("lsn", pa.int64()), ("op", pa.string())]
SMALL = pa.schema([("id", pa.int64()), ("name", pa.string()), *CHANGE])
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("amount", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("words", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.int8()), ("price", pa.decimal128(5, 1)), ("since", pa.timestamp("us"))])),
        ("double", pa.float64()),
        ("single", pa.float32()),
        ("bytes", pa.binary()),
        ("tiny", pa.int8()),
        ("yes", pa.bool_()),
        *CHANGE,
    ]
)
_FULL: Row = {
    "amount": Decimal("-12345678.90"),
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(2020, 1, 1, 1, 2, 3, 456789),
    "zoned": dt.datetime(1950, 1, 1, tzinfo=dt.UTC),
    "words": ['a"', None, "ß"],
    "inner": {"x": 1, "price": Decimal("1.5"), "since": dt.datetime(1969, 12, 31, 23)},
    "double": 0.1,
    "single": 0.1,
    "bytes": b"\x00\xff",
    "tiny": -3,
    "yes": True,
}


def small(id: int, lsn: int, name: str | None) -> Row:
    return {"id": id, "lsn": lsn, "op": "d" if name is None else "u", "name": name}


def wide(id: int, lsn: int, op: str = "u", **columns: Any) -> Row:
    return {"id": id, "lsn": lsn, "op": op, **_FULL, **columns}


WIDE_ROWS = [
    wide(1, 10),
    wide(2, 11, **dict.fromkeys(_FULL)),
    wide(3, 12, double=-math.inf, amount=Decimal("0.01")),
    wide(1, 20, double=math.nan, words=None, inner=None),
    wide(2, 30, "d"),
    wide(3, 35, "d"),
    wide(2, 40, words=[], inner={"x": None, "price": None, "since": None}),
]


def table_of(pipeline: beam.Pipeline, rows: Sequence[Row], schema: pa.Schema, **options: Any) -> Any:
    log = pipeline | "given" >> beam.Create([pa.Table.from_pylist(list(rows), schema=schema)]).with_output_types(pa.Table)
    inputs: Row = {"key": "id", "except_columns": ["lsn", "op"], **options}
    return log | "table" >> TableFromChangelog(sequence_by="lsn", timestamp_by="lsn", apply_as_deletes={"op": ["d"]}, **inputs)


def anew(table: Any, position: int | None = 7) -> Any:
    """The same table, which begins anew at a position."""
    return as_table(table, table_type(table)._replace(anew=position), physical_of(table))


def changes_anew(
    pipeline: beam.Pipeline, changes: Sequence[tuple[int, str | None, int]], position: int | None = 7, *, batches: int = 1
) -> Any:
    """A table of keys and names, with a change for each key, name and position, that begins anew at a position."""
    names, made = pa.struct([("name", pa.string())]), []
    for some in (changes[n::batches] for n in range(batches)):
        key, name, at = zip(*some, strict=True) if some else ([], [], [])
        before = [
            some.index(last[-1]) if (last := [each for each in some[:n] if each[0] == key[n]]) else None for n in range(len(some))
        ]
        made.append(
            ChangeBatch(
                key=pa.array(key, pa.int64()),
                new=pa.array([None if each is None else {"name": each} for each in name], names),
                before=pa.array(before, pa.int64()),
                timestamp=pa.array(at, pa.int64()),
                position=pa.array(at, pa.int64()),
            )
        )
    table = pipeline | "anew" >> beam.Create(made, reshuffle=batches > 1).with_output_types(ChangeBatch)
    return anew(as_table(table, TableType(pa.int64(), names, "sequence")), position)


def run(
    rows: Sequence[Row], schema: pa.Schema, write: Callable[[Any], Any], *, state: Path | None = None, **options: Any
) -> list[Row]:
    """Apply ``write`` to the table of rows; gives what LatestTable has, by id."""
    latest = Path("latest").absolute()
    with beam.Pipeline(options=PipelineOptions([] if state is None else [f"--beam_joins_state={state}"])) as pipeline:
        table = table_of(pipeline, rows, schema, **options)
        write(table)
        _ = table | LatestTable() | WriteParquet(str(latest))
    actual: list[Row] = []
    for path in latest.parent.glob("latest-*.parquet"):
        actual += [row["value"] for row in pq.read_table(path).to_pylist()]
    return sorted(actual, key=lambda row: row["id"])


def shown(rows: Sequence[Row]) -> list[str]:
    """Rows as text, as NaN is not equal to itself."""
    return [repr(sorted(row.items())) for row in sorted(rows, key=lambda row: row["id"])]
