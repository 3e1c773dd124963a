"""Pipelines for incremental runs: each takes records of a left and a right changelog and writes what comes out
as lines of files.
"""

import random
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    AggregateTable,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    ReduceTable,
    StreamForeignKeyJoin,
    StreamTableJoin,
    SumTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
)
from beam_joins.transforms.engine.blocks.block_writer import timestamped
from beam_joins.transforms.engine.construction.table_type import is_batches

SECOND = 1_000_000
LEFT = pa.schema([("id", pa.int64()), ("by", pa.string()), ("n", pa.int64()), ("at", pa.int64())])
RIGHT = pa.schema([("id", pa.string()), ("n", pa.int64()), ("at", pa.int64())])


def history(seed: int, count: int = 60, *, rows: int = 6, references: Sequence[str] = "abcd") -> list[tuple[str, dict[str, Any]]]:
    """Records of both changelogs in the order of their positions, some of both at one."""
    draw = random.Random(seed)
    made = []
    for at in range(count):
        if draw.random() < 0.7:
            row = {
                "id": draw.randrange(rows),
                "by": draw.choice([*references[:-1], None]),
                "n": draw.choice([None, *range(9)]),
                "at": at,
            }
            made.append(("left", row))
        if draw.random() < 0.4:
            made.append(("right", {"id": draw.choice(references), "n": draw.choice([None, *range(9)]), "at": at}))
    return made


def typed(p, side, records, label=None):
    """A table with typed columns; a record without a number deletes."""
    schema = LEFT if side == "left" else RIGHT
    rows = pa.Table.from_pylist([row for of, row in records if of == side], schema)
    label = label or side
    read = p | f"read {label}" >> beam.Create([rows]).with_output_types(pa.Table)
    return read | label >> TableFromChangelog(
        key="id", sequence_by="at", timestamp_by="at", apply_as_deletes=beam_deletes, except_columns=["id", "at"], schema=schema
    )


def beam_deletes(row):
    return row["n"] is None


def opaque(p, side, records):
    """A table of Python objects."""
    read = p | f"read {side}" >> beam.Create([row for of, row in records if of == side]).with_output_types(dict)
    return read | side >> TableFromChangelog(key="id", sequence_by="at", timestamp_by="at", apply_as_deletes=beam_deletes)


def stream(p, side, records, key="id"):
    """A stream of pairs, a second from one position to the next."""
    pairs = [((row[key], row["n"]), row["at"] * SECOND) for of, row in records if of == side and row["n"] is not None]
    read = p | f"read {side}" >> beam.Create(pairs)
    return read | f"times of {side}" >> beam.Map(lambda pair: timestamped(*pair)).with_output_types(tuple[Any, int])


def timed(p, side, records):
    """A table ordered by event time, in microseconds."""
    rows = [{**row, "at": row["at"] * SECOND} for of, row in records if of == side]
    read = p | f"read {side}" >> beam.Create(rows).with_output_types(dict)
    return read | side >> TableFromChangelog(key="id", timestamp_by="at", apply_as_deletes=beam_deletes)


def both(left, right):
    return left, right


def _lists(key, row):
    return [row["by"], "a", "d"] if row["by"] else []


def _chain(p, records, table):
    left, right = table(p, "left", records), table(p, "right", records)
    joined = (left, right) | "first" >> ForeignKeyJoin(both, foreign_key="by", how="left")
    doubled = joined | "kept" >> FilterTable(lambda key, value: key != 5) | "mapped" >> MapTable(lambda key, value: str(value))
    counts = doubled | "counts" >> CountTable(group_by=lambda key, value: len(value))
    again = (doubled, left) | "second" >> TableTableJoin(both, how="outer")
    return [again, counts]


def _weeks(p, records, **options):
    return stream(p, "left", records) | "weeks" >> WindowedAggregate(
        FixedWindows(7), initial=0, add=lambda total, n: total + n, **options
    )


def _grown(p, records):
    weeks = _weeks(p, records)
    return [(weeks, weeks) | WindowedTableJoin(both, how="left", shift=lambda week: week.shift(-timedelta(seconds=7)))]


def _streams(p, records, how):
    left, right = stream(p, "left", records, "by"), stream(p, "right", records)
    left = left | "keyed" >> beam.Filter(lambda pair: pair[0] is not None).with_output_types(tuple[str, int])
    right = right | "as text" >> beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    return [(left, right) | WindowedStreamJoin(both, how=how, before=3, after=2, grace=4)]


def _changes(p, records):
    changes = opaque(p, "left", records) | TableToChanges()
    return [changes | "plain" >> beam.Map(lambda change: change).with_output_types(changes.element_type) | CountTable(group_by="by")]


