"""Tables that are read from a slot are those of the database, whatever is done to it and whenever."""

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import apache_beam as beam
import psycopg
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ForeignKeyJoin, LatestTable, StateFolder, StateRefused
from beam_joins.errors import InputError
from beam_joins.io import ReadPostgres, WritePostgres
from beam_joins.pipelines.systems.postgres.postgres_server import require_logical
from tests.postgres.slot_tables import asked, database, run, tables, writing

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric(12,2), note text)"
FILL = "INSERT INTO orders SELECT i, i % 100, i * 1.25, repeat('x', 10) FROM generate_series(1, 3000) i"


def transact(connection: psycopg.Connection[Any], number: int) -> None:
    chance = random.Random(number)
    with connection.transaction():
        for _ in range(chance.randint(1, 5)):
            row, what = chance.randint(1, 4000), chance.random()
            if what < 0.2:
                connection.execute("DELETE FROM orders WHERE id = %s", [row])
            elif what < 0.5:
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, %s, 'n') ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
                    [row, number, chance.randint(1, 10**6) / 100],
                )
            else:
                connection.execute("UPDATE orders SET amount = %s WHERE id = %s", [chance.randint(1, 10**6) / 100, row])


def test_no_row_is_missing_or_twice_where_the_changes_begin_beside_writers_at_work(postgres: str, tmp_path: Any) -> None:
    conninfo = database(postgres, "seam", ORDERS, FILL)
    with writing(conninfo, transact):
        for _ in range(3):
            tables(conninfo, ["orders"], tmp_path)
    run(conninfo)
    assert tables(conninfo, ["orders"], tmp_path)["orders"] == asked(conninfo, "SELECT * FROM orders")
    of_its_slot = "pg_replication_slots WHERE database = current_database()"  # the server has those of other tests as well
    assert asked(conninfo, f"SELECT pg_current_wal_flush_lsn() - confirmed_flush_lsn < 1000 FROM {of_its_slot}") == [(True,)]


def test_values_are_what_they_are_in_the_database(postgres: str, tmp_path: Any) -> None:
    conninfo = database(
        postgres,
        "exact",
        """CREATE TABLE t (id bigint PRIMARY KEY, a numeric(20,4), b numeric, c float8, d real, e bool, f bytea, g timestamptz,
            h timestamp, i date, j time, k jsonb, l int[], m text, n uuid)""",
    )
    row = """'9007199254740993.2500', 1234567890123456789012345678901234567890.5, 0.1, 1e-7, true, '\\x00ff',
        '2026-01-02 03:04:05.678901+02', '1999-12-31 23:59:59', '0001-01-01', '23:59:59.999999', '{"a": 1.0}', '{1,NULL}',
        E'tab\\t"\\\\ Zoë', '00000000-0000-0000-0000-00000000000a'"""
    run(conninfo, f"INSERT INTO t VALUES (1, {row})")
    first = tables(conninfo, ["t"], tmp_path)["t"]
    run(conninfo, f"INSERT INTO t VALUES (2, {row})", "INSERT INTO t (id, c) VALUES (3, 'NaN')")
    [*both, last] = tables(conninfo, ["t"], tmp_path)["t"]
    assert both == [*first, (2, *first[0][1:])]
    assert first[0][1:] == (
        Decimal("9007199254740993.2500"),
        "1234567890123456789012345678901234567890.5",
        0.1,
        1.0000000116860974e-07,
        True,
        b"\x00\xff",
        dt.datetime(2026, 1, 2, 1, 4, 5, 678901, dt.UTC),
        dt.datetime(1999, 12, 31, 23, 59, 59),
        dt.date(1, 1, 1),
        dt.time(23, 59, 59, 999999),
        '{"a": 1.0}',
        "{1,NULL}",
        'tab\t"\\ Zoë',
        "00000000-0000-0000-0000-00000000000a",
    )
    assert repr(last[3]) == "nan"


