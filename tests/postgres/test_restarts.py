"""A command that follows goes on when the server of its source and of its target is restarted, or ends connections."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests import programs
from tests.pipelines.orders_run import ENVIRONMENT, Run
from tests.postgres.server import Server, restartable
from tests.postgres.shop import JOINED, join_options, shop, transact
from tests.postgres.slot_tables import asked, run

pytestmark = pytest.mark.postgres
ENRICHED = "SELECT id, customer, amount::text, name FROM enriched_live"


@contextmanager
def following(address: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command at work, which writes what it says into files."""
    command = [sys.executable, "-m", "beam_joins", *join_options(address)[:-2], "--state-dir", "state"]
    command += ["--to", f"{address.partition('?')[0]}?table=enriched", "--follow", "--every", "100ms", *options]
    with Path("out.txt").open("wb") as out, Path("err.txt").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(present: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not present():
        assert time.monotonic() < until, Path("out.txt").read_text() + Path("err.txt").read_text()
        time.sleep(0.05)


def is_joined(conninfo: str) -> bool:
    with suppress(psycopg.Error):
        return asked(conninfo, ENRICHED) == asked(conninfo, JOINED)
    return False


@pytest.fixture
def restarted(beam_joins: Run) -> Iterator[Server]:
    """A server of the test's own: it is stopped and started again."""
    with restartable(programs.needed("PostgreSQL with wal2json", programs.postgres())) as running:
        yield running


def test_a_restart_of_the_server_is_waited_for_with_a_line_an_attempt(restarted: Server, beam_joins: Run) -> None:
    conninfo, address = shop(restarted.conninfo, "restarts")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    with following(address) as process:
        wait_for(lambda: is_joined(conninfo))
        restarted.stop("fast")
        wait_for(lambda: Path("err.txt").read_text().count("next attempt in ") >= 2)
        restarted.start()
        run(conninfo, "UPDATE customers SET name = 'after'")
        wait_for(lambda: is_joined(conninfo))
        run(conninfo, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'restarts'")
        run(conninfo, "UPDATE customers SET name = 'again'")
        wait_for(lambda: is_joined(conninfo))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, Path("err.txt").read_text()
    attempts = [line for line in Path("err.txt").read_text().splitlines() if "next attempt" in line]
    assert [line for line in attempts if not line.startswith("python -m beam_joins join: PostgreSQL, ")] == []
    assert [line.partition("next attempt in ")[2] for line in attempts[:2]] == ["1 s (--retry-for)", "2 s (--retry-for)"]
    assert Path("out.txt").read_text().splitlines()[-1].startswith("stopped after ")


def test_a_server_that_stays_away_ends_the_command_with_code_1_and_the_next_start_goes_on(restarted: Server, beam_joins: Run) -> None:
    conninfo, address = shop(restarted.conninfo, "away")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    with following(address, "--retry-for", "2s") as process:
        wait_for(lambda: is_joined(conninfo))
        restarted.stop("immediate")
        assert process.wait(60) == 1
    *attempts, last = Path("err.txt").read_text().splitlines()
    assert len(attempts) >= 2
    assert "next attempt" not in last
    assert last.startswith("python -m beam_joins join: PostgreSQL, ")
    with following(address) as process:  # an address may be wrong: the first round is not repeated
        assert process.wait(60) == 1
    assert len(Path("err.txt").read_text().splitlines()) == 1
    restarted.start()
    run(conninfo, "UPDATE customers SET name = 'later'")
    with following(address):
        wait_for(lambda: is_joined(conninfo))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_restarts_at_any_moment_lose_nothing_and_double_nothing(restarted: Server, beam_joins: Run, seed: int) -> None:
    conninfo, address = shop(restarted.conninfo, f"restarts_{seed}")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    chance = random.Random(seed)
    with following(address) as process:
        wait_for(lambda: is_joined(conninfo))
        for number in range(8):
            with psycopg.connect(conninfo, autocommit=True) as connection:
                for each in range(chance.randint(1, 12)):
                    transact(connection, 100 * seed + 20 * number + each)
            time.sleep(chance.random() / 2)
            restarted.stop(chance.choice(["fast", "immediate"]))
            restarted.start()
        wait_for(lambda: is_joined(conninfo))
        assert process.poll() is None


def test_a_server_that_is_down_gives_code_1_and_a_wrong_address_code_2(restarted: Server, beam_joins: Run) -> None:
    conninfo, address = shop(restarted.conninfo, "codes")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    one_run = [*join_options(address)[:-2], "--state-dir", "state", "--latest", "now.jsonl"]
    assert beam_joins(*one_run).code == 0
    gone = [each.replace("/codes?", "/nowhere?") for each in one_run]
    assert beam_joins(*gone).code == 2
    restarted.stop("fast")
    ran = beam_joins(*one_run)
    assert ran.code == 1
    assert "PostgreSQL, slot codes: " in ran.err, ran
    assert beam_joins("slot", "show", address).code == 1


def test_what_is_merged_is_on_the_disk_of_a_server_that_commits_without_waiting(restarted: Server, beam_joins: Run) -> None:
    conninfo = restarted.conninfo
    run(conninfo, "ALTER SYSTEM SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
    Path("in").mkdir()
    target = f"postgres://test@127.0.0.1:{psycopg.conninfo.conninfo_to_dict(conninfo)['port']}/postgres?table=rows"
    one_run = ["table", "--input", "in", "--state-dir", "state", "--to", target, "--sequence-by=", "--apply-as-deletes=", "--key=id"]
    for number in (1, 2):
        Path(f"in/{number}.jsonl").write_text(f'{{"id": {number}, "updated_at": {number}}}\n')
        assert beam_joins(*one_run).code == 0
        restarted.stop("immediate")
        restarted.start()
        assert asked(conninfo, "SELECT id FROM rows_live") == [(each,) for each in range(1, number + 1)]
