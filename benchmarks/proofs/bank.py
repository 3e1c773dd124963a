"""The bank on all runners, whole and in pieces with kills, next to Flink SQL, and what its results are worth."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness.environments import Unavailable, provide
from benchmarks.harness.process import ROOT, ContestantFailed, run
from benchmarks.proofs.picture import draw
from benchmarks.proofs.transactions import provide_transactions

WAYS: Final = ("direct", "spark", "resumed", "flink", "flink-sql")
"""Ways to run: whole on the direct runner or on Spark, in pieces with kills, unbounded on Flink, and Flink SQL."""
POSITIONS: Final = ("id", "time")
_COLUMN: Final = {"id": "id", "time": "at"}
_RUNNERS: Final = {"direct": "DirectRunner", "spark": "SparkRunner", "flink": "FlinkRunner"}
_JOB: Final = "benchmarks.proofs.bank_job"
_INSERT: Final = b'{"before":null,'
_PIECES: Final = 8
_LIMIT: Final = 7200.0


@dataclass(frozen=True)
class Case:
    """One way to run the bank."""

    way: str
    positions: str = ""
    partitions: int = 0


@dataclass(frozen=True)
class Verdict:
    """What was found in the results of a case.

    ``totals`` were emitted, of which ``wrong`` are not 0; at ``one_sided`` positions the changes of the
    balances do not add up to 0; ``complete``: there is one total for each position, and the last balances are
    those that DuckDB computes. The last two are ``None`` where there is no position.
    """

    totals: int
    wrong: int
    one_sided: int | None = None
    complete: bool | None = None

    @property
    def consistent(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong and not self.one_sided and self.complete is not False


def cases(ways: Iterable[str], positions: Iterable[str], partitions: Iterable[int]) -> list[Case]:
    """All cases; those in pieces and unbounded have the largest number of partitions only.

    >>> cases(["direct", "flink", "flink-sql"], ["id"], [1, 7])
    [Case(way='direct', positions='id', partitions=1), Case(way='direct', positions='id', partitions=7), \
Case(way='flink', positions='id', partitions=7), Case(way='flink-sql', positions='', partitions=0)]
    """
    positions, partitions = list(positions), list(partitions)
    made = []
    for way in ways:
        if way == "flink-sql":
            made.append(Case(way))
            continue
        counts = partitions if way in {"direct", "spark"} else [max(partitions)]
        made += [Case(way, each, count) for each in positions for count in counts]
    return made


def verdict(results: Path, data: Path, positions: str) -> Verdict:
    """The verdict on the changes in a directory, or in the pieces below it."""
    db = duckdb.connect()
    db.execute(f"create view totals as select * from '{results}/**/totals/*.parquet'")
    step = "new.balance - coalesce(old.balance, 0) as step"
    db.execute(f"create view balances as select *, {step} from '{results}/**/balances/*.parquet'")
    db.execute(f"create view transactions as select * from '{data}/*.parquet'")
    position = _COLUMN[positions]
    (totals, wrong, at), (one_sided,), (expected,), (differences,) = (
        db.execute(query).fetchone() or ()
        for query in (
            "select count(*), count(*) filter (new is distinct from 0), count(distinct position) from totals",
            "select count(*) from (select 1 from balances group by position having sum(step) <> 0)",
            f'select count(distinct "{position}") from transactions',
            """
            select count(*) from (
                select account, sum(amount) as balance from (
                    select to_account as account, amount from transactions
                    union all select from_account, -amount from transactions
                ) group by account
            ) as a full join (select key, sum(step) as balance from balances group by key) as b on account = key
            where a.balance is distinct from b.balance
            """,
        )
    )
    return Verdict(totals, wrong, one_sided, totals == at == expected and differences == 0)


def totals_of_json(results: Path) -> list[int]:
    """The totals in files of Debezium's JSON, where a change is a delete and an insert, in the order of output."""
    totals = []
    for path in sorted(results.iterdir()):
        with path.open("rb") as lines:
            totals += [json.loads(line)["after"]["total"] for line in lines if line.startswith(_INSERT)]
    return totals


@dataclass
class Measured:
    """A case, its verdict, its seconds, and how often it was killed; or why there is none."""

    case: Case
    verdict: Verdict | None
    seconds: float = 0.0
    kills: int = 0
    why: str = ""


