"""How soon a committed transaction is in the joined table of another database: ``python -m benchmarks.follow``."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import psycopg

from benchmarks.harness.process import ROOT, memory_of
from tests import programs
from tests.postgres.server import server

_ORDERS: Final = 100_000
_CUSTOMERS: Final = 10_000
_CHANGES: Final = 3
"""The changes of a transaction."""
_WRITERS: Final = 4
_LOOK_SECONDS: Final = 0.05
_MEMORY_SECONDS: Final = 1.0
_CATCH_UP_SECONDS: Final = 60.0
_WITHIN: Final = (0.5, 0.9, 0.99)

_TABLES: Final = """
CREATE TABLE customers (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount bigint, at timestamptz);
"""
_ROWS: Final = f"""
INSERT INTO customers SELECT n, 'name ' || n FROM generate_series(1, {_CUSTOMERS}) n;
INSERT INTO orders SELECT n, 1 + n % {_CUSTOMERS}, n, clock_timestamp() FROM generate_series(0, {_ORDERS}) n;
"""
_TRANSACTION: Final = rf"""
\set order random(1, {_ORDERS})
\set other random(1, {_ORDERS})
\set customer random(1, {_CUSTOMERS})
BEGIN;
UPDATE orders SET amount = amount + 1, at = clock_timestamp() WHERE id = :order;
UPDATE orders SET customer = :customer, at = clock_timestamp() WHERE id = :other;
UPDATE customers SET name = 'name ' || :order WHERE id = :customer;
COMMIT;
"""
_BEAT: Final = "UPDATE orders SET at = clock_timestamp() WHERE id = 0 RETURNING extract(epoch FROM at)::float"
"""A transaction whose commit is looked for: of an order that nothing else changes."""
_JOINED: Final = (
    "SELECT orders.id, orders.amount, customers.name, orders.at FROM orders JOIN customers ON orders.customer = customers.id"
)


class Database(NamedTuple):
    """A server, with a source and a target."""

    conninfo: str
    address: str
    programs: Path

    @contextmanager
    def session(self, name: str) -> Iterator[psycopg.Connection]:
        """A connection to one of its databases."""
        with psycopg.connect(f"{self.conninfo} dbname={name}", autocommit=True) as connection:
            yield connection


class Peer(NamedTuple):
    """Something that keeps a joined table in the target: the query that gives its rows, and its process if it has one."""

    rows: str
    process: psutil.Process | None = None


class Measured(NamedTuple):
    """The transactions a second that were committed, the seconds until each was seen, wrong rows, and the largest memory in bytes."""

    rate: float
    seconds: list[float]
    wrong: int
    memory: int


@contextmanager
def beam_joins(database: Database, every: str) -> Iterator[Peer]:
    """``beam-joins join --follow`` from a slot into a table."""
    source, target = f"{database.address}/source?slot=live", f"{database.address}/target?table=joined"
    run_program("slot", "create", source, "--tables", "public.orders,public.customers")
    with tempfile.TemporaryDirectory() as state:
        sides = [f"--left={source}", "--left-table=public.orders", f"--right={source}", "--right-table=public.customers"]
        join = ["--foreign-key=customer", "--select=left.id,left.amount,right.name,left.at", f"--to={target}"]
        command = [*_PROGRAM, "join", *sides, *join, f"--state-dir={state}", "--follow", f"--every={every}"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            try:
                yield Peer("SELECT id, amount, name, at FROM joined_live", psutil.Process(process.pid))
            finally:
                process.terminate()
                process.wait()
                run_program("slot", "drop", source)


@contextmanager
def subscription(database: Database, every: str) -> Iterator[Peer]:
    """PostgreSQL's own logical replication of both tables; the join is a query of their copies."""
    with database.session("source") as source, database.session("target") as target:
        source.execute("CREATE PUBLICATION live FOR TABLE orders, customers")
        # a subscription within one server would wait for itself to make its slot
        source.execute("SELECT pg_create_logical_replication_slot('live', 'pgoutput')")
        target.execute(_TABLES)
        target.execute(
            f"CREATE SUBSCRIPTION live CONNECTION '{database.conninfo} dbname=source' PUBLICATION live"
            " WITH (create_slot = false, slot_name = live)"
        )
        try:
            yield Peer(_JOINED)
        finally:
            target.execute("DROP SUBSCRIPTION live")


_PROGRAM: Final = (sys.executable, "-m", "beam_joins.pipelines")
PEERS: Final[dict[str, Callable[[Database, str], AbstractContextManager[Peer]]]] = {
    "beam_joins": beam_joins,
    "subscription": subscription,
}


