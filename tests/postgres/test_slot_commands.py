"""The commands read tables of a slot: made, shown and dropped by beam-joins slot, whole whenever a run is killed."""

import multiprocessing
import os
import random
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins.pipelines.commands import programs
from beam_joins.pipelines.systems.postgres import slot_rounds
from tests.object_store import Forbidden, Store
from tests.pipelines.orders_run import Run, read_lines
from tests.pipelines.test_killed_on_a_store import process_ends
from tests.postgres.shop import JOINED, join_options, joined, shop, transact
from tests.postgres.slot_tables import asked, run, writing


def test_a_slot_is_made_shown_read_in_runs_and_dropped(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "commands")
    ran = beam_joins("slot", "create", address, "--tables", "public.orders,customers")
    assert (ran.code, ran.out) == (0, "slot commands is there, with the publication commands of public.orders, public.customers\n"), (
        ran
    )
    assert beam_joins(*join_options(address)).code == 0
    assert joined() == asked(conninfo, JOINED)
    runs = [*join_options(address), "--state-dir", "state", "--changes", "changes"]
    assert beam_joins(*runs).code == 0
    assert joined() == asked(conninfo, JOINED)
    run(
        conninfo,
        "BEGIN; UPDATE customers SET name = 'A' WHERE id = 7; DELETE FROM orders WHERE id = 57; COMMIT",
        "ALTER TABLE orders ADD COLUMN note text DEFAULT 'x'",
        "UPDATE orders SET id = 1000 WHERE id = 107",
        "CHECKPOINT",
    )
    shown = beam_joins("slot", "show", address).out
    assert "of pgoutput" in shown
    assert "bytes behind the server\npublication  commands, of public.customers, public.orders" in shown
    ran = beam_joins(*runs)
    assert (ran.code, ran.err) == (0, ""), ran
    assert "slot commands: 2 transactions, " in ran.out
    assert "; read as they are: public.orders" in ran.out
    assert "secret" not in ran.out + shown
    assert not any(b"secret" in path.read_bytes() for path in Path("state").rglob("*") if path.is_file())
    assert joined() == asked(conninfo, JOINED)
    changes = [each for each in read_lines(Path("changes/changes-000002.jsonl")) if each["old"] != each["new"]]
    assert len(changes) == 10 + 2, "the orders of a customer, and one that gets another key: rows that are read anew are the same"
    assert beam_joins(*runs).out == "no new transactions: nothing to do\n"
    assert "dropped the slot commands and the publication commands" in beam_joins("slot", "drop", address).out
    ran = beam_joins(*runs)
    assert (ran.code, ran.err.partition(": ")[2]) == (
        2,
        "there is no slot commands: make it with beam-joins slot create, and with an empty state, as changes since the "
        "last run are missing\n",
    )


@pytest.mark.parametrize(
    ("statements", "arguments", "message"),
    [
        (["ALTER TABLE orders REPLICA IDENTITY NOTHING"], [], "the REPLICA IDENTITY of public.orders is NOTHING"),
        (["ALTER TABLE orders DROP CONSTRAINT orders_pkey"], [], "public.orders has no primary key"),
        ([], ["--tables", "nowhere.orders"], "there is no table nowhere.orders"),
        ([], ["--tables", ""], "there is no publication refused"),
    ],
)
def test_a_slot_that_could_not_be_read_is_not_made(
    postgres: str, beam_joins: Run, statements: list[str], arguments: list[str], message: str
) -> None:
    conninfo, address = shop(postgres, "refused")
    try:
        run(conninfo, *statements)
        ran = beam_joins("slot", "create", address, *(arguments or ["--tables", "orders,customers"]))
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
        assert message in ran.err
        assert (
            asked(conninfo, "SELECT FROM pg_publication")
            == asked(conninfo, "SELECT FROM pg_replication_slots WHERE slot_name = 'refused'")
            == []
        )
    finally:
        run(postgres, "DROP DATABASE refused")


