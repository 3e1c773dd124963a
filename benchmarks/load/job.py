"""The job under load: orders with their customers, from Parquet to Parquet, of whatever columns the files
have; prints what the engine has counted.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ChangeBatch, ForeignKeyJoin, TableFromChangelog, runner
from beam_joins.io import ReadParquet, WriteParquet
from beam_joins.pipelines.commands.engine_figures import EngineFigures

RUNNERS: Final = ("DirectRunner", "SparkRunner")
ABOUT: Final = ("seq", "ts", "deleted")
"""The columns that say of a change which one it is; ``id`` is the key of both tables, ``customer`` what an
order refers to.
"""
STEPS: Final = ("orders", "customers", "join")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; options that are not its own are Beam's. Returns the exit code."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.load.job", description=__doc__)
    made.add_argument("--data", required=True, type=Path, metavar="DIR", help="a folder with the folders orders and customers")
    made.add_argument("--out", required=True, type=Path, metavar="DIR", help="a folder for the changes")
    made.add_argument("--runner", choices=RUNNERS, default=RUNNERS[0], help="where it runs (default: %(default)s)")
    asked, rest = made.parse_known_args(argv)
    logging.getLogger().setLevel(logging.ERROR)
    patterns = [str(asked.data.resolve() / name / "*.parquet") for name in STEPS[:2]]
    if asked.runner == "SparkRunner":
        with runner(PipelineOptions(["--runner=SparkRunner", *rest])) as ready:
            figures = _run(beam.Pipeline(options=ready), patterns, asked.out)
    else:
        # what Beam calls DirectRunner is one of three engines, whichever it finds; this is the one for
        # bounded input
        figures = _run(beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(rest)), patterns, asked.out)
    print(json.dumps(figures))
    return 0


def _run(pipeline: beam.Pipeline, patterns: Sequence[str], out: Path) -> dict[str, Any]:
    sources = [ReadParquet(pattern) for pattern in patterns]
    orders, customers = (
        pipeline
        | f"read {name}" >> source
        | name
        >> TableFromChangelog(
            key="id", timestamp_by="ts", sequence_by="seq", apply_as_deletes="deleted", except_columns=["id", *ABOUT]
        )
        for name, source in zip(STEPS, sources, strict=False)
    )
    of_orders, of_customers = ([name for name in source.schema.names if name not in ("id", *ABOUT)] for source in sources)
    columns = {**{name: f"left.{name}" for name in of_orders}, **{name: f"right.{name}" for name in of_customers}}
    joined = (orders, customers) | STEPS[2] >> ForeignKeyJoin(columns, foreign_key="customer")
    _ = joined | "flat" >> beam.Map(_flat(list(columns))) | "write" >> WriteParquet(str(out.resolve() / "part"))
    result = pipeline.run()
    result.wait_until_finish()
    engine = EngineFigures.of(result, STEPS)
    assert engine is not None
    return {**engine._asdict(), "steps": {name: step._asdict() for name, step in engine.steps.items()}}


def _flat(names: list[str]) -> Callable[[ChangeBatch], pa.Table]:
    """Changes in the columns of the changelog that they are, so that SQL can compare them."""

    def flat(batch: ChangeBatch) -> pa.Table:
        values = dict(zip([field.name for field in batch.new.type], batch.new.flatten(), strict=True))
        about = {"id": batch.key, "position": batch.position, "deleted": pc.is_null(batch.new)}
        return pa.table({**about, **{name: values[name] for name in names}})

    return flat


if __name__ == "__main__":
    sys.exit(main())
