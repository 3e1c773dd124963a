"""Measures TPC-H's queries as views over refreshes, next to recomputation by DuckDB and PySpark: ``python -m benchmarks.tpch``.

``beam-joins run`` keeps a query with a state: a first run over all rows, one over each refresh, and then rounds of ``--follow``, which
have Python and Beam in memory. DuckDB and PySpark read tables that have the refreshes already; PySpark has the best of its settings.
Each answer is compared with DuckDB's, row by row.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Final

from benchmarks.contestants.duckdb_sql import connect
from benchmarks.harness.comparison import Comparison, answer, compare
from benchmarks.harness.lines import print_lines
from benchmarks.harness.process import ROOT, ContestantFailed, of_programs, run
from benchmarks.tpch.queries import KEYS, QUERIES, RESULT_KEYS, tables_of
from benchmarks.tpch.refreshes import LOTS, SIZES, content, provide_refreshes

_RUNS: Final = 3
"""The refreshes that have a run; the others are rounds of ``--follow``."""
_SHARES: Final = tuple(2 * lots / LOTS for lots in SIZES[:_RUNS])
"""The orders and lines that are inserted or deleted, as a part of all."""
_LIMIT_SECONDS: Final = 3_600.0
_POLL_SECONDS: Final = 0.01
_RESULT: Final = "result.parquet"


class Kept:
    """A query that ``beam-joins run`` keeps in a folder, of the changelogs in another."""

    def __init__(self, query: int, data: Path, folder: Path) -> None:
        self._query, self._data, self._folder = query, data, folder
        self._options = [str(folder / "query.sql"), f"--state-dir={folder / 'state'}"]
        (folder / "in").mkdir(parents=True)
        (folder / "query.sql").write_text(self._script(), encoding="utf-8")

    def run(self, number: int) -> float:
        """The seconds of a run that reads a refresh. Raises ContestantFailed, also for another answer than DuckDB's."""
        self._arrive(number)
        seconds = run("pipelines.run", self._options, limit=_LIMIT_SECONDS).seconds
        if not (compared := self._compared(number)).same:
            raise ContestantFailed(f"refresh {number}: {compared}")
        return seconds

    def followed(self) -> float:
        """The seconds from the last refresh to its answer, when the process that follows has had the one before. Raises
        ContestantFailed.
        """
        command = [sys.executable, "-m", "pipelines.run", *self._options, "--follow", "--every=100ms", "--whole-files"]
        quiet = subprocess.DEVNULL
        following = subprocess.Popen(command, cwd=ROOT, env=of_programs(), stdout=quiet, stderr=quiet)
        seconds = 0.0
        try:
            for number in range(_RUNS + 1, len(SIZES) + 1):
                seconds = self._answered(number)
        finally:
            following.send_signal(signal.SIGINT)
            following.wait()
        return seconds

    def state_bytes(self) -> int:
        """The size of the state."""
        return sum(path.stat().st_size for path in (self._folder / "state").rglob("*") if path.is_file())

    def _answered(self, number: int) -> float:
        before, begin = self._written(), time.monotonic()
        self._arrive(number)
        while time.monotonic() < begin + _LIMIT_SECONDS:
            if (now := self._written()) != before:
                seconds, before = time.monotonic() - begin, now
                if self._compared(number).same:
                    return seconds
            time.sleep(_POLL_SECONDS)
        raise ContestantFailed(f"refresh {number}: no such answer under --follow")

    def _written(self) -> int:
        return (self._folder / "out" / _RESULT).stat().st_mtime_ns

    def _arrive(self, number: int) -> None:
        """All tables' files of a refresh arrive at once, as a folder."""
        arriving = self._folder / f".{number}"
        arriving.mkdir()
        for table in tables_of(self._query):
            if (file := self._data / table / f"{number}.parquet").exists():
                os.link(file, arriving / f"{table}.parquet")
        arriving.rename(self._folder / "in" / f"{number}")

    def _compared(self, number: int) -> Comparison:
        with tempfile.TemporaryDirectory(dir=self._folder) as expected:
            with connect() as database:
                for table in tables_of(self._query):
                    database.execute(f"CREATE VIEW {table} AS {content(table, self._data, number)}")
                columns = answer(database, QUERIES[self._query], Path(expected))
            # the mean of decimals is a floating-point number for one and a decimal for the other; sums and counts say as much
            exact = {name: type_ for name, type_ in columns.items() if type_ != "float"}
            return compare(Path(expected), self._folder / "out", exact)

    def _script(self) -> str:
        of_log = "sequence_by = 'seq', apply_as_deletes = '{\"op\": [\"d\"]}', except_columns = 'op, seq'"
        tables = [
            f"CREATE TABLE {table} ({self._columns(table)}) "
            f"WITH (source = '{self._folder}/in/*/{table}.parquet', key = '{', '.join(KEYS[table])}', {of_log});\n"
            for table in tables_of(self._query)
        ]
        to = f"target = '{self._folder}/out/{_RESULT}', records = 'rows', key = '{', '.join(RESULT_KEYS[self._query])}'"
        return f"{''.join(tables)}CREATE MATERIALIZED VIEW answer WITH ({to}) AS {QUERIES[self._query]};\n"

    def _columns(self, table: str) -> str:
        """The columns that the query reads, and those of the log: others need not be kept."""
        words = {*re.findall(r"\w+", QUERIES[self._query]), *KEYS[table], "op", "seq"}
        with connect() as database:
            described = database.execute(f"DESCRIBE SELECT * FROM '{self._data}/{table}/0.parquet'").fetchall()
        return ", ".join(f"{name} {type_}" for name, type_, *_ in described if name in words)


