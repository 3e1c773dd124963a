"""Answers a query of TPC-H from whole tables, with DuckDB or PySpark: ``python -m benchmarks.tpch.recomputed --engine duckdb ...``."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beam_joins.pipelines.runners.java import find_java
from benchmarks.tpch.queries import QUERIES, tables_of

ENGINES: Final = ("duckdb", "pyspark")


def by_duckdb(query: int, data: Path, out: Path) -> None:
    """Write the answer as a Parquet file."""
    from benchmarks.contestants.duckdb_sql import connect  # noqa: PLC0415 # an engine's start is its own

    out.mkdir(parents=True, exist_ok=True)
    with connect() as database:
        for table in tables_of(query):
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM '{data}/{table}/*.parquet'")
        database.execute(f"COPY ({QUERIES[query]}) TO '{out}/part.parquet' (FORMAT parquet)")


def by_pyspark(query: int, data: Path, out: Path, compilers: str, partitions: int) -> None:
    """Write the answer as a folder of Parquet files."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 # an engine's start is its own

    from benchmarks.contestants.pyspark_sql import configuration  # noqa: PLC0415

    os.environ["JAVA_HOME"] = str(find_java().resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    asked = configuration({"compilers": compilers, "partitions": str(partitions)})
    session = SparkSession.builder.master("local[2]").config(map=asked).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table in tables_of(query):
        session.read.parquet(f"{data}/{table}").createOrReplaceTempView(table)
    session.sql(QUERIES[query]).write.mode("overwrite").parquet(str(out))
    session.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--query", type=int, choices=QUERIES, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--compilers", default="first", help="of PySpark's JVM: first or both (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=2, help="of PySpark's shuffles (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.engine == "duckdb":
        by_duckdb(args.query, args.data, args.out)
    else:
        by_pyspark(args.query, args.data, args.out, args.compilers, args.partitions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
