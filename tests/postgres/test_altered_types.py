"""A column of a slot's table gets another type: read as that where every value fits, else told, with a way on that works."""

import json
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from beam_joins.errors import InputError
from tests.pipelines.orders_run import Run
from tests.postgres.slot_tables import asked, run, tables
from tests.postgres.slot_tables import database as named


def _address(conninfo: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"postgres://test@{parts['host']}:{parts['port']}/{parts['dbname']}"


@pytest.mark.parametrize(
    ("was", "now", "using", "first", "more"),
    [
        ("bytea", "text", "convert_from(v, 'UTF8')", "'ab'", "'61'"),
        ("text", "bytea", "convert_to(v, 'UTF8')", "'ab'", r"'\x00ff'"),
        ("integer", "text", "v::text", "1", "'007'"),
        ("integer", "double precision", "v", "1", "1.5"),
        ("date", "timestamp without time zone", "v", "'2026-01-02'", "'2026-01-02 03:04:05'"),
    ],
)
def test_a_type_that_was_altered_is_told_and_what_it_says_works(
    database: str, beam_joins: Run, was: str, now: str, using: str, first: str, more: str
) -> None:
    address = _address(database)
    run(database, f"CREATE TABLE t (id int PRIMARY KEY, v {was})", f"INSERT INTO t VALUES (1, {first})")
    slot = f"{address}?slot=altered_{was[:4]}_{now[:4]}"
    assert beam_joins("slot", "create", slot, "--tables", "public.t").code == 0
    job = ["table", "--input", slot, "--table", "public.t", "--select", "id, v", "--to", f"{address}?table=copy"]
    job += ["--latest", "t.parquet", "--state-dir", "state"]
    try:
        assert beam_joins(*job).code == 0
        run(database, f"ALTER TABLE t ALTER v TYPE {now} USING {using}", f"INSERT INTO t VALUES (2, {more})", "CHECKPOINT")
        told = beam_joins(*job)
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert f"public.t was altered: column 'v' was {was} in earlier runs, and is {now}: give --read-again input" in told.err
        assert "drop" not in told.err
        run(database, f"DROP VIEW copy_live; ALTER TABLE copy ALTER v TYPE {now} USING {using}")
        again = beam_joins(*job, "--read-again", "input")
        assert again.code == 0, again.err
        assert asked(database, "SELECT id, v FROM copy_live") == asked(database, "SELECT id, v FROM t")
        rows = sorted((row["id"], row["v"]) for row in pq.read_table("t.parquet").to_pylist())
        assert rows == asked(database, "SELECT id, v FROM t")
        run(database, f"INSERT INTO t VALUES (3, {more})", "CHECKPOINT")
        assert beam_joins(*job).code == 0
        assert asked(database, "SELECT id, v FROM copy_live") == asked(database, "SELECT id, v FROM t")
    finally:
        beam_joins("slot", "drop", slot)


def test_a_key_and_bytes_of_another_type_are_told_where_json_lines_are_written_too(database: str, beam_joins: Run) -> None:
    address = _address(database)
    run(database, "CREATE TABLE t (id int PRIMARY KEY, v bytea)", "INSERT INTO t VALUES (1, 'ab')")
    slot = f"{address}?slot=altered_key"
    assert beam_joins("slot", "create", slot, "--tables", "public.t").code == 0
    job = ["table", "--input", slot, "--table", "public.t", "--latest", "t.jsonl", "--state-dir", "state"]
    try:
        assert beam_joins(*job).code == 0
        run(database, "ALTER TABLE t ALTER v TYPE text USING convert_from(v, 'UTF8')", "INSERT INTO t VALUES (2, '61')", "CHECKPOINT")
        assert "column 'v' was bytea in earlier runs, and is text: give --read-again input" in beam_joins(*job).err
        assert beam_joins(*job, "--read-again", "input").code == 0
        assert _lines() == [{"id": 1, "v": "ab"}, {"id": 2, "v": "61"}]
        run(database, "ALTER TABLE t ALTER id TYPE text USING 'n' || id", "CHECKPOINT")
        told = beam_joins(*job)
        assert "column 'id' was integer in earlier runs, and is text: give --read-again input" in told.err
        assert beam_joins(*job, "--read-again", "input").code == 0
        assert _lines() == [{"id": "n1", "v": "ab"}, {"id": "n2", "v": "61"}]
    finally:
        beam_joins("slot", "drop", slot)


def _lines() -> list[dict[str, object]]:
    return sorted((json.loads(line) for line in Path("t.jsonl").read_text().splitlines()), key=lambda row: str(row["id"]))


def test_a_numeric_key_may_have_a_scale_in_a_target(database: str, beam_joins: Run) -> None:
    address = _address(database)
    run(database, "CREATE TABLE t (id numeric PRIMARY KEY, v int)", "INSERT INTO t VALUES (1.0, 1), (2, 2)")
    slot = f"{address}?slot=numeric_key"
    assert beam_joins("slot", "create", slot, "--tables", "public.t").code == 0
    try:
        ran = beam_joins("table", "--input", slot, "--table", "public.t", "--to", f"{address}?table=copy", "--state-dir", "state")
        assert ran.code == 0, ran.err
        assert asked(database, "SELECT id::numeric, v FROM copy_live") == asked(database, "SELECT id, v FROM t")
    finally:
        beam_joins("slot", "drop", slot)


def test_a_reader_in_python_tells_bytes_that_have_become_text(postgres: str, tmp_path: Path) -> None:
    conninfo = named(postgres, "altered_bytes", "CREATE TABLE t (id int PRIMARY KEY, v bytea)", "INSERT INTO t VALUES (1, 'ab')")
    assert tables(conninfo, ["t"], tmp_path)["t"] == [(1, b"ab")]
    run(conninfo, "ALTER TABLE t ALTER v TYPE text USING convert_from(v, 'UTF8')")
    with pytest.raises(
        InputError, match="public.t was altered: column 'v' was binary in earlier runs, and is text: give --beam_joins_read_again="
    ):
        tables(conninfo, ["t"], tmp_path)
    assert tables(conninfo, ["t"], tmp_path / "anew")["t"] == [(1, "ab")]
