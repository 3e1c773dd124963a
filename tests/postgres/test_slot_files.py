"""A slot's log in files that are cut anywhere holds what the database holds, whoever was killed while it was
written.
"""

import random
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pytest

from beam_joins import LatestTable
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.commands import programs as commands
from tests import programs
from tests.pipelines.orders_run import read_lines
from tests.pipelines.test_wal2json_log import files_of
from tests.postgres.workload import Shop

TABLES = ("orders", "customers", "products", "regions")
OPTIONS = {"include-lsn": "1", "include-timestamp": "1", "include-pk": "1"}
TRANSACTIONS = 1_200


def database(postgres: str, name: str) -> str:
    """A database of its own on the server."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.replace("dbname=postgres", f"dbname={name}")


def copied(connection: psycopg.Connection[Any], first: int) -> None:
    """Rows of a COPY, which PostgreSQL logs many at a time, and changes of them in the same transaction."""
    with connection.transaction():
        with connection.cursor().copy("COPY orders (id, customer_id) FROM STDIN") as copy:
            for number in range(first, first + 700):
                copy.write_row((number, number % 100))
        connection.execute("UPDATE orders SET amount = 1.50 WHERE id >= %s AND id %% 3 = 0", [first])
        connection.execute("DELETE FROM orders WHERE id >= %s AND id %% 7 = 0", [first])


def held(conninfo: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(conninfo) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()) for table in TABLES}


def tables_of(pattern: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that there are in the end."""
    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        for table in TABLES:
            batches = (
                pipeline
                | table >> ReadChangeEvents(pattern, format="wal2json", table=f"public.{table}")
                | f"latest {table}" >> LatestTable()
            )
            _ = batches | f"collect {table}" >> beam.Map(_collect, table)
    for table, row in _collected:
        rows[table].append(row)
    _collected.clear()
    return {table: sorted(actual) for table, actual in rows.items()}


_collected: list[tuple[str, tuple[Any, ...]]] = []


def _collect(batch: Any, table: str) -> None:
    _collected.extend((table, tuple(row["value"].values())) for row in batch.to_pylist())


@pytest.fixture(scope="module")
def shop(postgres: str) -> tuple[dict[str, list[tuple[Any, ...]]], dict[int, list[list[bytes]]]]:
    """What a database holds, and the lines of the transactions that made it, in both formats."""
    conninfo = database(postgres, "slot_files")
    shop = Shop(conninfo, seed=7, slots=("cut_1", "cut_2"))
    shop.transact(TRANSACTIONS, looks=2)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        copied(connection, 10_000)
    logs = {}
    for version, slot in ((1, "cut_1"), (2, "cut_2")):
        options = [each for option in {"format-version": str(version), **OPTIONS}.items() for each in option]
        lines = [f"{line}\n".encode() for line in shop.log(slot, *options)]
        logs[version] = [[line] for line in lines] if version == 1 else transactions(lines)
    return held(conninfo), logs


def transactions(lines: Sequence[bytes]) -> list[list[bytes]]:
    """The lines of format 2 by transaction."""
    made: list[list[bytes]] = []
    for line in lines:
        if line.startswith(b'{"action":"B"'):
            made.append([])
        made[-1].append(line)
    return made


def write_files(folder: Path, log: list[list[bytes]], seed: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    chance, paths = random.Random(seed), []
    files = files_of(log, chance, rotated=30 / sum(map(len, log)))
    for name, content in zip(chance.sample(range(10**6), len(files)), files, strict=True):
        paths.append(folder / f"{name}.jsonl")
        paths[-1].write_bytes(content)
    return paths


@pytest.mark.parametrize("version", [1, 2])
def test_the_tables_of_a_log_cut_anywhere_are_those_of_the_database(shop: Any, tmp_path: Path, version: int) -> None:
    content, logs = shop
    paths = write_files(tmp_path / "in", logs[version], seed=version)
    assert len(paths) > 10
    assert tables_of(str(tmp_path / "in" / "*.jsonl")) == content


@pytest.mark.parametrize("version", [1, 2])
def test_they_are_so_in_runs_that_go_on_too(shop: Any, tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content, logs = shop
    monkeypatch.chdir(tmp_path)
    paths = write_files(tmp_path / "all", logs[version], seed=10 + version)
    folder = tmp_path / "in"
    folder.mkdir()
    cuts = sorted(random.Random(version).sample(range(1, len(paths)), 2))
    command = ["table", "--input", "in", "--format", "wal2json", "--table", "orders", "--state-dir", "state", "--latest", "now.jsonl"]
    for begin, stop in zip([0, *cuts], [*cuts, len(paths)], strict=True):
        for path in paths[begin:stop]:
            path.rename(folder / path.name)
        assert commands.main(command) == 0
    rows = sorted((row["id"], row["customer_id"], row["product_id"], row["amount"]) for row in read_lines(Path("now.jsonl")))
    assert [row[:3] for row in rows] == [row[:3] for row in content["orders"]]
    assert [row[3] for row in rows] == [None if row[3] is None else float(row[3]) for row in content["orders"]]


@pytest.mark.parametrize("version", [1, 2])
def test_a_reader_that_is_killed_and_started_again_loses_nothing(postgres: str, tmp_path: Path, version: int) -> None:
    conninfo = database(postgres, f"killed_{version}")
    slot = f"killed_{version}"
    shop = Shop(conninfo, seed=version, slots=(slot,))
    writing = threading.Thread(target=shop.transact, args=(TRANSACTIONS,), kwargs={"looks": 1})
    writing.start()
    chance = random.Random(version)
    for number in range(4):
        path = tmp_path / f"{number // 2}.jsonl"  # two of them write into one file
        reader = subprocess.Popen(receive(conninfo, slot, version, path))
        size = (path.stat().st_size if path.exists() else 0) + chance.randrange(1, 60_000)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not (path.exists() and path.stat().st_size >= size):
            time.sleep(0.001)
        reader.kill()
        reader.wait()
        if number == 0:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                copied(connection, 10_000)
    writing.join()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("TRUNCATE regions" if version == 2 else "DELETE FROM regions")
        (end,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone() or ("",)
        connection.execute("CREATE TABLE after_the_end ()")
    with path.open("ab") as cut:  # whatever the kills have left, a line is cut off at the end of the file
        cut.write(b'{"action":"I","timest' if version == 2 else b'{"nextls')
    subprocess.run([*receive(conninfo, slot, version, tmp_path / "9.jsonl"), "--endpos", end], check=True, timeout=60)
    assert tables_of(str(tmp_path / "*.jsonl")) == held(conninfo)


def receive(conninfo: str, slot: str, version: int, path: Path) -> list[str]:
    options = [f"--option={name}={value}" for name, value in {"format-version": str(version), **OPTIONS}.items()]
    program = str((programs.postgres() or Path()) / "pg_recvlogical")
    return [program, "--dbname", conninfo, "--slot", slot, "--start", "--no-loop", "--file", str(path), *options]
