"""Keeps a query of Nexmark over events in files: ``python -m benchmarks.nexmark.job --query q3 --data DIR --out DIR``.

On Flink the events come without an end, and the job is canceled when the watermark has passed the last one.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from beam_joins import LatestTable, TableFromChangelog, View
from beam_joins.io import ReadParquet, WriteParquet
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.source_reads import Follow
from beam_joins.transforms.engine.construction.arrow_input import as_arrow
from beam_joins.views.sql_query import tables_of
from benchmarks.contestants.beam_pipeline import RUNNERS, Keep, pipeline
from benchmarks.contestants.flink_pipeline import run_until
from benchmarks.nexmark.by_hand import BY_HAND
from benchmarks.nexmark.followed_events import AT, FollowedEvents
from benchmarks.nexmark.queries import QUERIES

FLINK: Final = "FlinkRunner"
CHANGES: Final = "changes"
"""The folder of the changes of the result of an unbounded job."""


def bounded(query: str, data: Path, out: Path, runner: str, *, by_hand: bool) -> None:
    """Keep a query over all events, as a view or by transforms; the final rows are in Parquet files."""
    with pipeline(runner) as made:
        tables = {}
        for name in tables_of(QUERIES[query]):
            rows = made | f"read {name}" >> ReadParquet(str(data / name / "*.parquet"))
            tables[name] = rows | name >> TableFromChangelog(key="id", sequence_by="seq", except_columns=["seq"])
        kept: Any = BY_HAND[query](tables) if by_hand else tables | query >> View(QUERIES[query])
        rows = kept | LatestTable() | beam.Map(_values).with_output_types(pa.RecordBatch)
        _ = rows | "write" >> WriteParquet(str(out / "part"))


def _values(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(rows.column("value"))


def unbounded(query: str, events: FollowedEvents, out: Path, tick: int) -> None:
    """Keep a query over events without an end, in ticks of so many seconds; its changes are in Parquet files."""
    (out / CHANGES).mkdir()
    end = out / "end"
    run_until(partial(_follow, query, events, out / CHANGES, end), end.exists, [f"--beam_joins_tick={tick}"])


def _follow(query: str, events: FollowedEvents, folder: Path, end: Path, made: beam.Pipeline) -> None:
    tables = {}
    for name in tables_of(QUERIES[query]):
        follow = beam.ParDo(Follow(events, EventTime.of(0, None))).with_output_types(pa.RecordBatch)
        rows = made | f"begin {name}" >> beam.Create([name], reshuffle=False) | f"read {name}" >> follow
        rows.is_bounded = False
        tables[name] = as_arrow(rows, events.rows(name).schema) | name >> TableFromChangelog(
            key="id", sequence_by="seq", timestamp_by=AT, except_columns=["seq", AT]
        )
    view: Any = tables | query >> View(QUERIES[query])
    kept = view | "keep" >> beam.ParDo(Keep(folder))
    begin = made | "begin" >> beam.Create([0], reshuffle=False)
    _ = (kept, begin) | "all" >> beam.Flatten() | "to one" >> beam.Map(lambda _: ("", "")) | "end" >> beam.ParDo(_End(events.end, end))


class _End(beam.DoFn):
    """Makes a file when the watermark has passed the last event."""

    _timer = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, micros: int, path: Path) -> None:
        self._micros, self._path = micros, path

    def process(self, element: tuple[str, str], timer: Any = beam.DoFn.TimerParam(_timer)) -> None:
        """Wait for the end."""
        timer.set(Timestamp(micros=self._micros))

    @on_timer(_timer)
    def end(self) -> None:
        """Make the file."""
        self._path.touch()


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--events", type=int, required=True, help="of all tables")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runner", choices=(*RUNNERS, FLINK), default=RUNNERS[-1])
    parser.add_argument("--tick", type=int, default=1, help="the seconds of a tick on Flink (default: %(default)s)")
    parser.add_argument("--by-hand", action="store_true", help="transforms in place of the view")
    args = parser.parse_args(argv)
    if args.runner == FLINK:
        unbounded(args.query, FollowedEvents(args.data, args.events), args.out, args.tick)
    else:
        bounded(args.query, args.data, args.out, args.runner, by_hand=args.by_hand)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
