"""Large values of a real PostgreSQL whose tables have REPLICA IDENTITY DEFAULT: its log leaves them out of
updates that do not change them.
"""

import json
import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pytest

from beam_joins import LatestTable
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.commands import programs as commands
from tests.pipelines.orders_run import read_lines
from tests.postgres.test_slot_files import OPTIONS, database, transactions

STEPS = 400
LARGE = 4_000
COLUMNS = ("name", "bio", "notes", "scores", "blob")
IDENTITIES = {"by_default": "DEFAULT", "by_full": "FULL", "by_index": "USING INDEX by_index_code_key"}
KEYS = {"by_default": "id", "by_full": "id", "by_index": "code"}
Content = dict[str, list[tuple[Any, ...]]]


def large(chance: random.Random) -> str:
    """Text that does not become small when it is compressed."""
    return chance.randbytes(LARGE // 2).hex()


def value_of(column: str, chance: random.Random) -> Any:
    if column == "scores":
        return [chance.randrange(10**9) for _ in range(LARGE // 4)]
    if column == "blob":
        return chance.randbytes(LARGE)
    return chance.choice((None, "small", large(chance))) if column != "name" else f"n{chance.randrange(100)}"


def change(connection: psycopg.Connection[Any], table: str, chance: random.Random) -> None:
    """One to three changes of a table in a transaction."""
    with connection.transaction():
        for _ in range(chance.randint(1, 3)):
            key = chance.randrange(12)
            if chance.random() < 0.1:
                connection.execute(f"DELETE FROM {table} WHERE id = %s", [key])
            elif connection.execute(f"SELECT 1 FROM {table} WHERE id = %s", [key]).fetchone() is None:
                row = [value_of(column, chance) for column in COLUMNS]
                connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s, %s)", [key, f"code {key}", *row])
            else:
                names = chance.sample(COLUMNS, chance.randint(1, 2))
                assigned = ", ".join(f"{name} = %s" for name in names)
                connection.execute(f"UPDATE {table} SET {assigned} WHERE id = %s", [*(value_of(name, chance) for name in names), key])


@pytest.fixture(scope="module")
def written(postgres: str) -> tuple[Content, dict[int, list[list[bytes]]]]:
    """What the database holds, and the lines of its transactions in both formats."""
    conninfo, chance = database(postgres, "large_values"), random.Random(11)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for table, identity in IDENTITIES.items():
            connection.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY, code text NOT NULL UNIQUE, name text, bio text, notes text, "
                "scores int[], blob bytea)"
            )
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
        for version in (1, 2):
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", [f"large_{version}"])
        for _ in range(STEPS):
            for table in IDENTITIES:
                change(connection, table, chance)
        content = {table: sorted(connection.execute(f"SELECT id, name, bio, notes FROM {table}").fetchall()) for table in IDENTITIES}
        connection.execute("CHECKPOINT")  # only what has been flushed is decoded
        logs = {}
        for version in (1, 2):
            inputs = [each for option in {"format-version": str(version), **OPTIONS}.items() for each in option]
            marks = ", ".join(["%s"] * len(inputs))
            actual = connection.execute(
                f"SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, {marks})", [f"large_{version}", *inputs]
            ).fetchall()
            lines = [f"{line}\n".encode() for (line,) in actual]
            logs[version] = [[line] for line in lines] if version == 1 else transactions(lines)
    return content, logs


def file_of(folder: Path, log: list[list[bytes]]) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    path.write_bytes(b"".join(line for lines in log for line in lines))
    return str(path)


def left_out(log: list[list[bytes]], table: str) -> int:
    """How many updates of a table do not have all columns."""
    changes = [json.loads(line) for lines in log for line in lines if json.loads(line).get("action") == "U"]
    return sum(len(each["columns"]) < len(COLUMNS) + 2 for each in changes if each["table"] == table)


_rows: list[tuple[str, dict[str, Any]]] = []


def _see(row: tuple[Any, dict[str, Any]], table: str) -> None:
    _rows.append((table, row[1]))


@pytest.mark.parametrize("version", [1, 2])
def test_the_tables_of_the_log_are_those_of_the_database_whatever_the_replica_identity(
    written: tuple[Content, dict[int, list[list[bytes]]]], tmp_path: Path, version: int
) -> None:
    content, logs = written
    assert all(left_out(logs[2], table) > STEPS // 4 for table in IDENTITIES)
    path = file_of(tmp_path / "log", logs[version])
    _rows.clear()
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        for table in IDENTITIES:
            read = pipeline | table >> ReadChangeEvents(path, format="wal2json", table=f"public.{table}", key=KEYS[table], schema=None)
            _ = read | f"latest {table}" >> LatestTable() | f"see {table}" >> beam.Map(_see, table)
    for table, rows in content.items():
        assert sorted(tuple(row[name] for name in ("id", "name", "bio", "notes")) for of, row in _rows if of == table) == rows


@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.sweep), 2])
def test_they_are_so_in_runs_that_go_on_too(
    written: tuple[Content, dict[int, list[list[bytes]]]], tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, logs = written
    monkeypatch.chdir(tmp_path)
    log, chance = logs[version], random.Random(version)
    cuts = sorted(chance.sample(range(1, len(log)), 3))
    inputs = (
        "--format",
        "wal2json",
        "--table",
        "public.by_default",
        "--state-dir",
        "state",
        "--latest",
        "now.jsonl",
        "--changes",
        "changes",
    )
    for start, stop in zip([0, *cuts], [*cuts, len(log)], strict=True):
        file_of(tmp_path / "in", log[start:stop])
        assert commands.main(["table", "--input", "in", *inputs]) == 0
    actual = [tuple(row[name] for name in ("id", "name", "bio", "notes")) for row in read_lines(tmp_path / "now.jsonl")]
    assert sorted(actual) == content["by_default"]