def measure(case: Case, data: Path, scratch: Path, directory: Path, picture: Path | None = None) -> Measured:
    """Run a case over the transactions in ``data``; ``picture`` is where Flink SQL's totals are drawn."""
    out = scratch / "out"
    try:
        if case.way == "flink-sql":
            environment = provide("flink", directory)
            done = run("benchmarks.proofs.bank_flink_sql", [f"--data={data}", f"--out={out}"], limit=_LIMIT, environment=environment)
            totals = totals_of_json(out)
            if picture is not None:
                draw(totals, pq.read_metadata(data / "transactions.parquet").num_rows, picture)
            return Measured(case, Verdict(len(totals), sum(map(bool, totals))), done.seconds)
        if case.way == "resumed":
            begin = time.monotonic()
            kills = _in_pieces(case, data, scratch)
            return Measured(case, verdict(out, data, case.positions), time.monotonic() - begin, kills)
        done = run(_JOB, _arguments(case, _RUNNERS[case.way], data, out), limit=_LIMIT)
    except (ContestantFailed, Unavailable) as error:
        return Measured(case, None, why=str(error))
    return Measured(case, verdict(out, data, case.positions), done.seconds)


def _arguments(case: Case, runner: str, data: Path, out: Path) -> list[str]:
    partitions = f"--beam_joins_partitions={case.partitions}"
    return [f"--data={data}", f"--out={out}", f"--runner={runner}", f"--positions={case.positions}", partitions]


def _in_pieces(case: Case, data: Path, scratch: Path) -> int:
    """Run piece after piece on the direct runner, each killed at random times, up to two on average, and run
    again until it ends; returns the number of kills.
    """
    draw = random.Random(case.positions)
    kills, usual = 0, 10.0
    for number, piece in enumerate(_pieces(case, data, scratch / "pieces", draw)):
        arguments = _arguments(case, "DirectRunner", piece, scratch / "out" / f"piece-{number}")
        begin = time.monotonic()
        while _killed([*arguments, f"--state={scratch / 'state'}"], None if kills > 2 * number + 1 else draw.uniform(1, usual)):
            kills += 1
            begin = time.monotonic()
        usual = time.monotonic() - begin
    return kills


def _pieces(case: Case, data: Path, folder: Path, draw: random.Random) -> Iterator[Path]:
    """The transactions in pieces of random length, cut by position, each in the order of arrival."""
    table = pq.read_table(data)
    position = table[_COLUMN[case.positions]]
    end = pc.max(position).as_py() + 1
    cuts = [0, *sorted(draw.randrange(1, end) for _ in range(_PIECES - 1)), end]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        piece = folder / str(number)
        piece.mkdir(parents=True)
        inside = pc.and_(pc.greater_equal(position, start), pc.less(position, stop))
        pq.write_table(table.filter(inside), piece / "transactions.parquet")
        yield piece


def _killed(arguments: Sequence[str], after: float | None) -> bool:
    """Run a piece, and whether it was killed after so many seconds; raises ``ContestantFailed`` if it failed."""
    with tempfile.TemporaryFile() as errors:
        started = subprocess.Popen([sys.executable, "-m", _JOB, *arguments], cwd=ROOT, stderr=errors, start_new_session=True)
        try:
            code = started.wait(after)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            return True
        if code:
            errors.seek(0)
            raise ContestantFailed(f"ended with code {code}: {errors.read().decode(errors='replace').strip()[-300:]}")
    return False


def table(measured: Iterable[Measured]) -> str:
    """The verdicts as a table of Markdown."""
    lines = [
        "| | positions by | partitions | totals | not 0 | positions with one side | kills | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in measured:
        case, proved = each.case, each.verdict
        named = f"| {case.way} | {case.positions or '-'} | {case.partitions or '-'} "
        if proved is None:
            lines.append(f"{named}| {each.why} | | | | |")
            continue
        sided = "-" if proved.one_sided is None else f"{proved.one_sided:,}"
        incomplete = " (incomplete)" if proved.complete is False else ""
        lines.append(
            f"{named}| {proved.totals:,}{incomplete} | {proved.wrong:,} | {sided} | {each.kills or '-'} | {each.seconds:.0f} |"
        )
    return "\n".join(lines)


def prove(asked: list[Case], count: int, directory: Path, picture: Path | None = None) -> list[Measured]:
    """Measure all cases, each in a fresh directory."""
    data = provide_transactions(count, directory)
    measured = []
    for case in asked:
        with tempfile.TemporaryDirectory(prefix="bank-", dir=directory) as scratch:
            measured.append(measure(case, data, Path(scratch), directory, picture))
        print(table(measured[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    return measured
