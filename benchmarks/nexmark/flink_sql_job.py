"""A query of Nexmark as a streaming job of Flink SQL over events in files; it runs in Flink's environment, so it imports nothing of
the project but its queries and settings.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.contestants.flink_sql import configuration
from benchmarks.nexmark.queries import QUERIES

_MINI_BATCHES: Final = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}
_TYPES: Final = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING"}
_FILES: Final = "('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"


def compute(query: str, data: Path, out: Path, *, mini_batches: bool) -> None:
    """Write every change of the result, as Debezium's JSON."""
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for option, value in {**configuration({}), **(_MINI_BATCHES if mini_batches else {})}.items():
        made.get_config().set(option, value)
    made.get_config().set("pipeline.jars", os.environ["FLINK_JARS"])
    for table in sorted(path.name for path in data.iterdir()):
        columns = ", ".join(f"`{each.name}` {_TYPES[each.type]}" for each in pq.read_schema(next((data / table).iterdir())))
        made.execute_sql(
            f"CREATE TEMPORARY TABLE {table} ({columns}) WITH {_FILES.format(path=data.resolve() / table, format='parquet')}"
        )
    made.execute_sql(f"CREATE TEMPORARY VIEW answer AS {QUERIES[query]}")
    columns = ", ".join(f"`{name}` {type_}" for name, type_, *_ in made.execute_sql("DESCRIBE answer").collect())
    made.execute_sql(f"CREATE TEMPORARY TABLE kept ({columns}) WITH {_FILES.format(path=out.resolve(), format='debezium-json')}")
    made.execute_sql("INSERT INTO kept SELECT * FROM answer").wait()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mini-batches", action="store_true", help="collect changes of a second before they are applied")
    args = parser.parse_args(argv)
    compute(args.query, args.data, args.out, mini_batches=args.mini_batches)
    return 0


if __name__ == "__main__":
    sys.exit(main())