def test_large_values_keys_that_change_and_truncates(postgres: str, tmp_path: Any) -> None:
    bio = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i"
    conninfo = database(
        postgres,
        "large",
        "CREATE TABLE people (id int PRIMARY KEY, name text, bio text)",
        "CREATE TABLE whole (id int PRIMARY KEY, name text, bio text)",
        "CREATE TABLE emptied (id int PRIMARY KEY)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        *(f"INSERT INTO {table} SELECT n, 'a', ({bio}) FROM generate_series(1, 4) n" for table in ("people", "whole")),
        "INSERT INTO emptied SELECT generate_series(1, 9)",
    )
    names = ["people", "whole", "emptied"]
    tables(conninfo, names, tmp_path)
    every: list[list[str]] = [
        [f"UPDATE {table} SET name = '' WHERE id = 1" for table in names[:2]],
        ["UPDATE whole SET id = 7 WHERE id = 2", "DELETE FROM people WHERE id = 4", "TRUNCATE emptied, people"],
        [f"INSERT INTO people SELECT n, 'b', ({bio}) FROM generate_series(1, 3) n", "INSERT INTO emptied VALUES (5)"],
        # the log has neither the large value nor a row that has it
        ["UPDATE people SET id = 8 WHERE id = 1", "UPDATE people SET name = 'c' WHERE id = 8", "DELETE FROM people WHERE id = 2"],
    ]
    for statements in every:
        run(conninfo, *statements)
        assert tables(conninfo, names, tmp_path) == {name: asked(conninfo, f"SELECT * FROM {name}") for name in names}


def test_columns_that_are_added_dropped_renamed_and_widened_amid_the_changes(postgres: str, tmp_path: Any) -> None:
    conninfo = database(postgres, "altered", "CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text)")
    run(conninfo, "INSERT INTO t SELECT n, n, n, n FROM generate_series(1, 5) n")

    def rows() -> Any:
        return tables(conninfo, ["t"], tmp_path, schema={"t": None})["t"]

    assert len(rows()) == 5
    for ddl in (
        "ALTER TABLE t ADD COLUMN d int DEFAULT 7",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t RENAME COLUMN c TO e",
        "ALTER TABLE t ALTER COLUMN a TYPE bigint",
    ):
        run(conninfo, "UPDATE t SET a = a + 1 WHERE id = 1", ddl, "UPDATE t SET a = a + 1 WHERE id = 2", "DELETE FROM t WHERE id = 5")
        run(conninfo, "INSERT INTO t (id, a) VALUES (5, 0)")
        assert rows() == asked(conninfo, "SELECT * FROM t")


def enrich(conninfo: str, state: Any) -> None:
    """Orders with the names of their customers from the database into the database."""
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={state}"])) as pipeline:
        read = pipeline | ReadPostgres(conninfo, slot="enriched", publication="s", tables=["orders", "customers"])
        enriched = (read["orders"], read["customers"]) | ForeignKeyJoin(
            {"amount": "left.amount", "name": "right.name"}, foreign_key="customer", how="left"
        )
        _ = enriched | WritePostgres(conninfo, "enriched", key="id", create=True)


