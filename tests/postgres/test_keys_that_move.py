"""Keys of a real PostgreSQL that move, are swapped and rotate: the table of the log is the server's at every commit."""

import json
import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pytest

from beam_joins import TableToChanges
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.commands import programs as commands
from beam_joins.pipelines.formats.envelopes.row_change import lsn
from tests.pipelines.orders_run import read_lines
from tests.postgres.test_slot_files import OPTIONS, database, transactions

TRANSACTIONS = 300
TABLES = {
    "at_once": ("key int PRIMARY KEY, guest text", "DEFAULT"),
    "whole_rows": ("key int PRIMARY KEY, guest text", "FULL"),
    "at_the_end": ("key int PRIMARY KEY DEFERRABLE, guest text", "FULL"),
    "at_commit": ("key int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, guest text", "FULL"),
    "by_index": ("key int NOT NULL UNIQUE, guest text, id serial PRIMARY KEY", "USING INDEX by_index_key_key"),
}
"""The columns and the REPLICA IDENTITY of each."""
MOVES = (
    "UPDATE {table} SET key = key + 1",
    "UPDATE {table} SET key = 11 - key",
    "UPDATE {table} SET key = (key + 1) % 3 WHERE key < 3",
)
Content = dict[int, str]
Log = list[list[bytes]]


def transact(connection: psycopg.Connection[Any], table: str, number: int, chance: random.Random) -> Content:
    """Some statements and what the table holds behind them; one that the server refuses undoes the transaction."""
    with connection.transaction():  # a key that is checked at the commit is refused here
        connection.execute("INSERT INTO commits VALUES (%s)", [number])
        for _ in range(chance.randint(1, 3)):
            key, other, guest = chance.randrange(10), chance.randrange(10), f"g{chance.randrange(4)}"
            kind = chance.choice(("insert", "insert", "delete", "update", "swap", "move", "meet"))
            if kind == "insert":
                connection.execute(f"INSERT INTO {table} (key, guest) VALUES ({key}, '{guest}')")
            elif kind == "delete":
                connection.execute(f"DELETE FROM {table} WHERE key = {key}")
            elif kind == "update":
                connection.execute(f"UPDATE {table} SET guest = '{guest}' WHERE key = {key}")
            elif kind == "swap" and key != other:
                for before, after in ((key, -1), (other, key), (-1, other)):
                    connection.execute(f"UPDATE {table} SET key = {after} WHERE key = {before}")
            elif kind == "move":
                connection.execute(chance.choice(MOVES).format(table=table))
            elif kind == "meet":  # another row comes to a key, and one of the two leaves it, unless the key is checked before
                connection.execute(f"INSERT INTO {table} (key, guest) VALUES ({key}, 'new')")
                connection.execute(f"UPDATE {table} SET guest = guest || '!' WHERE key = {key} AND guest <> 'new'")
                leaves = chance.choice(("guest = 'new'", "guest <> 'new'"))
                connection.execute(f"UPDATE {table} SET key = {other} + 20 WHERE key = {key} AND {leaves}")
        connection.execute(f"DELETE FROM {table} WHERE key NOT BETWEEN 0 AND 11")
        return dict(connection.execute(f"SELECT key, guest FROM {table}").fetchall())


@pytest.fixture(scope="module")
def written(postgres: str) -> tuple[dict[str, dict[int, Content]], dict[int, Log]]:
    """What each table holds at the positions of its commits, and the log in both formats."""
    conninfo, chance = database(postgres, "keys_that_move"), random.Random(16)
    contents = dict[int, tuple[str, Content]]()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE commits (number int PRIMARY KEY)")
        for table, (columns, identity) in TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
        for version in (1, 2):
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", [f"moves_{version}"])
        for number in range(TRANSACTIONS * len(TABLES)):
            table = chance.choice([*TABLES])
            try:
                contents[number] = table, transact(connection, table, number, chance)
            except psycopg.errors.UniqueViolation:
                continue
        connection.execute("CHECKPOINT")  # only what has been flushed is decoded
        logs: dict[int, Log] = {}
        for version in (1, 2):
            inputs = [each for option in {"format-version": str(version), **OPTIONS}.items() for each in option]
            marks = ", ".join(["%s"] * len(inputs))
            actual = connection.execute(
                f"SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, {marks})", [f"moves_{version}", *inputs]
            ).fetchall()
            lines = [f"{line}\n".encode() for (line,) in actual]
            logs[version] = [[line] for line in lines] if version == 1 else transactions(lines)
    expected: dict[str, dict[int, Content]] = {table: {} for table in TABLES}
    for lines in logs[2]:
        parsed = [json.loads(line) for line in lines]
        number = next(line["columns"][0]["value"] for line in parsed if line.get("table") == "commits")
        table, content = contents[number]
        expected[table][lsn(parsed[0]["nextlsn"])] = content
    return expected, logs


