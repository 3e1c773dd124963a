"""One run of the bank by this project's transforms: ``python -m benchmarks.proofs.bank_job``."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ChangeBatch, SumTable, TableFromChangelog, TableTableJoin, runner, vectorized
from beam_joins.io import ReadParquet
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.source_reads import Follow
from beam_joins.transforms.engine.construction.arrow_input import as_arrow
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from benchmarks.contestants.beam_pipeline import SPARK, Keep
from benchmarks.contestants.flink_pipeline import run_until
from benchmarks.proofs.transactions import SCHEMA, Arrivals

RUNNERS: Final = ("DirectRunner", "SparkRunner", "FlinkRunner")
SEQUENCES: Final = {"id": "id", "time": None}
"""What the positions are: the numbers of the transactions, a sequence, or their seconds."""
RESULTS: Final = ("balances", "totals")
_OUT_OF_ORDERNESS: Final = 11
_QUIET_SECONDS: Final = 60.0


def bank(rows: PCollection[Any], positions: str) -> dict[str, PCollection[ChangeBatch]]:
    """The balance of each account, and the total of all balances, as tables."""
    transactions = rows | "transactions" >> TableFromChangelog(
        key="id", timestamp_by="at", sequence_by=SEQUENCES[positions], except_columns=["id", "at"]
    )
    debited = transactions | "debits" >> SumTable(group_by="from_account", of="amount")
    credited = transactions | "credits" >> SumTable(group_by="to_account", of="amount")
    balances = (credited, debited) | "balances" >> TableTableJoin(vectorized(_balance), how="outer")
    totals = balances | "totals" >> SumTable(group_by=vectorized(_all_of_them), of="balance")
    return {"balances": balances, "totals": totals}


def _balance(credited: pa.RecordBatch, debited: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"balance": pc.subtract(pc.fill_null(credited["value"], 0), pc.fill_null(debited["value"], 0))}


def _all_of_them(balances: pa.RecordBatch) -> pa.Array:
    return pc.multiply(balances["balance"], 0)


def build(rows: PCollection[Any], positions: str, out: Path) -> None:
    """The bank from transactions to files of both tables."""
    for name, table in bank(rows, positions).items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        _ = table | f"keep {name}" >> beam.ParDo(Keep(folder))


def bounded(data: Path, out: Path, positions: str, runner_name: str, options: Sequence[str], state: Path | None) -> None:
    """Run over all transactions in a directory; with ``state`` go on from the run before, and let the results
    appear together with the state.
    """
    made = PipelineOptions(list(options))
    if runner_name == "DirectRunner":
        _bounded(beam.Pipeline(runner=FnApiRunner(), options=made), data, out, positions, state)
        return
    with runner(PipelineOptions([*SPARK, *options])) as ready:
        _bounded(beam.Pipeline(options=ready), data, out, positions, state)


def _bounded(pipeline: beam.Pipeline, data: Path, out: Path, positions: str, state: Path | None) -> None:
    if state is None:
        with pipeline:
            build(pipeline | ReadParquet(str(data / "*.parquet")), positions, out)
        return
    with StateFolder(str(state)) as folder:
        if out.exists():
            return  # this run was committed before it was killed
        part = state.with_name("parts") / uuid4().hex
        with pipeline:
            folder.attach(pipeline)
            build(pipeline | ReadParquet(str(data / "*.parquet")), positions, part)
        folder.commit([(str(part), str(out))])


def unbounded(path: Path, out: Path, positions: str, options: Sequence[str]) -> None:
    """Run without an end on Flink, and cancel the job when no result has come for a minute."""
    last, seen = time.monotonic(), 0

    def follow(pipeline: beam.Pipeline) -> None:
        read = beam.ParDo(Follow(Arrivals(str(path)), EventTime.of(_OUT_OF_ORDERNESS, None))).with_output_types(pa.RecordBatch)
        rows = pipeline | beam.Create(["transactions"], reshuffle=False) | "follow" >> read
        rows.is_bounded = False
        build(as_arrow(rows, SCHEMA), positions, out)

    def is_quiet() -> bool:
        nonlocal last, seen
        files = sum(1 for name in RESULTS for _ in (out / name).glob("*.parquet"))
        if files > seen or not files:
            last, seen = time.monotonic(), files
        return time.monotonic() > last + _QUIET_SECONDS

    run_until(follow, is_quiet, options)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; options that are not its are Beam's."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.proofs.bank_job", description="One run of the bank.")
    made.add_argument("--data", type=Path, required=True, metavar="DIR", help="a directory with transactions in Parquet")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the changes of both tables are written")
    made.add_argument("--runner", choices=RUNNERS, default="DirectRunner", help="where it runs (default: %(default)s)")
    made.add_argument("--positions", choices=tuple(SEQUENCES), default="id", help="what a position is (default: %(default)s)")
    made.add_argument("--state", type=Path, metavar="DIR", help="go on from the run before, whose state is kept here")
    asked, options = made.parse_known_args(argv)
    logging.getLogger().setLevel(logging.ERROR)
    if asked.runner == "FlinkRunner":
        unbounded(asked.data / "transactions.parquet", asked.out, asked.positions, options)
    else:
        bounded(asked.data, asked.out, asked.positions, asked.runner, options, asked.state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
