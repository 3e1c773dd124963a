"""One run of the join and the aggregate by this project's transforms: ``python -m benchmarks.proofs.amplification_job``."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow.compute as pc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ForeignKeyJoin, SumTable, TableFromChangelog
from beam_joins.io import ReadParquet
from benchmarks.contestants.beam_pipeline import Keep


def build(pipeline: beam.Pipeline, data: Path, out: Path) -> None:
    """The sums of all groups, each row's number times the rate that it refers to, from files to files."""
    rows, rates = (
        pipeline
        | f"read {name}" >> ReadParquet(str(data / name / "*.parquet"))
        | name >> TableFromChangelog(key="id", sequence_by="seq", timestamp_by="seq", except_columns=["id", "seq"])
        for name in ("rows", "rates")
    )
    product = pc.multiply(pc.field("left", "number"), pc.field("right", "rate"))
    joined = (rows, rates) | "join" >> ForeignKeyJoin({"part": "left.part", "number": product}, foreign_key="rate_id", broadcast=False)
    sums = joined | "sums" >> SumTable(group_by="part", of="number")
    out.mkdir(parents=True, exist_ok=True)
    _ = sums | "keep" >> beam.ParDo(Keep(out))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; options that are not its are Beam's."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.proofs.amplification_job", description="One run of the join.")
    made.add_argument("--data", type=Path, required=True, metavar="DIR", help="a directory with rows and rates in Parquet")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the changes of the sums are written")
    asked, options = made.parse_known_args(argv)
    logging.getLogger().setLevel(logging.ERROR)
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(options)) as pipeline:
        build(pipeline, asked.data, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