def test_what_is_missing_to_read_a_slot_is_said_in_a_sentence(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "missing")
    assert beam_joins("slot", "create", address, "--tables", "orders").code == 0
    run(
        conninfo,
        "CREATE ROLE plain LOGIN",
        "CREATE ROLE replicating LOGIN REPLICATION",
        "SELECT pg_create_logical_replication_slot('json', 'wal2json')",
    )
    plain, other = address.replace("test:secret", "plain"), address.replace("test:secret", "replicating")
    for path, message in (
        (address, "the publication missing has no table customers; it has public.orders"),
        (address.replace("slot=missing", "slot=json"), "the slot json is of the plugin wal2json"),
        (address.replace("/missing?", "/postgres?"), "the slot missing is of another database"),
        (address.partition("?")[0], "--left: name a slot in the address"),
        (f"{address}&publication=none", "there is no publication none"),
        (address.replace(":secret@127.0.0.1", "@127.0.0.2"), "PostgreSQL, slot missing: connection failed: "),
    ):
        ran = beam_joins(*join_options(path))
        code = 1 if "127.0.0.2" in path else 2  # a server that does not answer may do so later
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran
        assert message in ran.err
    for path, message in (
        (plain, "the role needs REPLICATION"),
        (other, "permission denied for table orders: the role needs the privilege"),
    ):
        ran = beam_joins("table", "--input", path, "--table", "orders", "--latest", "o.jsonl")
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
        assert message in ran.err
    run(conninfo, "GRANT SELECT ON orders TO replicating")
    assert beam_joins("table", "--input", other, "--table", "orders", "--latest", "o.jsonl").code == 0
    assert beam_joins("slot", "show", other).code == 0
    assert "give both the same address" in beam_joins("join", "--left", address, "--right", "r.jsonl", "--latest", "o.jsonl").err
    assert "--left-table must name a table" in beam_joins("join", "--left", address, "--right", address, "--latest", "o.jsonl").err


