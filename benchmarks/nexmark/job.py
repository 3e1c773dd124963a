"""Keeps a query of Nexmark over events in files: ``python -m benchmarks.nexmark.job --query q3 --data DIR --out DIR``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

from beam_joins import LatestTable, TableFromChangelog, View
from beam_joins.io import ReadParquet, WriteParquet
from beam_joins.views.sql_query import tables_of
from benchmarks.contestants.beam_pipeline import add_runner, pipeline
from benchmarks.nexmark.queries import QUERIES


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the final rows are in Parquet files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    add_runner(parser)
    args = parser.parse_args(argv)
    with pipeline(args.runner) as made:
        tables = {}
        for name in tables_of(QUERIES[args.query]):
            rows = made | f"read {name}" >> ReadParquet(str(args.data / name / "*.parquet"))
            tables[name] = rows | name >> TableFromChangelog(key="id", sequence_by="seq", except_columns=["seq"])
        view: Any = tables | args.query >> View(QUERIES[args.query])
        rows = view | LatestTable() | beam.Map(_values).with_output_types(pa.RecordBatch)
        _ = rows | "write" >> WriteParquet(str(args.out / "part"))
    return 0


def _values(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(rows.column("value"))


if __name__ == "__main__":
    raise SystemExit(main())
