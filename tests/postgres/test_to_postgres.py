"""From database to database with one command: the table is what SQL joins, as of one commit, whatever is killed."""

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from beam_joins.errors import StateRefused
from beam_joins.pipelines.commands import programs
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.pipelines.orders_run import Run
from tests.postgres.shop import JOINED, join_options, shop, transact
from tests.postgres.slot_tables import asked, run, writing

ENRICHED = "SELECT id, customer, amount::text, name FROM enriched_live"


def options_of(address: str, *more: str) -> list[str]:
    options = [*join_options(address)[:-2], "--state-dir", "state", *more]
    return [*options, "--to", f"{address.partition('?')[0]}?table=enriched"]


def follow(folder: str, options: list[str]) -> None:
    """Runs until somebody ends the process."""
    os.chdir(folder)
    programs.main([*options, "--follow", "--every", "100ms"])


@pytest.mark.parametrize(("states_seen", "kills"), [(5, 2), pytest.param(150, 20, marks=pytest.mark.sweep)])
def test_at_every_moment_the_table_is_the_join_as_of_a_commit(postgres: str, beam_joins: Run, states_seen: int, kills: int) -> None:
    conninfo, address = shop(postgres, f"followed_{kills}")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    states = {hash(()): -1, hash(tuple(asked(conninfo, JOINED))): 0}  # the table is made before it is filled

    def recorded(connection: psycopg.Connection[Any], number: int) -> None:
        with connection.transaction():
            transact(connection, number)
            rows = sorted(connection.execute(JOINED).fetchall())
            states[hash(tuple(rows))] = number + 1  # seen before anybody can read what is joined from it

    chance, warm = random.Random(kills), multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(["beam_joins.pipelines.commands.incremental_runs", "beam_joins.pipelines.commands.follow", "psycopg"])
    actual, kill_at = list[int](), time.monotonic() + 2 * chance.random()

    def started() -> Any:
        program = warm.Process(target=follow, args=[os.getcwd(), options_of(address)])
        program.start()
        return program

    program = started()
    with writing(conninfo, recorded, writers=1):
        while len(actual) < states_seen:
            if kills and time.monotonic() > kill_at:
                program.kill()
                program.join()
                program, kills, kill_at = started(), kills - 1, time.monotonic() + 4 * chance.random()
            assert program.is_alive(), program.exitcode
            if run_if_there(conninfo):
                state = hash(tuple(asked(conninfo, ENRICHED)))
                actual += [state] * (actual[-1:] != [state])
            time.sleep(0.05)
    program.terminate()
    program.join()
    assert program.exitcode in (0, -signal.SIGTERM), "it ends after its round, or has not begun"
    assert [each for each in actual if each not in states] == []
    run(conninfo, "CHECKPOINT")
    for _ in range(2):
        assert beam_joins(*options_of(address)).code == 0
    assert asked(conninfo, ENRICHED) == asked(conninfo, JOINED)


def run_if_there(conninfo: str) -> bool:
    return bool(asked(conninfo, "SELECT FROM pg_class WHERE relname = 'enriched_live'"))


