"""Measures views of Nexmark's queries next to DuckDB's answer and to Flink SQL: ``python -m benchmarks.nexmark``.

On Spark and the direct runner the events are bounded; on Flink they have no end, as in Flink SQL's streaming job, with and without its
mini-batches. A figure is the number of events by the processor seconds of all processes behind their start, which is that of the same
query on a hundred events. Each answer is compared with DuckDB's, row by row.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.contestants.duckdb_sql import connect
from benchmarks.harness.comparison import answer, compare
from benchmarks.harness.environments import provide
from benchmarks.harness.figures import Run
from benchmarks.harness.lines import print_lines
from benchmarks.harness.process import ContestantFailed, run
from benchmarks.nexmark.auctions import write
from benchmarks.nexmark.by_hand import BY_HAND
from benchmarks.nexmark.queries import QUERIES

_TINY: Final = 100
_LIMIT_SECONDS: Final = 1_200.0
_JOB, _SQL_JOB = "benchmarks.nexmark.job", "benchmarks.nexmark.flink_sql_job"
_BY_HAND: Final = "--by-hand"
_CHANGES_NET: Final = """
copy (select unnest(new) from '{out}/changes/*.parquet' where new is not null
    except all select unnest(old) from '{out}/changes/*.parquet' where old is not null)
to '{out}/rows/part.parquet' (format parquet)
"""

CONTESTANTS: Final = {
    "Spark": (_JOB, ["--runner=SparkRunner"]),
    "direct runner": (_JOB, ["--runner=DirectRunner"]),
    "direct runner, by hand": (_JOB, ["--runner=DirectRunner", _BY_HAND]),
    "Flink, unbounded": (_JOB, ["--runner=FlinkRunner"]),
    "Flink, unbounded, ticks of 10 s": (_JOB, ["--runner=FlinkRunner", "--tick=10"]),
    "Flink SQL": (_SQL_JOB, []),
    "Flink SQL, mini-batches": (_SQL_JOB, ["--mini-batches"]),
}


class Contest:
    """The queries over so many events, in a folder."""

    def __init__(self, events: int, folder: Path, directory: Path) -> None:
        self.events, self._folder, self._directory = events, folder, directory
        write(folder / "data", events)

    def run(self, query: str, contestant: str) -> tuple[Run, Path]:
        """The run of a query, and the folder with its result.

        Raises:
            ContestantFailed: it has failed.
            Unavailable: Flink cannot be installed here.
        """
        module, options = CONTESTANTS[contestant]
        is_sql = module == _SQL_JOB
        environment = provide("flink" if is_sql else "", self._directory)
        out = Path(tempfile.mkdtemp(dir=self._folder))
        asked = [f"--query={query}", f"--data={self._folder / 'data'}", f"--out={out}", *options]
        asked += [] if is_sql else [f"--events={self.events}"]
        return run(module, asked, limit=_LIMIT_SECONDS, environment=environment), out

    def rows(self, query: str, contestant: str, out: Path) -> int:
        """The number of rows of a result. Raises ContestantFailed where they are not DuckDB's."""
        expected = self._folder / query
        expected.mkdir(exist_ok=True)
        with connect() as database:
            if (out / "changes").exists():
                (out / "rows").mkdir()
                database.execute(_CHANGES_NET.format(out=out))
                out /= "rows"
            database.execute("set integer_division = true")
            for table in (self._folder / "data").iterdir():
                database.execute(f"create view {table.name} as select * from read_parquet('{table}/*.parquet')")
            columns = answer(database, QUERIES[query], expected)
        is_sql = CONTESTANTS[contestant][0] == _SQL_JOB
        compared = compare(expected, out, columns, retracts="debezium" if is_sql else "")
        if not compared.same:
            raise ContestantFailed(str(compared))
        return compared.rows


def _takes_part(query: str, contestant: str) -> bool:
    return _BY_HAND not in CONTESTANTS[contestant][1] or query in BY_HAND


def figures(query: str, contestant: str, tiny: Contest, whole: Contest, rounds: int) -> list[str]:
    """The cells of a line behind the query and the contestant. Raises ContestantFailed and Unavailable."""
    starts = [tiny.run(query, contestant)[0] for _ in range(rounds)]
    runs, outs = zip(*(whole.run(query, contestant) for _ in range(rounds)), strict=True)
    rows = {whole.rows(query, contestant, out) for out in outs}.pop()
    work = median(ran.processor for ran in runs) - median(ran.processor for ran in starts)
    times = [f"{median(ran.seconds for ran in each):.1f} s" for each in (starts, runs)]
    return [f"{rows:,}", *times, f"{whole.events / max(work, 0.01):,.0f}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a query and contestant; returns 1 if an answer is another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=[*QUERIES])
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where Flink is kept")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        tiny, whole = (Contest(events, Path(folder, f"{events}"), args.data.resolve()) for events in (_TINY, args.events))
        lines = [each for each in product(args.queries, args.contestants) if _takes_part(*each)]
        columns = ["query", "contestant", "rows", "start-up", "total", "events a second and core"]
        return print_lines(columns, ((each, partial(figures, *each, tiny, whole, args.rounds)) for each in lines))


if __name__ == "__main__":
    sys.exit(main())
