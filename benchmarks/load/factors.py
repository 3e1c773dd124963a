"""What a plan for more machines is made of, measured on this one: ``python -m benchmarks.load.factors``."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from beam_joins.coders.block import read_blocks, write_block
from benchmarks.load.data import Make, nightly, nightly_wide, provide
from benchmarks.load.watched import Watched, watched

ROWS: Final[dict[str, tuple[Make, int]]] = {"narrow": (nightly, 2_000_000), "wide": (nightly_wide, 300_000)}
"""What is made and how many changes the first run has, by the kind of rows."""
FEW, MANY = 16, 256
"""Partitions."""


class Measured(NamedTuple):
    """A run: what was seen from outside, and what the engine has counted."""

    seen: Watched
    counted: dict[str, Any]


class Factors(NamedTuple):
    """Of one kind of rows: bytes and microseconds of one processor, for each change unless something else is
    said.
    """

    width: float
    rows: float
    sent: float
    block: float
    alone: float
    micros_block: float
    micros: float
    remembered: float
    micros_remembering: float
    micros_new: float
    millis_partition: float
    millis_first: float
    memory: float


SAID: Final = {
    "width": "bytes in Arrow a change, as it is read",
    "rows": "rows sent to other workers a change, all shuffles together",
    "sent": "bytes sent to other workers a change, all shuffles together",
    "block": "bytes that each block adds, as its numbers become narrower the more there are",
    "alone": "bytes of a block of one row",
    "micros_block": "processor microseconds to write and read a block, whatever it holds",
    "micros": "processor microseconds a change",
    "remembered": "bytes remembered a row of either table, all transforms together",
    "micros_remembering": "processor microseconds a change of the first run that remembers",
    "micros_new": "processor microseconds a change of a later run",
    "millis_partition": "processor milliseconds a partition of a later run",
    "millis_first": "processor milliseconds a partition of the first run that remembers",
    "memory": "bytes of memory a change of a partition, while it has its turn",
}


def measure(data: Path, changes: int, limit: float) -> Factors:
    """The factors of the rows in a folder: a first piece with so many changes, a second with a tenth of them,
    and a third with a thousandth.
    """
    with tempfile.TemporaryDirectory(prefix="runs-", dir=data.parent) as scratch:

        def run(piece: str, partitions: int, state: str = "") -> Measured:
            options = [f"--beam_joins_partitions={partitions}", "--beam_joins_broadcast_bytes=0"]
            options += [f"--beam_joins_state={scratch}/{state}"] if state else []
            seen = watched(["-m", "benchmarks.load.job", f"--data={data / piece}", f"--out={scratch}/out", *options], limit=limit)
            return Measured(seen, json.loads(seen.output))

        start = run("start", 1)
        few, alone = run("first", FEW), run("first", 1)
        first, new = run("first", FEW, "few"), run("tenth", FEW, "few")
        last = run("thousandth", FEW, "few")
        # input that is known to be small has fewer partitions than are asked for, but with a state
        many = run("first", MANY, "many")
        last_of_many = run("thousandth", MANY, "many")

    def micros(of: Measured, number: int) -> float:
        return 1e6 * (of.seen.processor_seconds - start.seen.processor_seconds) / number

    more_bytes, more_blocks = (many.counted[name] - first.counted[name] for name in ("block_bytes", "blocks"))
    return Factors(
        width=sum(pq.read_table(path).nbytes for path in (data / "first").rglob("*.parquet")) / changes,
        rows=few.counted["block_rows"] / changes,
        sent=few.counted["block_bytes"] / changes,
        block=more_bytes / more_blocks,
        alone=len(write_block(_orders(data).slice(0, 1), "orders")),
        micros_block=_micros_block(data),
        micros=micros(few, changes),
        remembered=first.counted["state_bytes"] / changes,
        micros_remembering=micros(first, changes),
        micros_new=micros(new, changes // 10),
        millis_partition=1000 * (last_of_many.seen.processor_seconds - last.seen.processor_seconds) / (MANY - FEW),
        millis_first=1000 * (many.seen.processor_seconds - first.seen.processor_seconds) / (MANY - FEW),
        memory=(alone.seen.peak_bytes - start.seen.peak_bytes) / changes,
    )


def _orders(data: Path) -> pa.Table:
    return pq.read_table(next((data / "first" / "orders").iterdir()))


def _micros_block(data: Path) -> float:
    """Of a block of ten orders; the least of many."""
    rows = _orders(data).slice(0, 10)
    seconds = []
    for _ in range(300):
        begin = time.process_time()
        read_blocks([write_block(rows, "orders")])
        seconds.append(time.process_time() - begin)
    return 1e6 * min(seconds)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.load.factors", description=__doc__)
    made.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="which rows (default: all)")
    made.add_argument(
        "--changes", type=int, metavar="N", help="changes of the first run (default: 2,000,000 narrow, 300,000 wide ones)"
    )
    made.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="most seconds of a run (default: %(default).0f)")
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    asked = made.parse_args(argv)
    factors_of = {}
    for kind in asked.rows:
        make, changes = ROWS[kind]
        changes = asked.changes or changes
        print(f"{kind} rows: eight runs over {changes:,} changes", file=sys.stderr, flush=True)
        factors_of[kind] = measure(provide(make.__name__, changes, make, asked.data.resolve()), changes, asked.limit)
    lines = [f"| factor | {' | '.join(f'{kind} rows' for kind in factors_of)} |", f"|---|{'---|' * len(factors_of)}"]
    for name, sentence in SAID.items():
        lines.append(f"| {sentence} | {' | '.join(f'{getattr(factors, name):,.1f}' for factors in factors_of.values())} |")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
