"""Measures what reading JSON lines costs a user of Python, next to the command: ``python -m benchmarks.reading``."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.harness.process import ROOT

_PROGRAM: Final = """
import sys
import apache_beam as beam
import pyarrow as pa
from beam_joins.io import ReadChangelog, WriteChangelog
path, to, how = sys.argv[1:]
words = {f"c{n}": pa.string() for n in range(3)}
numbers = {f"n{n}": pa.int64() for n in range(2)} | {"x": pa.float64()}
schema = pa.schema({"id": pa.int64(), **words, **numbers, "at": pa.string()})
with beam.Pipeline() as pipeline:
    table = pipeline | ReadChangelog(
        path, key="id", timestamp_by="at", sequence_by="lsn", apply_as_deletes={"op": ["d"]}, schema=schema if how == "typed" else None
    )
    if how == "typed":
        _ = table | WriteChangelog(to, records="rows", key="id")
    else:
        from beam_joins import LatestTable
        _ = table | LatestTable() | beam.combiners.Count.Globally()
"""
_TYPES: Final = "id:int64,n0:int64,n1:int64,x:double"


def write_lines(path: Path, count: int) -> None:
    """Changes of ten columns, five of each key."""
    with path.open("w") as file:
        for n in range(count):
            key = n * 7919 % max(1, count // 5)
            words = {f"c{i}": f"value {key * (i + 3) % 1000}" for i in range(3)}
            at = f"2026-01-{1 + n % 28:02}T00:00:{n % 60:02}.{n % 1_000_000:06}Z"
            row = {"op": "u" if n >= count // 5 else "c", "lsn": n, "id": key, **words, "n0": n, "n1": key, "x": n / 8, "at": at}
            file.write(f"{json.dumps(row)}\n")


def seconds_of(command: list[str]) -> float:
    """The processor time of a program and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Print the processor time behind the start of each reader, and its ratio to the command's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large, small, to = (Path(folder) / name for name in ("large.jsonl", "small.jsonl", "out.parquet"))
        write_lines(large, args.lines)
        write_lines(small, 10)
        table = ["table", "--key=id", "--timestamp-by=at", f"--schema-overrides={_TYPES}", f"--latest={to}"]
        readers: dict[str, Callable[[Path], list[str]]] = {
            "the command": lambda path: [sys.executable, "-m", "pipelines", *table, f"--input={path}"],
            "ReadChangelog, typed": lambda path: [sys.executable, "-c", _PROGRAM, str(path), str(to), "typed"],
            "ReadChangelog, dicts": lambda path: [sys.executable, "-c", _PROGRAM, str(path), str(to), "dicts"],
        }
        costs: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(args.rounds):
            for name, command in readers.items():
                costs[name].append(seconds_of(command(large)) - seconds_of(command(small)))
        least = {name: min(each) for name, each in costs.items()}
        for name, cost in least.items():
            print(f"{name}: {cost:.1f} s of processor time behind the start, {cost / least['the command']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