JOBS = {
    "typed table": lambda p, r: [typed(p, "left", r)],
    "opaque table": lambda p, r: [opaque(p, "left", r)],
    "inner": lambda p, r: [
        (typed(p, "left", r), typed(p, "right", r)) | ForeignKeyJoin({"n": "left.n", "m": "right.n"}, foreign_key="by")
    ],
    "left": lambda p, r: [(opaque(p, "left", r), opaque(p, "right", r)) | ForeignKeyJoin(both, foreign_key="by", how="left")],
    "outer": lambda p, r: [(typed(p, "left", r), typed(p, "right", r)) | ForeignKeyJoin(both, foreign_key="by", how="outer")],
    "lists": lambda p, r: [(opaque(p, "left", r), opaque(p, "right", r)) | ForeignKeyJoin(both, foreign_keys=_lists)],
    "anti": lambda p, r: [(opaque(p, "left", r), opaque(p, "right", r)) | ForeignKeyJoin(foreign_key="by", how="anti")],
    "one to many": lambda p, r: [(typed(p, "right", r), typed(p, "left", r)) | OneToManyJoin(both, foreign_key="by")],
    "many to many": lambda p, r: [
        (typed(p, "left", r), opaque(p, "right", r))
        | ManyToManyJoin(both, left_on=_third, right_on=_third, condition=_are_unlike, how="outer")
    ],
    "same key": lambda p, r: [_of_one_key(p, r)],
    "typed chain": lambda p, r: _chain(p, r, typed),
    "opaque chain": lambda p, r: _chain(p, r, opaque),
    "sums": lambda p, r: [typed(p, "left", r) | SumTable(group_by="by", of="n")],
    "reduced": lambda p, r: [opaque(p, "left", r) | ReduceTable(group_by="by", add=_max, subtract=_first)],
    "aggregated": lambda p, r: [
        opaque(p, "left", r) | AggregateTable(group_by="by", initial=0, add=lambda a, v: a + v["n"], subtract=lambda a, v: a - v["n"])
    ],
    "aggregates": lambda p, r: [
        typed(p, "left", r) | AggregateTable({"least": "min(n)", "most": "max(n)", "kinds": "count_distinct(n)"}, group_by="by")
    ],
    "a total": lambda p, r: [opaque(p, "left", r) | AggregateTable({"rows": "count()", "mean": "mean(n)", "most": "max(n)"})],
    "changes": _changes,
    "weeks": lambda p, r: [_weeks(p, r)],
    "weeks with grace": lambda p, r: [_weeks(p, r, grace=5)],
    "growth": _grown,
    "stream and table": lambda p, r: [
        (stream(p, "left", r, "by"), timed(p, "right", r)) | StreamTableJoin(lambda n, row: (n, row and row["n"]), how="left")
    ],
    "stream and reference": lambda p, r: [
        (stream(p, "left", r), timed(p, "right", r)) | StreamForeignKeyJoin(both, foreign_key=lambda key, n: "abc"[n % 3])
    ],
    "streams": lambda p, r: _streams(p, r, "inner"),
    "streams, outer": lambda p, r: _streams(p, r, "outer"),
}
"""For each job a function of the pipeline and the records that gives its tables or streams."""


def _third(key, row):
    return row["n"] % 3 or None


def _are_unlike(left, right):
    return left["n"] != right["n"]


def _of_one_key(p, records):
    left = typed(p, "left", records)
    return (left, left | FilterTable(lambda key, row: row["n"] > 4)) | TableTableJoin(both, how="outer")


def _max(a, v):
    return {**a, "n": a["n"] + v["n"]}


def _first(a, v):
    return {**a, "n": a["n"] - v["n"]}


class Lines(beam.DoFn):
    """Appends a line for each element, and its time for one of a stream, to a file."""

    def __init__(self, path, *, timed):
        self._path, self._timed = str(path), timed

    def process(self, element, timestamp=beam.DoFn.TimestampParam):
        rows = element.to_pylist() if isinstance(element, pa.RecordBatch) else [element]
        with open(self._path, "a") as file:
            file.writelines(f"{row!r} {timestamp.micros if self._timed else ''}\n" for row in rows)


def run(job, records, out, *, state=None, options=(), latest=False):
    """Run a job on the direct runner, remembering in ``state`` if there is one, as :func:`write` has it."""
    inputs = PipelineOptions([*options, *([f"--beam_joins_state={state}"] if state else [])])
    with beam.Pipeline(runner=FnApiRunner(), options=inputs) as p:
        write(job, p, records, out, latest=latest)


def write(job, p, records, out, *, latest=False):
    """The changes of a job, or its stream, become lines of ``out``, and with ``latest`` its rows those of
    ``out.latest``.
    """
    for n, made in enumerate(JOBS[job](p, records)):
        is_table = is_batches(made)
        lines = made | f"changes {n}" >> TableToChanges() if is_table else made
        _ = lines | f"lines {n}" >> beam.ParDo(Lines(out, timed=not is_table))
        if latest and is_table:
            _ = made | f"latest {n}" >> LatestTable() | f"latest lines {n}" >> beam.ParDo(Lines(f"{out}.latest", timed=False))


def lines_of(path):
    """The lines of a file in order; none if it is not there."""
    try:
        with open(path) as file:
            return sorted(file)
    except FileNotFoundError:
        return []


def parts(records, cuts):
    """The records up to each position, exclusively, and those after the last one."""
    bounds = [-1, *cuts, 1 << 60]
    return [[each for each in records if low <= each[1]["at"] < high] for low, high in pairwise(bounds)]