def run_program(*arguments: str) -> None:
    """Run ``beam-joins``."""
    subprocess.run([*_PROGRAM, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def measured(database: Database, peer: Peer, rate: int, seconds: float) -> Measured:
    """Commit so many transactions a second for a time, and see when they are in the target; then compare all rows."""
    with database.session("source") as source, database.session("target") as target:
        _wait_for(target, peer, source.execute(_BEAT).fetchone()[0])  # type: ignore[index]
        script = Path(tempfile.mkdtemp(), "transaction.sql")
        script.write_text(_TRANSACTION)
        options = [f"--client={_WRITERS}", f"--rate={rate}", f"--time={seconds:.0f}", "--no-vacuum", f"--file={script}"]
        pgbench = [str(database.programs / "pgbench"), *options, f"{database.conninfo} dbname=source"]
        before, memory, beats = _committed(source), 0, list[float]()
        looks = list[tuple[float, float]]()
        with subprocess.Popen(pgbench, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writing:
            begin = next_memory = time.monotonic()
            while writing.poll() is None:
                look = time.monotonic()
                beats.append(source.execute(_BEAT).fetchone()[0])  # type: ignore[index]
                looks.append((time.time(), _newest(target, peer)))
                if look >= next_memory:
                    now = 0 if peer.process is None else memory_of(peer.process)
                    memory, next_memory = max(memory, now), look + _MEMORY_SECONDS
                time.sleep(max(0.0, look + _LOOK_SECONDS - time.monotonic()))
            took = time.monotonic() - begin
        committed = (_committed(source) - before - len(beats)) / took
        last = source.execute(_BEAT).fetchone()[0]  # type: ignore[index]
        looks += _wait_for(target, peer, last)
        wrong = len(set(source.execute(_JOINED)).symmetric_difference(target.execute(peer.rows)))
        return Measured(committed, list(_until_seen(beats, looks)), wrong, memory)


def _wait_for(target: psycopg.Connection, peer: Peer, beat: float) -> list[tuple[float, float]]:
    """Look at the target until a beat is there."""
    looks, until = list[tuple[float, float]](), time.monotonic() + _CATCH_UP_SECONDS
    while not looks or looks[-1][1] < beat:
        if time.monotonic() > until:
            raise SystemExit(f"a transaction is not in the target after {_CATCH_UP_SECONDS:.0f} s")
        time.sleep(_LOOK_SECONDS)
        looks.append((time.time(), _newest(target, peer)))
    return looks


def _newest(target: psycopg.Connection, peer: Peer) -> float:
    """The last beat in the target."""
    try:
        row = target.execute(f"SELECT extract(epoch FROM at)::float FROM ({peer.rows}) rows WHERE id = 0").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0.0
    return 0.0 if row is None else float(row[0])


def _until_seen(beats: Sequence[float], looks: Sequence[tuple[float, float]]) -> Iterator[float]:
    """The seconds from each beat to the first look that saw it or a later one."""
    look = 0
    for beat in beats:
        while looks[look][1] < beat:
            look += 1
        yield looks[look][0] - beat


def _committed(source: psycopg.Connection) -> int:
    source.execute("SELECT pg_stat_clear_snapshot()")
    (committed,) = source.execute("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'customers'").fetchone() or (0,)
    return int(committed)


@contextmanager
def _server() -> Iterator[Database]:
    """A server with an empty target, and a source with rows."""
    installed = programs.postgres()
    if installed is None:
        raise SystemExit("PostgreSQL with wal2json is not installed: python -m tests.prepare")
    with server(installed) as conninfo:
        parts = dict(each.split("=") for each in conninfo.split())
        address = f"postgres://{parts['user']}@{parts['host']}:{parts['port']}"
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for name in ("source", "target"):
                connection.execute(f"CREATE DATABASE {name}")
        database = Database(conninfo.replace("dbname=postgres", "").strip(), address, installed)
        with database.session("source") as source:
            source.execute(_TABLES)
            source.execute(_ROWS)
        yield database


def row(name: str, measured: Measured) -> str:
    """A row of the table."""
    ordered = sorted(measured.seconds)
    within = [ordered[int(share * (len(ordered) - 1))] for share in _WITHIN]
    times = " | ".join(f"{seconds:.2f} s" for seconds in (*within, ordered[-1]))
    memory = f"{measured.memory / 1e6:,.0f} MB" if measured.memory else "-"
    return f"| {name} | {measured.rate:,.0f} | {times} | {measured.wrong:,} | {memory} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.follow", description="Seconds from a commit to the joined table.")
    made.add_argument("--rates", nargs="+", type=int, default=[500, 2000, 4000], metavar="N", help="transactions a second")
    made.add_argument("--seconds", type=float, default=60.0, metavar="N", help="the time of each rate (default: %(default)s)")
    made.add_argument("--every", default="200ms", metavar="TIME", help="of --follow (default: %(default)s)")
    made.add_argument("--peers", nargs="+", choices=PEERS, default=[*PEERS], metavar="NAME", help="which (default: all)")
    asked = made.parse_args(argv)
    print("| | transactions a second | median | 90 % | 99 % | most | wrong rows | memory |\n|---|---|---|---|---|---|---|---|")
    for name in asked.peers:
        with _server() as database, PEERS[name](database, asked.every) as peer:
            for rate in asked.rates:
                print(row(name, measured(database, peer, rate, asked.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
