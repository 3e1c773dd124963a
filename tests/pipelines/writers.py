"""All writers of files, as programs that write below ``out``: what they all keep to is tested over this
table.

``python -m tests.pipelines.writers NAME`` runs a writer of the library; the others are commands.
"""

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins.io import WriteChangelog, WriteParquet
from beam_joins.pipelines.base.input_error import input_error_in
from tests.pipelines.history import BOTH
from tests.pipelines.tables import SMALL, table_of

PROGRAM = "python -m tests.pipelines.writers"
ROWS = 40_000


class Writer(NamedTuple):
    module: str
    arguments: list[Any]
    claimed: str
    """The path that it claims, of several the last one."""
    failed: int = 1
    """The exit code if it cannot write."""
    clears: bool = True
    """Whether a run that fails removes what it has made; else the next one does, as a runner may do a bundle
    again.
    """

    def run(self) -> int:
        """Run it in this process."""
        code: int = importlib.import_module(self.module).main(list(map(str, self.arguments)))
        return code


_ORDERS = "beam_joins.pipelines.orders"
_OF_ALL: list[Any] = ["--orders", "in/orders/*", "--customers", "in/customers/*"]
_LIBRARY = "tests.pipelines.writers"
COMMANDS = {
    "alone": Writer(_ORDERS, [*_OF_ALL, "--output", "out/e.jsonl", "--latest", "out/l.jsonl"], "out/l.jsonl"),
    "with a state": Writer(_ORDERS, BOTH, "out/latest.jsonl"),
}
WRITERS = {
    **COMMANDS,
    "sample": Writer("beam_joins.pipelines.sample", ["--orders=20000", "--customers=2000", "--out=out"], "out/customers.jsonl", 2),
    "WriteChangelog": Writer(_LIBRARY, ["changelog"], "out/log.jsonl", clears=False),
    "WriteParquet": Writer(_LIBRARY, ["parquet"], "out/rows", clears=False),
}


def _changelog(pipeline: beam.Pipeline) -> None:
    rows = [{"id": n, "lsn": n, "op": "u", "name": f"{n * 7919:064d}"} for n in range(ROWS)]
    _ = table_of(pipeline, rows, SMALL) | WriteChangelog("out/log.jsonl", key="id")


def _parquet(pipeline: beam.Pipeline) -> None:
    def batches(seed: int) -> Iterator[pa.Table]:
        draw = np.random.default_rng(seed)
        for _ in range(20):
            yield pa.table({"n": draw.integers(0, 1 << 62, ROWS)})

    made = pipeline | beam.Create([5]) | beam.FlatMap(batches).with_output_types(pa.Table)
    _ = made | WriteParquet("out/rows")


_WRITE: dict[str, Callable[[beam.Pipeline], None]] = {"changelog": _changelog, "parquet": _parquet}


def main(arguments: list[str]) -> int:
    """Run a writer of the library; an error is one sentence."""
    pipeline = beam.Pipeline(runner=FnApiRunner())
    os.rmdir(pipeline.local_tempdir)  # it would stay if the process were killed
    _WRITE[arguments[0]](pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        if (message := input_error_in(error)) is None:
            raise
        print(f"{PROGRAM}: {message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    logging.disable()
    sys.exit(main(sys.argv[1:]))