def test_what_holds_a_slot_or_a_table_and_what_helps_is_said(postgres: str, beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    conninfo, address = shop(postgres, "held")
    monkeypatch.setattr(slot_rounds, "_ACTIVE_SECONDS", 0.5)
    patient = f"{address}&options=-c%20lock_timeout%3D500ms"
    with psycopg.connect(f"{conninfo} application_name=nightly") as holding:
        holding.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        ran = beam_joins("slot", "create", patient, "--tables", "orders")
    assert re.search(
        r"lock timeout, as it is locked \(process \d+ of test in held \(nightly, idle in transaction\)\): end that, or let it wait",
        ran.err,
    ), ran
    run(
        conninfo,
        'CREATE SCHEMA "a.b"',
        'CREATE TABLE "a.b".t (id int PRIMARY KEY)',
        'INSERT INTO "a.b".t VALUES (7)',
        'ALTER TABLE "a.b".t ENABLE ROW LEVEL SECURITY',
        'CREATE ROLE hidden LOGIN REPLICATION; GRANT USAGE ON SCHEMA "a.b" TO hidden; GRANT SELECT ON "a.b".t TO hidden',
    )
    assert beam_joins("slot", "create", address, "--tables", "a.b.t").code == 0
    read = ["table", "--table", "a.b.t", "--latest", "t.jsonl", "--input"]
    ran = beam_joins(*read, address.replace("test:secret", "hidden"))
    assert 'row-level security policy for table "t": the role needs BYPASSRLS (ALTER ROLE)' in ran.err, ran
    run(conninfo, "ALTER ROLE hidden BYPASSRLS")
    assert beam_joins(*read, address.replace("test:secret", "hidden")).code == 0
    assert read_lines(Path("t.jsonl")) == [{"id": 7}]
    runs = [*read, address, "--state-dir", "state"]
    assert beam_joins(*runs).code == 0
    run(conninfo, 'INSERT INTO "a.b".t VALUES (8)', "CHECKPOINT")
    with closing(psycopg.connect(conninfo, autocommit=True, replication="database", application_name="other")) as using:
        options = "proto_version '1', publication_names 'held'"
        using.pgconn.exec_(f"START_REPLICATION SLOT held LOGICAL 0/0 ({options})".encode())
        ran = beam_joins(*runs)
        said = r"active for PID \d+ \(process \d+ of test in held \(other, active\)\): stop it, or give each job a slot"
        assert re.search(said, ran.err), ran


def test_a_slot_is_read_in_runs_whose_state_is_in_a_store_also_where_a_run_fails(postgres: str, beam_joins: Run, store: Store) -> None:
    conninfo, address = shop(postgres, "stored")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    runs = [
        *join_options(address),
        "--state-dir",
        "bucket://state/s",
        "--changes",
        "bucket://out/changes",
        "--latest",
        "bucket://out/now.jsonl",
    ]

    def is_joined() -> bool:
        Path("now.jsonl").write_bytes(store.objects["bucket://out/now.jsonl"])
        return joined() == asked(conninfo, JOINED)

    assert beam_joins(*runs).code == 0
    assert is_joined()
    run(conninfo, "UPDATE customers SET name = 'A' WHERE id = 7", "DELETE FROM orders WHERE id = 57", "CHECKPOINT")
    with store.failing("upload", "commit.json", Forbidden):
        ran = beam_joins(*runs)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran
    process_ends(store)
    for _ in range(2):
        assert beam_joins(*runs).code == 0
        assert is_joined()
    assert store.names("bucket://out/") == ["changes/changes-000001.jsonl", "changes/changes-000002.jsonl", "now.jsonl"]


def test_a_first_run_over_empty_tables_knows_their_columns(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "empty")
    run(conninfo, "TRUNCATE orders, customers")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    runs = [*join_options(address), "--state-dir", "state", "--changes", "changes-*.parquet"]
    first = beam_joins(*runs)
    assert (first.code, joined()) == (0, []), first
    run(conninfo, "INSERT INTO customers VALUES (1, 'Ann')", "INSERT INTO orders VALUES (1, 1, 5)", "CHECKPOINT")
    ran = beam_joins(*runs)
    assert (ran.code, joined()) == (0, asked(conninfo, JOINED)), ran
    types = [pq.read_schema(path).field("new").type for path in sorted(Path().glob("changes-*.parquet"))]
    assert (
        types
        == [pa.struct([("id", pa.int32()), ("customer", pa.int32()), ("amount", pa.decimal128(12, 2)), ("name", pa.string())])] * 2
    )


def test_an_empty_table_is_read_without_a_state_by_the_key_that_the_database_says(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "empty_alone")
    run(conninfo, "TRUNCATE orders")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    ran = beam_joins("table", "--input", address, "--table", "orders", "--latest", "o.parquet")
    assert (ran.code, pq.read_table("o.parquet").to_pylist()) == (0, []), ran
    assert pq.read_schema("o.parquet").names == ["id", "customer", "amount"]
    ran = beam_joins(*join_options(address))
    assert (ran.code, joined()) == (0, []), ran
    ran = beam_joins(*join_options(address), "--dry-run")
    assert (ran.code, "columns      id: integer, customer: integer, amount: numeric(12,2)" in ran.out) == (0, True), ran
    assert "would read\n  left rows: table public.orders, postgres" in ran.out
    assert "file" not in ran.out, "a table of a slot is no file"


@pytest.mark.parametrize("emptied", ["TRUNCATE customers", "DELETE FROM customers", "TRUNCATE orders", "DELETE FROM orders"])
def test_a_join_with_a_side_without_rows_in_the_first_run_goes_on(postgres: str, beam_joins: Run, emptied: str) -> None:
    conninfo, address = shop(postgres, emptied.replace(" FROM", "").replace(" ", "_").lower())
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    run(conninfo, emptied)
    runs = [*join_options(address), "--state-dir", "state", "--changes", "changes"]
    for statements in ([], ["INSERT INTO customers VALUES (1000, 'Ann')", "INSERT INTO orders VALUES (2000, 1000, 5)"], [emptied]):
        run(conninfo, *statements, "CHECKPOINT")
        ran = beam_joins(*runs)
        assert (ran.code, joined()) == (0, asked(conninfo, JOINED)), ran


def follow(folder: str, options: list[str]) -> None:
    """Runs until somebody ends the process."""
    os.chdir(folder)
    programs.main(options)


@pytest.mark.parametrize("kills", [8, pytest.param(80, marks=pytest.mark.sweep)])
def test_runs_that_are_killed_at_any_moment_lose_and_double_nothing(postgres: str, beam_joins: Run, kills: int) -> None:
    conninfo, address = shop(postgres, f"killed_{kills}")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    options = [*join_options(address), "--state-dir", "state", "--changes", "changes"]
    chance, warm = random.Random(kills), multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(["beam_joins.pipelines.commands.incremental_runs", "beam_joins.pipelines.commands.follow", "psycopg"])

    def killed_after(seconds: float) -> None:
        program = warm.Process(target=follow, args=[os.getcwd(), [*options, "--follow", "--every", "10ms"]])
        program.start()
        time.sleep(seconds)
        while not list(Path("changes").glob("*.jsonl")):  # the first run is whole: it tells how long a run takes
            assert program.is_alive(), program.exitcode
            time.sleep(0.01)
        assert program.is_alive(), program.exitcode
        program.kill()
        program.join()

    begin = time.monotonic()
    killed_after(0)
    a_run, committed = time.monotonic() - begin, 1
    with writing(conninfo, transact):
        for _ in range(kills):
            killed_after(2 * a_run * chance.random())
            now = len(list(Path("changes").glob("*.jsonl")))
            a_run *= 1.4 if now == committed else 0.8
            committed = now
    assert committed > kills // 5
    run(conninfo, "CHECKPOINT")
    for _ in range(2):
        assert beam_joins(*options).code == 0
    assert joined() == asked(conninfo, JOINED)
    rows: dict[int, Any] = {}
    for path in sorted(Path("changes").iterdir()):
        for change in read_lines(path):
            assert rows.get(change["key"]) == change["old"], change
            rows[change["key"]] = change["new"]
    now = {tuple(row.values()) for row in rows.values() if row is not None}
    assert {(*row[:2], f"{row[2]:.2f}", *row[3:]) for row in now} == {*joined()}