def test_a_join_in_the_database_is_that_of_the_database_though_runs_fail_behind_what_they_have_written(
    postgres: str, tmp_path: Any
) -> None:
    conninfo = database(postgres, "enriched", ORDERS, FILL, "CREATE TABLE customers (id int PRIMARY KEY, name text)")
    run(conninfo, "INSERT INTO customers SELECT n, n FROM generate_series(0, 90) n")
    joined = "SELECT o.id, amount, name FROM orders o LEFT JOIN customers c ON c.id = customer"
    for statements in (
        ["DELETE FROM orders WHERE id % 7 = 0", "UPDATE customers SET name = 'first' WHERE id = 1"],
        [
            "DELETE FROM orders WHERE id % 7 = 1",
            "DELETE FROM customers WHERE id = 2",
            "ALTER TABLE orders ADD COLUMN more int DEFAULT 1",
        ],
    ):
        with pytest.MonkeyPatch.context() as patched, pytest.raises(ZeroDivisionError):
            patched.setattr(StateFolder, "commit", lambda *_: 1 // 0)  # behind what is written
            enrich(conninfo, tmp_path)
        assert asked(conninfo, "SELECT count(*) > 1000 FROM enriched_live") == [(True,)], "the run that failed has written"
        run(conninfo, *statements, "CHECKPOINT")
        for _ in range(2):
            enrich(conninfo, tmp_path)
            assert asked(conninfo, "SELECT id, amount, name FROM enriched_live") == asked(conninfo, joined)


def test_names_of_any_kind_partitions_and_publications_of_some_rows_and_columns(postgres: str, tmp_path: Any) -> None:
    conninfo = database(
        postgres,
        "shapes",
        """CREATE SCHEMA "we""ird"; CREATE TABLE "we""ird"."na me" ("i.d" int, "k""k" text, v text,
            g int GENERATED ALWAYS AS ("i.d" * 2) STORED, PRIMARY KEY ("i.d", "k""k"))""",
        """CREATE TABLE parts (id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
            CREATE TABLE p1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
            CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM (10) TO (20)""",
        "CREATE TABLE several (id int PRIMARY KEY, a int, secret text)",
    )
    run(
        conninfo,
        "DROP PUBLICATION s; SELECT pg_drop_replication_slot('shapes')",
        """CREATE PUBLICATION s FOR TABLE "we""ird"."na me", parts, several (id, a) WHERE (id > 5)
            WITH (publish_via_partition_root = true)""",
        "SELECT pg_create_logical_replication_slot('shapes', 'pgoutput')",
        """INSERT INTO "we""ird"."na me" VALUES (1, 'a''"', 'x'), (2, 'b', NULL)""",
        "INSERT INTO parts VALUES (1, 1), (2, 12)",
        "INSERT INTO several SELECT n, n, n FROM generate_series(1, 9) n",
    )
    queries = {
        'we"ird.na me': 'SELECT "i.d", "k""k", v FROM "we""ird"."na me"',
        "parts": "SELECT * FROM parts",
        "several": "SELECT id, a FROM several WHERE id > 5",
    }
    for statements in (
        [],
        ["""UPDATE "we""ird"."na me" SET "k""k" = 'z' WHERE "i.d" = 1""", "UPDATE parts SET at = 3 WHERE id = 2"],
        ["UPDATE several SET id = 12 WHERE id = 2", "UPDATE several SET id = 2 WHERE id = 8", "DELETE FROM several WHERE id = 9"],
    ):
        run(conninfo, *statements)
        assert tables(conninfo, list(queries), tmp_path) == {name: asked(conninfo, query) for name, query in queries.items()}


def test_a_slot_whose_log_is_gone_and_one_that_somebody_else_has_read_stop_the_run(postgres: str, tmp_path: Any) -> None:
    conninfo = database(postgres, "lost", "CREATE TABLE t (id int PRIMARY KEY)")
    tables(conninfo, ["t"], tmp_path)
    run(conninfo, "INSERT INTO t VALUES (1)", "CHECKPOINT", "SELECT pg_replication_slot_advance('lost', pg_current_wal_flush_lsn())")
    with pytest.raises(InputError, match=r"^the slot lost was read up to .* by somebody else, or made again, .*: begin with an empty"):
        tables(conninfo, ["t"], tmp_path)
    assert tables(conninfo, ["t"], tmp_path / "anew") == {"t": [(1,)]}
    try:
        run(conninfo, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for number in range(2, 6):
            run(conninfo, f"INSERT INTO t VALUES ({number})", "SELECT pg_switch_wal()")
        run(conninfo, "CHECKPOINT")
        with pytest.raises(
            InputError, match=r"^the slot lost is lost, as the server has removed its log .*: drop it and make it again"
        ):
            tables(conninfo, ["t"], tmp_path / "anew")
    finally:
        run(conninfo, "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def test_a_table_that_is_another_one_by_now_is_read_anew(postgres: str, tmp_path: Any) -> None:
    conninfo = database(
        postgres,
        "others",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE t (id int PRIMARY KEY, v mood, note text)",
        "INSERT INTO t VALUES (1, 'sad', 'n'), (2, 'glad', 'n')",
        "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        *(f"CREATE TABLE p{n} PARTITION OF p FOR VALUES FROM ({10 * n}) TO ({10 * n + 10})" for n in range(3)),
        "INSERT INTO p SELECT n, n FROM generate_series(0, 29) n",
        "CREATE TABLE p3 (LIKE p INCLUDING ALL)",
        "INSERT INTO p3 SELECT n, n FROM generate_series(30, 39) n",
    )
    run(conninfo, "ALTER PUBLICATION s SET (publish_via_partition_root = true)")
    whole = {"t": "SELECT id, v::text, note FROM t", "p": "SELECT * FROM p"}
    tables(conninfo, ["t", "p"], tmp_path)
    for statements in (
        ["CREATE TABLE u (LIKE t INCLUDING ALL)", "INSERT INTO u VALUES (3, 'sad', 'u')", "DROP TABLE t; ALTER TABLE u RENAME TO t"],
        ["ALTER TYPE mood RENAME VALUE 'sad' TO 'low'", "INSERT INTO t VALUES (4, 'low', 'n')"],
        ["ALTER TABLE t ALTER COLUMN note TYPE text USING note || '!'"],
        ["ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (30) TO (40)", "UPDATE p SET v = 0 WHERE id = 31"],
        ["ALTER TABLE p DETACH PARTITION p0", "TRUNCATE p1", "DELETE FROM p WHERE id = 22"],
        ["CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (40) TO (50)", "INSERT INTO p VALUES (41, 1), (42, 2)"],
        ["DROP PUBLICATION s", "UPDATE p SET v = 7", "CREATE PUBLICATION s FOR ALL TABLES WITH (publish_via_partition_root = true)"],
    ):  # fmt: skip
        run(conninfo, *statements)
        assert tables(conninfo, ["t", "p"], tmp_path) == {name: asked(conninfo, query) for name, query in whole.items()}, statements
    run(conninfo, "CREATE TABLE more () INHERITS (t)")
    with pytest.raises(
        InputError, match=r"^public\.t has child tables \(INHERITS\), whose rows the log has under their own names: read"
    ):
        tables(conninfo, ["t", "p"], tmp_path)
    run(conninfo, "DROP TABLE more", "ALTER TABLE t RENAME COLUMN note TO remark")
    with pytest.raises(InputError, match=r"^public\.t has no column 'note' \(schema=\): it has id, v, remark; .* begin with an empty"):
        tables(conninfo, ["t", "p"], tmp_path)


def test_a_value_that_is_no_utf_8_is_named_by_table_and_column_whether_in_the_rows_or_in_the_log(postgres: str, tmp_path: Any) -> None:
    run(postgres, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    conninfo = postgres.replace("dbname=postgres", "dbname=ascii")
    bad = r"(2, 'b', convert_from('\x5a6feb', 'SQL_ASCII'))"
    run(conninfo, "CREATE TABLE t (id int PRIMARY KEY, a text, name text)", "INSERT INTO t VALUES (1, 'a', 'b')")
    run(conninfo, "CREATE PUBLICATION s FOR TABLE t", "SELECT pg_create_logical_replication_slot('ascii', 'pgoutput')")
    assert tables(conninfo, ["t"], tmp_path / "log")["t"] == [(1, "a", "b")]
    run(conninfo, f"INSERT INTO t VALUES {bad}")
    for state in ("log", "rows"):
        with pytest.raises(InputError, match=r"^public\.t: column 'name' has a value that is no UTF-8.*: correct it, or leave"):
            tables(conninfo, ["t"], tmp_path / state)
    run(conninfo, "UPDATE t SET name = 'c' WHERE id = 2")
    assert tables(conninfo, ["t"], tmp_path / "rows")["t"] == [(1, "a", "b"), (2, "b", "c")]


def test_a_server_that_keeps_too_little_is_told_what_to_do() -> None:
    class Server:
        def execute(self, statement: str) -> Any:
            return self

        def fetchone(self) -> tuple[str]:
            return ("replica",)

    with pytest.raises(InputError, match="^the server's wal_level is replica: set it to logical .* and restart it$"):
        require_logical(Server())


def test_tables_that_are_read_again_are_read_as_they_are_and_others_go_on(postgres: str, tmp_path: Any) -> None:
    conninfo = database(
        postgres, "again", "CREATE TABLE a (id int PRIMARY KEY, v bytea)", "CREATE TABLE b (id int PRIMARY KEY, v int)"
    )
    run(conninfo, "INSERT INTO a VALUES (1, 'x'), (2, 'y')", "INSERT INTO b VALUES (1, 10), (2, 20)")
    assert tables(conninfo, ["a", "b"], tmp_path) == {"a": [(1, b"x"), (2, b"y")], "b": [(1, 10), (2, 20)]}
    run(conninfo, "DELETE FROM a WHERE id = 1", "ALTER TABLE a ALTER v TYPE text USING convert_from(v, 'UTF8')")
    run(conninfo, "INSERT INTO a VALUES (3, 'z')", "UPDATE b SET v = 21 WHERE id = 2")
    with pytest.raises(InputError, match="was altered: .*: give --beam_joins_read_again=read/a/Table, which reads the table again"):
        tables(conninfo, ["a", "b"], tmp_path)
    now = {"a": [(2, "y"), (3, "z")], "b": [(1, 10), (2, 21)]}
    assert tables(conninfo, ["a", "b"], tmp_path, again="read/a/Table") == now
    run(conninfo, "DELETE FROM a WHERE id = 2", "DELETE FROM b WHERE id = 1")
    assert tables(conninfo, ["a", "b"], tmp_path) == {"a": [(3, "z")], "b": [(2, 21)]}
    run(conninfo, "INSERT INTO b VALUES (5, 50)")
    assert tables(conninfo, ["a", "b"], tmp_path, again="read/b/Table") == {"a": [(3, "z")], "b": [(2, 21), (5, 50)]}


def test_a_table_that_joins_the_others_later_or_again_is_read_as_it_is(postgres: str, tmp_path: Any) -> None:
    conninfo = database(postgres, "joins_later", "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    run(conninfo, "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1), (2)")
    assert tables(conninfo, ["a"], tmp_path) == {"a": [(1,)]}
    run(conninfo, "INSERT INTO a VALUES (2)", "DELETE FROM b WHERE id = 1")
    with pytest.raises(StateRefused, match="it is new: with --beam_joins_changed=rebuild"):
        tables(conninfo, ["a", "b"], tmp_path)
    assert tables(conninfo, ["a", "b"], tmp_path, rebuilds=True) == {"a": [(1,), (2,)], "b": [(2,)]}
    assert tables(conninfo, ["a"], tmp_path, rebuilds=True) == {"a": [(1,), (2,)]}
    run(conninfo, "DELETE FROM b", "INSERT INTO b VALUES (5)", "DELETE FROM a WHERE id = 1")
    assert tables(conninfo, ["a", "b"], tmp_path, rebuilds=True) == {"a": [(2,)], "b": [(5,)]}
    run(conninfo, "INSERT INTO b VALUES (6)")
    assert tables(conninfo, ["a", "b"], tmp_path) == {"a": [(2,)], "b": [(5,), (6,)]}


def test_a_table_alone_is_read_again_as_it_is(postgres: str, tmp_path: Any) -> None:
    conninfo = database(postgres, "again_alone", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    slot = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])

    def latest(*options: str) -> list[int]:
        _ids.clear()
        run(conninfo, "CHECKPOINT")
        settings = PipelineOptions([f"--beam_joins_state={tmp_path}", *options])
        with beam.Pipeline(runner=FnApiRunner(), options=settings) as pipeline:
            table = pipeline | "a" >> ReadPostgres(conninfo, slot=slot, publication="s", table="a", schema=None)
            _ = table | LatestTable() | beam.Keys() | beam.Map(_keep)
        return sorted(_ids)

    assert latest() == [1, 2]
    run(conninfo, "DELETE FROM a WHERE id = 1", "INSERT INTO a VALUES (3)")
    with pytest.raises(StateRefused, match="the pipeline has no transform of that label, but .*'a/ReadTable/Table'"):
        latest("--beam_joins_read_again=a")
    assert latest("--beam_joins_read_again=a/ReadTable/Table") == [2, 3]
    run(conninfo, "DELETE FROM a WHERE id = 2")
    assert latest() == [3]


_ids: list[int] = []


def _keep(key: int) -> None:
    _ids.append(key)
