"""A place in the log of one server is none in that of another; what a run waits for is said."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from beam_joins.errors import InputError
from beam_joins.pipelines.commands import programs as commands
from tests import programs
from tests.pipelines.orders_run import Run
from tests.postgres.server import server
from tests.postgres.slot_tables import asked, database, run, tables

pytestmark = pytest.mark.postgres
TABLE = "CREATE TABLE t (id int PRIMARY KEY, amount int)"


def bin_() -> Path:
    return programs.needed("PostgreSQL with wal2json", programs.postgres())


def port_of(conninfo: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(conninfo)["port"])  # type: ignore[arg-type]


def test_the_slot_of_another_server_at_the_same_address_is_refused_and_stays_where_it_is(tmp_path: Path) -> None:
    with server(bin_()) as first:
        conninfo = database(first, "shop", TABLE, "INSERT INTO t VALUES (1, 10)")
        for _ in range(3):
            run(conninfo, "CREATE TABLE more ()", "SELECT pg_switch_wal()", "DROP TABLE more")
        assert tables(conninfo, ["t"], tmp_path)["t"] == [(1, 10)]
        port = port_of(first)
    with server(bin_(), port) as second:
        conninfo = database(second, "shop", TABLE, "INSERT INTO t VALUES (1, 10)")
        read_up_to = asked(conninfo, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots")
        run(conninfo, "INSERT INTO t VALUES (2, 20)")
        with pytest.raises(
            InputError, match=r"^the slot shop is of another server \(system identifier \d+\) than the last run .*empty state$"
        ):
            tables(conninfo, ["t"], tmp_path)
        assert asked(conninfo, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots") == read_up_to
        assert tables(conninfo, ["t"], tmp_path / "anew")["t"] == [(1, 10), (2, 20)]


def test_behind_a_promotion_tables_are_read_anew_and_an_earlier_backup_is_refused(tmp_path: Path) -> None:
    backup, earlier = tmp_path / "backup", tmp_path / "earlier"
    with server(bin_()) as primary:
        conninfo = database(primary, "shop", TABLE, "INSERT INTO t VALUES (1, 10)")
        subprocess.run([bin_() / "pg_basebackup", "--pgdata", earlier, "--dbname", primary, "--checkpoint=fast"], check=True)
        run(
            conninfo,
            *(f"INSERT INTO t VALUES ({n}, 0)" for n in range(2, 300)),
            "SELECT pg_switch_wal()",
            "INSERT INTO t VALUES (300, 0)",
        )
        assert len(tables(conninfo, ["t"], tmp_path / "state")["t"]) == 300
        run(conninfo, "UPDATE t SET amount = 11 WHERE id = 1", "DELETE FROM t WHERE id > 5")
        subprocess.run([bin_() / "pg_basebackup", "--pgdata", backup, "--dbname", primary, "--checkpoint=fast"], check=True)
        port = port_of(primary)
    with server(bin_(), port, backup) as promoted:
        conninfo = promoted.replace("dbname=postgres", "dbname=shop")
        run(conninfo, "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')", "INSERT INTO t VALUES (6, 60)")
        assert tables(conninfo, ["t"], tmp_path / "state")["t"] == asked(conninfo, "SELECT * FROM t")
        run(conninfo, "INSERT INTO t VALUES (7, 70)")
        assert tables(conninfo, ["t"], tmp_path / "state")["t"] == asked(conninfo, "SELECT * FROM t")
    with server(bin_(), port, earlier) as restored:
        conninfo = restored.replace("dbname=postgres", "dbname=shop")
        run(conninfo, "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        with pytest.raises(
            InputError, match=r"^the server's log ends at .*, where the last run ended, as after a restore: begin with an empty"
        ):
            tables(conninfo, ["t"], tmp_path / "state")


def test_tables_are_read_anew_where_files_were_put_back_and_the_log_has_gone_on_with_others(tmp_path: Path) -> None:
    copy, state = tmp_path / "copy", tmp_path / "state"
    with server(bin_()) as first:
        conninfo = database(first, "shop", TABLE, "INSERT INTO t VALUES (1, 10)")
        assert tables(conninfo, ["t"], state)["t"] == [(1, 10)]
        assert tables(conninfo, ["t"], state)["t"] == [(1, 10)], "nothing was written since"
        ((data,),) = asked(conninfo, "SHOW data_directory")
        run(conninfo, "CHECKPOINT")
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("postmaster.pid"))
        run(conninfo, "INSERT INTO t VALUES (2, 20)", "UPDATE t SET amount = 11 WHERE id = 1")
        assert tables(conninfo, ["t"], state)["t"] == [(1, 11), (2, 20)]
        port = port_of(first)
    with server(bin_(), port, copy, promoted=False):
        assert asked(conninfo, "SELECT * FROM t") == [(1, 10)]
        run(conninfo, "INSERT INTO t VALUES (3, 30)", "SELECT pg_switch_wal()", "INSERT INTO t VALUES (4, 40)")
        assert tables(conninfo, ["t"], state)["t"] == asked(conninfo, "SELECT * FROM t") == [(1, 10), (3, 30), (4, 40)]
        run(conninfo, "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (5, 50)")
        assert tables(conninfo, ["t"], state)["t"] == asked(conninfo, "SELECT * FROM t")


@pytest.mark.parametrize("kind", ["open", "prepared"])
def test_a_run_that_waits_for_an_open_transaction_names_it_and_ends(postgres: str, tmp_path: Path, kind: str, caplog: Any) -> None:
    conninfo = database(postgres, f"waits_{kind}", TABLE, "CREATE TABLE other (id int)", "INSERT INTO t VALUES (1, 10)")
    patient = f"{conninfo} options='-c lock_timeout=5s'"
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO other VALUES (1)")
        if kind == "prepared":
            connection.execute("PREPARE TRANSACTION 'night'")
            connection.autocommit = True
        named = (
            "the prepared transaction 'night' of test" if kind == "prepared" else rf"process {connection.info.backend_pid} of test in"
        )
        with pytest.raises(InputError, match=rf"waited 5 s for open transactions of the server: {named} .*: end them, or let it wait"):
            tables(patient, ["t"], tmp_path)
        assert "waiting for open transactions of the server" in caplog.text
        assert asked(conninfo, "SELECT FROM pg_replication_slots WHERE temporary") == []
        if kind == "prepared":
            connection.execute("ROLLBACK PREPARED 'night'")
    assert tables(patient, ["t"], tmp_path)["t"] == [(1, 10)]


def first_run(folder: str, options: list[str]) -> None:
    """A run of a process of its own."""
    os.chdir(folder)
    os._exit(commands.main(options))


@pytest.mark.process
def test_a_run_that_waits_hears_a_signal_and_leaves_nothing(postgres: str, beam_joins: Run) -> None:
    conninfo = database(postgres, "interrupted", TABLE, "CREATE TABLE other (id int)")
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    address = f"postgres://test@{parts['host']}:{parts['port']}/interrupted?slot=interrupted&publication=s"
    options = ["table", "--input", address, "--table", "public.t", "--state-dir", "state", "--latest", "t.jsonl"]
    temporary = "SELECT FROM pg_replication_slots WHERE temporary"
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO other VALUES (1)")
        program = multiprocessing.get_context("forkserver").Process(target=first_run, args=[os.getcwd(), options])
        program.start()
        while not asked(conninfo, temporary):
            assert program.is_alive(), program.exitcode
            time.sleep(0.1)
        os.kill(program.pid or 0, signal.SIGTERM)
        program.join()
    assert program.exitcode == 128 + signal.SIGTERM
    while asked(conninfo, temporary):  # the server ends it as soon as it has heard of it
        time.sleep(0.1)
    assert not Path("t.jsonl").exists()