def recomputed(query: int, data: Path, folder: Path, rounds: int) -> tuple[float, float]:
    """The least seconds of DuckDB and of PySpark for an answer from tables with all refreshes."""
    tables = folder / "content"
    with connect() as database:
        for table in tables_of(query):
            (tables / table).mkdir(parents=True)
            rows = content(table, data, len(SIZES))
            database.execute(f"COPY ({rows}) TO '{tables / table}/part.parquet' (FORMAT parquet)")
    asked = [f"--query={query}", f"--data={tables}", f"--out={folder / 'recomputed'}"]

    def least(*settings: Sequence[str]) -> float:
        module = "benchmarks.tpch.recomputed"
        return min(run(module, [*asked, *each], limit=_LIMIT_SECONDS).seconds for each in settings for _ in range(rounds))

    of_pyspark = [
        ["--engine=pyspark", f"--compilers={compilers}", f"--partitions={partitions}"]
        for compilers in ("first", "both")
        for partitions in (2, 8)
    ]
    return least(["--engine=duckdb"]), least(*of_pyspark)


def break_even(seconds: Sequence[float], whole: float) -> str:
    """The share of changed rows up to which a run over a refresh takes less time than recomputation, between measured shares.

    >>> break_even([7, 8, 26], 11), break_even([7, 8, 26], 5), break_even([7, 8, 26], 30)
    ('5 %', 'never', '20 % and more')
    """
    if whole < seconds[0]:
        return "never"
    for (share, least), (next_share, most) in pairwise(zip(_SHARES, seconds, strict=True)):
        if whole < most:
            return _percent(share + (next_share - share) * (whole - least) / (most - least))
    return f"{_percent(_SHARES[-1])} and more"


def _percent(share: float) -> str:
    """A share in percent.

    >>> _percent(0.002), _percent(0.0512)
    ('0.2 %', '5 %')
    """
    return f"{100 * share:.1g} %" if share < 0.1 else f"{100 * share:.0f} %"


_COLUMNS: Final = (
    "query",
    "scale",
    "first run",
    *(f"{_percent(share)} changed" for share in _SHARES),
    f"{_percent(_SHARES[0])} with --follow",
    "state",
    "DuckDB recomputes",
    "PySpark recomputes",
    "faster than PySpark up to",
    "than DuckDB",
)


def figures(query: int, scale: float, directory: Path, rounds: int) -> list[str]:
    """The cells of a line behind the query and the scale. Raises ContestantFailed."""
    data = provide_refreshes(scale, directory)
    with tempfile.TemporaryDirectory(prefix="kept-", dir=directory) as folder:
        kept = Kept(query, data, Path(folder, "kept"))
        first, *runs = [kept.run(number) for number in range(_RUNS + 1)]
        followed = kept.followed()
        by_duckdb, by_pyspark = recomputed(query, data, Path(folder), rounds)
        seconds = [f"{each:.1f} s" for each in (first, *runs, followed)]
        recomputing = [f"{by_duckdb:.1f} s", f"{by_pyspark:.1f} s", break_even(runs, by_pyspark), break_even(runs, by_duckdb)]
        return [*seconds, f"{kept.state_bytes() / 1e9:.1f} GB", *recomputing]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a query and scale; returns 1 if an answer is another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", nargs="+", type=float, default=[0.1, 1.0], metavar="FACTOR")
    parser.add_argument("--queries", nargs="+", type=int, choices=RESULT_KEYS, default=[1, 3, 5, 10, 18])
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="runs of the others; the least counts (default: 1)")
    parser.add_argument("--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept")
    args = parser.parse_args(argv)
    directory, cases = args.data.resolve(), product(args.scales, args.queries)
    return print_lines(
        _COLUMNS,
        (((f"q{query}", f"{scale:g}"), partial(figures, query, scale, directory, args.rounds)) for scale, query in cases),
    )


if __name__ == "__main__":
    sys.exit(main())