def test_a_run_says_what_it_has_merged_and_a_dry_run_what_it_would_make(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "told")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    looked = beam_joins(*options_of(address), "--dry-run")
    assert looked.code == 0, looked.err
    assert "table enriched, which the first run makes" in looked.out
    assert asked(conninfo, "SELECT FROM pg_class WHERE relname = 'enriched'") == []
    ran = beam_joins(*options_of(address), "--json", "run.json")
    assert ran.code == 0, ran.err
    assert re.search(r"to +500  changes merged into postgres://test@127.0.0.1:\d+/told, table enriched\n", ran.out), ran.out
    assert json.loads(Path("run.json").read_text())["outputs"]["to"]["written_records"] == 500
    run(conninfo, "UPDATE customers SET name = 'A' WHERE id = 7", "DELETE FROM orders WHERE id = 57", "CHECKPOINT")
    ran = beam_joins(*options_of(address))
    assert ran.code == 0, ran.err
    assert asked(conninfo, "SELECT count(*) FROM enriched WHERE deleted") == [(1,)]
    assert asked(conninfo, ENRICHED) == asked(conninfo, JOINED)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert not any(b"secret" in path.read_bytes() for path in files)
    assert "secret" not in looked.out + ran.out
    assert [path.name for path in Path().iterdir() if "to-postgres" in path.name] == []
    shutil.rmtree("state")
    run(conninfo, "INSERT INTO enriched VALUES (-1, 1, 1, 'of a run before', 1, false)")
    assert beam_joins("slot", "drop", address).code == beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    assert beam_joins(*options_of(address)).code == 0
    assert asked(conninfo, ENRICHED) == asked(conninfo, JOINED), "the first run of a state replaces all rows"
    run(conninfo, "DROP TABLE enriched CASCADE", "UPDATE customers SET name = 'B' WHERE id = 7", "CHECKPOINT")
    ran = beam_joins(*options_of(address))
    assert (
        "the table enriched is not there, and would lack what the runs before have written: --read-again left makes it anew" in ran.err
    )
    assert beam_joins(*options_of(address), "--read-again", "left").code == 0
    assert asked(conninfo, ENRICHED) == asked(conninfo, JOINED)
    run(conninfo, "CREATE TABLE older AS TABLE enriched", "UPDATE customers SET name = 'C' WHERE id = 7", "CHECKPOINT")
    assert beam_joins(*options_of(address)).code == 0
    run(conninfo, "TRUNCATE enriched", "INSERT INTO enriched TABLE older", "DELETE FROM orders WHERE id = 58", "CHECKPOINT")
    for more in ([], ["--dry-run"]):
        ran = beam_joins(*options_of(address), *more)
        assert "the table enriched is not as the last run with this state has left it: the row with the key " in ran.err
        assert " is older: --read-again left makes it anew, or begin with an empty --state-dir\n" in ran.err
    assert beam_joins(*options_of(address), "--read-again", "left").code == 0
    assert asked(conninfo, ENRICHED) == asked(conninfo, JOINED)


