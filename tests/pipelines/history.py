"""A history of orders and customers cut into files that arrive one after the other, in any format."""

import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from beam_joins.elements.iso_times import EPOCH
from beam_joins.pipelines.commands.sample.sample_files import CUSTOMER_SCHEMA, ORDER_SCHEMA, SampleFiles
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import read_avro, read_lines

FORMATS = ("jsonl", "parquet", "arrow", "csv", "avro")
SCHEMAS = {"orders": ORDER_SCHEMA, "customers": CUSTOMER_SCHEMA}


def cut(files: SampleFiles, pieces: int) -> list[dict[str, list[Row]]]:
    """The records in pieces, each behind the positions of the one before; their order in the files stays."""
    rows = {"orders": read_lines(files.orders), "customers": read_lines(files.customers)}
    positions = sorted({row["lsn"] for each in rows.values() for row in each})
    edges = [positions[len(positions) * n // pieces] for n in range(1, pieces)]
    return [
        {side: [row for row in each if sum(edge <= row["lsn"] for edge in edges) == n] for side, each in rows.items()}
        for n in range(pieces)
    ]


def arrive(number: int, piece: dict[str, list[Row]], format_: str = "jsonl") -> None:
    """Write a piece as ``in/orders/<number>.<format>`` and the same of the customers, in one moment; a file
    without records is not written.
    """
    written = []
    for side, rows in piece.items():
        path = Path("in", side, f"{number:03d}.{format_}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if rows:
            written.append((path.with_name(f".{path.name}"), path))
            _write(written[-1][0], rows, format_, side)
    for part, path in written:
        part.rename(path)


def _write(path: Path, rows: list[Row], format_: str, side: str) -> None:
    if format_ == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif format_ == "arrow":
        feather.write_feather(pa.Table.from_pylist(rows), path)
    elif format_ == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        with path.open("wb") as file:
            fastavro.writer(file, SCHEMAS[side], rows)


def records(path: Path) -> list[Row]:
    """The records of a result, times as whole numbers."""
    return [as_stored(row) for row in read_avro(path)] if path.suffix == ".avro" else read_lines(path)


def as_stored(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_stored(each) for name, each in value.items()}
    return (value - EPOCH) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value


def changes(pattern: str = "out/changes/changes-*.jsonl") -> list[Row]:
    """The changes of all runs, one after the other."""
    return [record for path in sorted(Path().glob(pattern)) for record in records(path)]


def tree(folder: str = "out") -> dict[str, bytes]:
    """All files of a folder, hidden ones too, with what is in them."""
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


IN_RUNS: list[Any] = ["--orders", "in/orders", "--customers", "in/customers", "--state-dir", "state"]
BOTH: list[Any] = [*IN_RUNS, "--changes", "out/changes", "--latest", "out/latest.jsonl"]