def file_of(folder: Path, log: Log) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    path.write_bytes(b"".join(line for lines in log for line in lines))
    return str(path)


def events_of_debezium(log: Log) -> Log:
    """The events that Debezium makes of the same transactions: a row whose primary key changes is deleted and created."""
    made, committed = Log(), 0
    for lines in log:
        parsed = [json.loads(line) for line in lines]
        made.append([])
        for line in (each for each in parsed if each["action"] in ("I", "U", "D")):
            new, old = ({column["name"]: column["value"] for column in line.get(part, ())} for part in ("columns", "identity"))
            place = lsn(line["lsn"])
            source = {"connector": "postgresql", "db": "d", "schema": "public", "table": line["table"], "ts_ms": 1, "lsn": place}
            source["sequence"] = json.dumps([str(committed), str(place)])
            key = "id" if line["table"] == "by_index" else "key"
            moved = line["action"] == "U" and old.get(key, new[key]) != new[key]
            before = None if old == {key: new.get(key)} else old  # a key that has not changed is not in the log
            sides = [("d", old, None)] if moved or line["action"] == "D" else []
            sides += [("c", None, new)] if moved or line["action"] == "I" else [("u", before, new)] if line["action"] == "U" else []
            for op, left, right in sides:
                made[-1].append(json.dumps({"op": op, "before": left, "after": right, "source": source}).encode() + b"\n")
        committed = lsn(parsed[0]["nextlsn"])
    return made


_changes: list[tuple[str, int, int, str | None]] = []


def _see(change: Any, table: str) -> None:
    _changes.append((table, change.position, change.key, None if change.new is None else change.new["guest"]))


@pytest.mark.parametrize("form", ["wal2json 1", "wal2json 2", "debezium"])
def test_the_tables_of_the_log_are_those_of_the_server_at_every_commit(
    written: tuple[dict[str, dict[int, Content]], dict[int, Log]], tmp_path: Path, form: str
) -> None:
    expected, logs = written
    log, format_ = logs[1 if form == "wal2json 1" else 2], form.split()[0]
    if format_ == "debezium":  # its position is the commit before the transaction
        commits = [lsn(json.loads(lines[0])["nextlsn"]) for lines in log]
        before = dict(zip(commits, [0, *commits], strict=False))
        expected = {table: {before[position]: content for position, content in at.items()} for table, at in expected.items()}
        log = events_of_debezium(log)
    path = file_of(tmp_path / "log", log)
    _changes.clear()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        for table in TABLES:
            read = pipeline | table >> ReadChangeEvents(path, format=format_, table=f"public.{table}", key="key", schema=None)
            _ = read | f"changes of {table}" >> TableToChanges() | f"see {table}" >> beam.Map(_see, table)
    for table, at in expected.items():
        assert len(at) > TRANSACTIONS // 4
        waiting, rows = sorted((each[1:] for each in _changes if each[0] == table), key=lambda each: each[0]), Content()
        for position, content in sorted(at.items()):
            while waiting and waiting[0][0] <= position:
                _, key, guest = waiting.pop(0)
                rows.pop(key, None) if guest is None else rows.update({key: guest})
            assert rows == content, (table, position)
        assert waiting == []


@pytest.mark.parametrize("table", TABLES)
def test_they_are_so_in_runs_that_go_on_in_each_of_which_a_part_of_the_log_comes_again(
    written: tuple[dict[str, dict[int, Content]], dict[int, Log]], tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, logs = written
    monkeypatch.chdir(tmp_path)
    log, chance = logs[2], random.Random(table)
    cuts = sorted(chance.sample(range(1, len(log)), 3))
    options = ("--format", "wal2json", "--table", f"public.{table}", "--key", "key", "--state-dir", "state", "--latest", "now.jsonl")
    for start, stop in zip([0, *cuts], [*cuts, len(log)], strict=True):
        file_of(tmp_path / "in", log[max(start - 20, 0) : stop])
        assert commands.main(["table", "--input", "in", *options]) == 0
    assert {row["key"]: row["guest"] for row in read_lines(tmp_path / "now.jsonl")} == max(expected[table].items())[1]
