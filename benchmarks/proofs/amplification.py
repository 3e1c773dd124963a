"""One row to which all rows of another table refer is updated: what that costs behind a join and an aggregate."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.figures import Run
from benchmarks.harness.process import run

_JOB: Final = "benchmarks.proofs.amplification_job"
_LIMIT: Final = 7200.0
_ROWS_OF_A_PART: Final = 10
"""Rows of a group of the aggregate."""
_RATES: Final = (2, 3)
"""The rate before its update and after."""
_FILE: Final = "1.parquet"
RUNS: Final = {
    "everything in one run": ("whole", False),
    "the same without the update": ("before", False),
    "the same with state": ("before", True),
    "then the update, resumed": ("update", True),
}
"""The runs in their order: the input of each, and whether it goes on from the one before with state."""


@dataclass(frozen=True)
class Measured:
    """A run, and the number of changes that it gave; ``right``: the sums are those that DuckDB computes."""

    name: str
    run: Run
    changes: int
    right: bool


def write_input(count: int, folder: Path) -> None:
    """Rows that all refer to one rate; then the update of the rate; and both, in a directory each."""
    ids = np.arange(count)
    parts = max(count // _ROWS_OF_A_PART, 1)
    numbers = ids % 7 - 3
    rows = pa.table({"id": ids, "rate_id": np.zeros(count, np.int64), "part": ids % parts, "number": numbers, "seq": ids + 1})
    rates = pa.table({"id": [0, 0], "rate": list(_RATES), "seq": [0, count + 1]})
    inputs = {"before": (rows, rates[:1]), "update": (rows[:0], rates[1:]), "whole": (rows, rates)}
    for name, tables in inputs.items():
        for kind, table in zip(("rows", "rates"), tables, strict=True):
            (folder / name / kind).mkdir(parents=True)
            pq.write_table(table, folder / name / kind / _FILE)


def measure(count: int, partitions: int, directory: Path) -> list[Measured]:
    """Make all runs on the direct runner, and check the sums of each.

    Raises:
        ContestantFailed: a run failed.
    """
    measured = []
    with tempfile.TemporaryDirectory(prefix="amplification-", dir=directory) as scratch:
        folder = Path(scratch)
        write_input(count, folder)
        for name, (input_name, has_state) in RUNS.items():
            out = folder / f"out-{input_name}-{has_state}"
            arguments = [f"--data={folder / input_name}", f"--out={out}", f"--beam_joins_partitions={partitions}"]
            state = [f"--beam_joins_state={folder / 'state'}"] if has_state else []
            done = run(_JOB, [*arguments, *state], limit=_LIMIT)
            changes, right = checked(out, folder / "whole", _RATES[input_name != "before"])
            measured.append(Measured(name, done, changes, right))
    return measured


def checked(out: Path, data: Path, rate: int) -> tuple[int, bool]:
    """The number of changes in a directory, and whether the last sums are those of this rate."""
    query = f"""
    with last as (select key, arg_max(new, position) as total from '{out}/*.parquet' group by key),
        expected as (select part, sum(number) * {rate} as total from '{data}/rows/*.parquet' group by part)
    select (select count(*) from '{out}/*.parquet'),
        (select count(*) from last full join expected on key = part where last.total is distinct from expected.total)
    """
    changes, wrong = duckdb.connect().execute(query).fetchone() or (0, 1)
    return changes, not wrong


def table(measured: Iterable[Measured]) -> str:
    """The runs as a table of Markdown."""
    lines = ["| run | seconds | processor seconds | memory of Python | changes of sums | sums |", "|---|---|---|---|---|---|"]
    for each in measured:
        memory, right = f"{each.run.python / 1e9:.1f} GB", "right" if each.right else "wrong"
        lines.append(f"| {each.name} | {each.run.seconds:.0f} | {each.run.processor:.0f} | {memory} | {each.changes:,} | {right} |")
    return "\n".join(lines)