def test_tables_are_named_for_openlineage_by_server_database_and_schema_without_secrets(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "lineage")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    ran = beam_joins(*options_of(address), "--metrics-file", "m.prom", "--lineage-file", "e.jsonl", "--json", "s.json")
    assert ran.code == 0, ran.err
    server = f"postgres://{address_of(conninfo).rpartition('@')[2].partition('/')[0]}"
    start, complete = map(json.loads, Path("e.jsonl").read_text().splitlines())
    for event in (start, complete):
        named = [[(each["namespace"], each["name"]) for each in event[name]] for name in ("inputs", "outputs")]
        assert named[0] == [(server, "lineage.public.orders"), (server, "lineage.public.customers")]
        assert named[1] == [("file", os.path.abspath("now.jsonl")), (server, "lineage.public.enriched")][-len(named[1]) :]
    columns = {each["name"]: each["type"] for each in complete["inputs"][0]["facets"]["schema"]["fields"]}
    assert columns == {"id": "integer", "customer": "integer", "amount": "numeric(12,2)"}
    read = [each["read_records"] for each in json.loads(Path("s.json").read_text())["inputs"].values()]
    assert [each["inputFacets"]["inputStatistics"]["rowCount"] for each in complete["inputs"]] == read
    assert [each >= rows for each, rows in zip(read, (500, 50), strict=True)] == [True, True]
    assert complete["outputs"][-1]["outputFacets"]["outputStatistics"]["rowCount"] == 500
    assert [each["name"] for each in complete["outputs"][-1]["facets"]["schema"]["fields"]] == ["id", "customer", "amount", "name"]
    assert f'beam_joins_records_read_total{{input="left",pipeline="m"}} {read[0]}.0' in Path("m.prom").read_text()
    assert not any(b"secret" in path.read_bytes() for path in Path().iterdir() if path.is_file())
    asked(conninfo, "SELECT pg_drop_replication_slot('lineage')")
    ran = beam_joins(*options_of(address), "--lineage-file", "e.jsonl")
    assert ran.code == 2
    last = json.loads(Path("e.jsonl").read_text().splitlines()[-1])
    assert (last["eventType"], last["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", ran.err.partition(": ")[2].rstrip("\n"))
    assert "secret" not in Path("e.jsonl").read_text()


def test_files_are_joined_into_a_table_by_keys_of_several_columns(postgres: str, beam_joins: Run) -> None:
    conninfo = postgres.replace("dbname=postgres", "dbname=files")
    run(postgres, "CREATE DATABASE files")
    rows = [
        {"region": "eu", "id": 1, "n": 1.5, "tags": [1], "op": "c", "lsn": 1, "updated_at": 5},
        {"region": "eu", "id": 2, "n": None},
    ]
    rows[1] |= {"op": "c", "lsn": 2, "updated_at": 6}
    Path("left.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("right.csv").write_text("region,id,who,op,lsn,updated_at\neu,1,Ann,c,3,7\nus,9,Bob,c,4,8\n")
    keys = ["--left-key", "region,id", "--right-key", "region,id"]
    select = "left.region as area, left.n, left.tags, right as other"
    address = f"postgres://{address_of(conninfo)}?table=public.both"
    options = [
        "join",
        "--left",
        "left.jsonl",
        "--right",
        "right.csv",
        *keys,
        "--how",
        "outer",
        "--select",
        select,
        "--state-dir",
        "state",
    ]
    ran = beam_joins(*options, "--to", address)
    assert ran.code == 0, ran.err
    assert asked(conninfo, "SELECT area, id, n, tags, other ->> 'who' FROM both_live") == [
        ("eu", 1, 1.5, "[1]", "Ann"),
        ("eu", 2, None, None, None),
        ("us", 9, None, None, "Bob"),
    ]
    other = beam_joins(*options, "--to", address.replace("both", "others"))
    assert "--to is postgres://" in other.err, other
    assert "table public.both in the runs before: give it as it was" in other.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state-dir", "s", "--to", "t.jsonl"], "--to: give the address of a table, postgres://HOST/DATABASE?table=NAME"),
        (["--state-dir", "s", "--to", "{address}"], "--to: name a table in the address"),
        (["--state-dir", "s", "--to", "{address}?table=t&slot=s"], "--to: a slot is for inputs"),
        (["--state-dir", "s", "--to", "{address}?table=t", "--how", "right"], "--to: --how right with --foreign-key keeps right rows"),
        (["--state-dir", "s", "--to", "{address}?table=narrow"], "the table narrow has no column by, who, position, deleted"),
        (
            ["--state-dir", "s", "--to", "{address}?table=t", "--select", "left.by as position"],
            "--to: the values have a column position: give",
        ),
        (["--state-dir", "s", "--to", "{address}?table=t", "--select", "left.by as xmin"], "the name xmin is of a system column"),
        (["--state-dir", "s", "--to", f"{{address}}?table={'n' * 59}"], f"the name of the view {'n' * 59}_live has 64 bytes"),
        (["--state-dir", "s", "--to", "{address}?table=nowhere.t"], 'PostgreSQL, table nowhere.t: schema "nowhere" does not exist'),
        (["--state-dir", "s", "--to", "{address}?table=made"], "the column who of the table made is generated (GENERATED ALWAYS)"),
        (["--state-dir", "s", "--to", "postgres://nobody:secret@127.0.0.1:1/x?table=t"], "PostgreSQL, table t: connection failed"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_in_a_sentence_and_nothing_is_left(
    postgres: str, beam_joins: Run, arguments: list[str], message: str
) -> None:
    run(postgres, "CREATE TABLE IF NOT EXISTS narrow (id bigint PRIMARY KEY)")
    made = "id bigint PRIMARY KEY, by text, who text GENERATED ALWAYS AS ('a') STORED, position bigint, deleted boolean"
    run(postgres, f"CREATE TABLE IF NOT EXISTS made ({made})")
    Path("left.jsonl").write_text('{"id": 1, "by": "a", "op": "c", "lsn": 1, "updated_at": 5}\n')
    Path("right.jsonl").write_text('{"id": "a", "who": "Ann", "op": "c", "lsn": 2, "updated_at": 6}\n')
    options = [
        "join",
        "--left",
        "left.jsonl",
        "--right",
        "right.jsonl",
        "--foreign-key",
        "by",
        "--select",
        "left.id, left.by, right.who",
    ]
    here = f"postgres://{address_of(postgres)}"
    arguments = [each.replace("{address}", here) for each in arguments]
    for more in ([], ["--dry-run"]):
        ran = beam_joins(*options, *arguments, *more)
        code = 1 if "connection failed" in message else 2  # the server may answer later
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran
        assert message in ran.err
        assert "secret" not in ran.err
    assert not list(Path().glob("*postgres*"))
    assert not list(Path().glob("s/runs/*"))


def address_of(conninfo: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"{parts['user']}:secret@{parts['host']}:{parts['port']}/{parts['dbname']}"


def test_a_slot_goes_on_with_another_join_and_a_table_is_read_again_as_it_is(
    postgres: str, beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    conninfo, address = shop(postgres, "changed")
    assert beam_joins("slot", "create", address, "--tables", "orders,customers").code == 0
    tables = ["join", "--left", address, "--left-table", "orders", "--right", address, "--right-table", "customers"]
    target = f"{address.partition('?')[0]}?table=made"
    to = [*tables, "--foreign-key", "customer", "--state-dir", "state", "--to", target]
    narrow, rebuild = ["--select", "left.id, left.customer, right.id as who"], "--beam_joins_changed=rebuild"
    joins = "FROM orders o {} JOIN customers c ON c.id = o.customer ORDER BY 1"
    assert beam_joins(*to, *narrow).code == 0
    run(conninfo, "DELETE FROM customers WHERE id = 7", "UPDATE orders SET customer = 8 WHERE id = 57", "CHECKPOINT")
    ran = beam_joins(*to, *narrow, "--how", "left", rebuild)
    assert ran.code == 0, ran.err
    whole = asked(conninfo, f"SELECT o.id, o.customer, c.id {joins.format('LEFT')}")
    assert asked(conninfo, "SELECT id, customer, who FROM made_live ORDER BY 1") == whole

    run(conninfo, "UPDATE customers SET name = 'new' WHERE id = 9", "DELETE FROM customers WHERE id = 10", "CHECKPOINT")
    wide = [*to, "--select", "left.id, left.customer, right.id as who, right.name", "--how", "left"]
    assert "customers of the runs before" not in (lacking := beam_joins(*wide, rebuild).err)
    assert "stored without the column 'name': give --read-again right" in lacking

    dry = beam_joins(*wide, "--read-again", "right", "--dry-run")
    assert (dry.code, "rebuilt" in dry.out) == (0, True), dry.err
    with pytest.raises(psycopg.errors.UndefinedColumn):
        asked(conninfo, "SELECT made.name FROM made WHERE made.name IS NULL")

    def killed(folder: StateFolder, moves: Any = ()) -> None:
        raise StateRefused("killed")

    with monkeypatch.context() as patched:
        patched.setattr(StateFolder, "prepare", killed)
        assert "killed" in beam_joins(*wide, "--read-again", "right").err
    as_before = beam_joins(*to, *narrow, "--how", "left")
    assert "the table made has been made anew by run 3, which has not ended: repeat it with the pipeline or" in as_before.err
    run(conninfo, "DELETE FROM customers WHERE id = 11", "CHECKPOINT")
    ran = beam_joins(*wide, "--read-again", "right")
    assert ran.code == 0, ran.err
    assert "read as they are: public.customers" in ran.out
    for statement in ("SELECT 1", "INSERT INTO customers VALUES (10, 'again')"):
        run(conninfo, statement, "CHECKPOINT")
        whole = asked(conninfo, f"SELECT o.id, o.customer, c.id, c.name {joins.format('LEFT')}")
        assert beam_joins(*wide).code == 0
        assert asked(conninfo, "SELECT id, customer, who, name FROM made_live ORDER BY 1") == whole
    assert "\nstate: all " in beam_joins(*wide, "--dry-run").out
    assert "  Join             rebuilt, " in beam_joins(*wide, "--how", "inner", rebuild, "--dry-run").out
