"""How many changes a second the foreign-key join of endless tables takes, and how soon their results are
there: ``python -m benchmarks.unbounded``.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apache_beam as beam
import numpy as np
import psutil
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from beam_joins import ChangeBatch, ForeignKeyJoin, TableFromChangelog, runner
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.source_reads import Follow
from beam_joins.transforms.engine.construction.arrow_input import as_arrow
from benchmarks.data.endless import SCHEMAS, Endless
from benchmarks.harness.flow import Flow, flow_report

_MILLION: Final = 1_000_000
_PAUSE_SECONDS: Final = 0.5
_SLICE_MICROS: Final = 50_000
RUNNERS: Final = {
    "Flink": ["--runner=FlinkRunner", "--streaming"],
    "Prism": ["--runner=PrismRunner", "--environment_type=LOOPBACK", "--experiments=prism_disable_sdf_split", "--streaming"],
}


class Append(beam.DoFn):
    """Notes of each batch of results when it came, and for each twentieth of a second of event time how many
    there are, and the times of the earliest and the latest change: a file for each worker.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, batch: ChangeBatch) -> None:
        """Append the lines."""
        now, times = time.time_ns() // 1000, np.sort(batch.timestamp.to_numpy())
        _, begins = np.unique(times // _SLICE_MICROS, return_index=True)
        slices = zip(begins, [*begins[1:], len(times)], strict=True)
        lines = [f"{now} {end - begin} {times[begin]} {times[end - 1]}\n" for begin, end in slices]
        with open(os.path.join(self._folder, f"{os.getpid()}.txt"), "a") as file:
            file.write("".join(lines))


def build(pipeline: beam.Pipeline, endless: Endless, folder: str) -> None:
    """The join, from made-up changes to notes of its results."""
    tables = []
    for name, schema in SCHEMAS.items():
        read = beam.ParDo(Follow(endless, EventTime.of(0, None))).with_output_types(pa.RecordBatch)
        rows = pipeline | f"begin {name}" >> beam.Create([name], reshuffle=False) | f"read {name}" >> read
        rows.is_bounded = False
        tables.append(as_arrow(rows, schema) | name >> TableFromChangelog(key="id", timestamp_by="at", except_columns=["id", "at"]))
    joined = tuple(tables) | ForeignKeyJoin({"amount": "left.amount", "name": "right.name"}, foreign_key="customer")
    _ = joined | "append" >> beam.ParDo(Append(folder))


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.unbounded",
        description="Measure an endless foreign-key join: changes a second, seconds until results, memory. Other "
        "options are those of Beam.",
    )
    made.add_argument("--on", choices=tuple(RUNNERS), default="Flink", help="the runner (default: %(default)s)")
    made.add_argument("--changes", type=int, default=_MILLION, metavar="N", help="changes of orders (default: %(default)s)")
    made.add_argument("--orders", type=int, default=200_000, metavar="N", help="different orders (default: %(default)s)")
    made.add_argument("--customers", type=int, default=100_000, metavar="N", help="different customers (default: %(default)s)")
    made.add_argument(
        "--per-second",
        type=int,
        default=25_000,
        metavar="N",
        help="changes of orders in a second of event time (default: %(default)s)",
    )
    made.add_argument(
        "--live", action="store_true", help="changes come at the pace of the clock, which shows how soon results are there"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and print what was measured."""
    asked, options = parser().parse_known_args(argv)
    options_of_runner = PipelineOptions([*RUNNERS[asked.on], *options])
    with tempfile.TemporaryDirectory(prefix="flow-") as folder, runner(options_of_runner) as ready:
        # workers need some seconds to start
        live = time.time_ns() // 1000 + 10 * _MILLION if asked.live else None
        endless = Endless(asked.changes, asked.orders, asked.customers, asked.per_second, live)
        pipeline = beam.Pipeline(options=ready)
        build(pipeline, endless, folder)
        flow = Flow(Path(folder), psutil.Process())
        with flow.watched():
            result = pipeline.run()
            while flow.latest() < endless.last:
                if PipelineState.is_terminal(result.state):
                    result.wait_until_finish()  # raises what has happened
                    return 1
                time.sleep(_PAUSE_SECONDS)
            # a source without an end has none either when nothing more comes from it
            result.cancel()
        print(flow_report(flow, endless))
    return 0


if __name__ == "__main__":
    sys.exit(main())
