"""What the contestants that use plain Beam have in common: runner, Parquet in, Parquet out."""

import argparse
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquetBatched, WriteToParquetBatched
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ChangeBatch, LocalRunner, runner
from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import WORKS

RUNNERS: Final = ("SparkRunner", "LocalRunner")
ENVIRONMENTS: Final = ("pool", "loopback")
"""What runs Python on Spark: the worker processes that the project starts, or threads of the process that
starts the job.
"""
SPARK: Final = ("--runner=SparkRunner", "--spark_master_url=local[2]", "--driver_memory=2g")
_TYPES: Final = {"bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}


class Keep(beam.DoFn):
    """Writes each batch of changes as a Parquet file, and gives the number of its changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, batch: ChangeBatch) -> Iterator[int]:
        """Write a file, which appears whole."""
        part = Path(self._folder, f"{uuid4().hex}.part")
        pq.write_table(pa.Table.from_batches([batch.to_arrow()]), part)
        part.rename(part.with_suffix(".parquet"))
        yield len(batch)


def add_runner(parser: argparse.ArgumentParser) -> None:
    """Let a contestant be told where to run."""
    parser.add_argument("--runner", choices=RUNNERS, default=RUNNERS[-1], help="where the pipeline runs (default: %(default)s)")


def contestant(name: str, works: Sequence[str], compute: Callable[[Task, str], None]) -> int:
    """The command line of one that computes a task on a runner; returns the exit code."""
    options = parser(name, works)
    add_runner(options)
    asked = options.parse_args()
    compute(task(asked), asked.runner)
    return 0


@contextlib.contextmanager
def pipeline(runner_name: str, *, environment: str = "pool", options: Sequence[str] = ()) -> Iterator[beam.Pipeline]:
    """A pipeline on Spark with two cores, or on all cores of this machine; it runs when the block ends."""
    logging.getLogger().setLevel(logging.ERROR)
    if runner_name == "LocalRunner":
        with beam.Pipeline(LocalRunner(), options=PipelineOptions(list(options))) as made:
            yield made
        return
    workers = ["--environment_type=LOOPBACK"] if environment == "loopback" else []
    asked = PipelineOptions([*SPARK, *workers, *options])
    with runner(asked) as ready, beam.Pipeline(options=ready) as made:
        yield made


def read(made: beam.Pipeline, task: Task, table: str) -> Any:
    """The rows of a table, as dicts."""
    return (
        made
        | f"read {table}" >> ReadFromParquetBatched(task.input_files(table))
        | f"rows of {table}" >> beam.FlatMap(pa.Table.to_pylist)
    )


def write(results: Any, task: Task) -> None:
    """Write dicts with the columns of the work's result, in batches: Beam's sink of single dicts would be a
    large part of what is measured.
    """
    made = schema(task.work)
    batches = (
        results
        | "in batches" >> beam.BatchElements(10_000, 10_000)
        | "columns" >> beam.Map(lambda rows: pa.Table.from_pylist(rows, made))
    )
    _ = batches | "write" >> WriteToParquetBatched(str(task.out / "part"), made, codec="snappy", file_name_suffix=".parquet")


def schema(work: str) -> pa.Schema:
    """The schema of a work's result."""
    (columns,) = WORKS[work].results.values()
    return pa.schema([(name, _TYPES[type_]) for name, type_ in columns.items()])
