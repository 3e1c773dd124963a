"""Tables written to PostgreSQL hold what the table holds, however often and in whatever order its changes
come.
"""

import datetime as dt
import math
import random
import socket
import threading
import time
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import Change, ChangeBatch, CountTable, FilterTable, OneToManyJoin, TableFromChangelog, content
from beam_joins.errors import InputError, OutputError
from beam_joins.io import WritePostgres
from beam_joins.pipelines.base.input_error import input_error_in
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.postgres_mark import PostgresMarks
from beam_joins.pipelines.systems.postgres.postgres_table import PostgresTable
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.stages.incoming_tables import batch_of
from tests.pipelines.tables import SMALL, changes_anew, small, table_of

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])


def ask(database: str, query: Any) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        done = connection.execute(query)
        return done.fetchall() if done.description else []


def write(database: str, elements: list[Any], *, is_bounded: bool = True, **options: Any) -> None:
    inputs: dict[str, Any] = {"key": "id", "schema": SCHEMA, "create": True, **options}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        changes = pipeline | beam.Create(elements)
        changes.is_bounded = is_bounded
        _ = changes | WritePostgres(database, inputs.pop("table", "t"), **inputs)


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"name": f"n{n}", "n": n, **more}


def history(seed: int, *, keys: int = 6, changes: int = 60) -> list[Change[int, dict[str, Any]]]:
    rng, rows, actual = random.Random(seed), dict[int, dict[str, Any]](), []
    for position in range(changes):
        key, new = rng.randrange(keys), row(position) if rng.random() < 0.6 else None
        if new is not None or key in rows:
            actual.append(Change(key, rows.get(key), new, position, position))
            rows = {**rows, key: new} if new is not None else {each: rows[each] for each in rows if each != key}
    return actual


def live(database: str, table: str = "t_live") -> dict[int, dict[str, Any]]:
    return {key: {"name": name, "n": n} for key, name, n in ask(database, f"SELECT id, name, n FROM {table}")}


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_changes_in_any_order_in_any_pieces_and_any_number_of_times_leave_the_table_that_they_are_of(
    database: str, seed: int, is_bounded: bool
) -> None:
    changes, rng = history(seed), random.Random(seed)
    expected = content(changes, changes[-1].position)
    assert 0 < len(expected) < 6
    again = [*changes, *rng.choices(changes, k=30)]
    rng.shuffle(again)
    for start in range(0, len(again), 20):
        write(database, again[start : start + 20], is_bounded=is_bounded)
    assert live(database) == expected


def test_transactions_of_several_connections_on_the_same_rows_do_not_wait_for_each_other_nor_leave_an_older_row(database: str) -> None:
    changes = history(7, keys=300, changes=6_000)
    columns = TableColumns(TableType(), ["id"], SCHEMA)
    PostgresTable(database, "t", columns, "position", "deleted").prepare(create=True)
    failed: list[BaseException] = []

    def merge(seed: int) -> None:
        into = PostgresTable(database, "t", columns, "position", "deleted")
        pieces = [changes[start : start + 300] for start in range(0, len(changes), 300)]
        random.Random(seed).shuffle(pieces)
        try:
            for piece in pieces:
                into.merge([into.lines(columns.of(batch_of(random.Random(seed).sample(piece, len(piece)))))])
        except BaseException as error:
            failed.append(error)
        finally:
            into.close()

    threads = [threading.Thread(target=merge, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert live(database) == content(changes, changes[-1].position)


def test_a_row_is_merged_again_where_the_server_has_ended_the_connection(database: str) -> None:
    columns = TableColumns(TableType(), ["id"], SCHEMA)
    into = PostgresTable(database, "t", columns, "position", "deleted")
    into.prepare(create=True)
    for n in range(2):
        into.merge([into.lines(columns.of(batch_of([Change(n, None, row(n), n, n)])))])
        ask(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
    into.close()
    assert live(database) == {0: row(0), 1: row(1)}


VALUES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "flag": (pa.bool_(), [True, None], "boolean"),
    "small": (pa.int8(), [-128, None], "smallint"),
    "whole": (pa.int64(), [-(2**63), None], "bigint"),
    "unsigned": (pa.uint64(), [2**64 - 1, None], "numeric"),
    "real": (pa.float64(), [0.1 + 0.2, None], "double precision"),
    "infinite": (pa.float64(), [-math.inf, None], "double precision"),
    "exact": (pa.decimal128(12, 2), [Decimal("1.50"), None], "numeric"),
    "text": (pa.string(), ["tab\t \\ \\N \n\\.\n\r é \x01", None], "text"),
    "empty": (pa.string(), ["", None], "text"),
    "chosen": (pa.dictionary(pa.int32(), pa.string()), ["a\\b", None], "text"),
    "bytes": (pa.binary(), [bytes(range(256)), None], "bytea"),
    "day": (pa.date32(), [dt.date(2026, 1, 31), None], "date"),
    "clock": (pa.time64("us"), [dt.time(1, 2, 3, 4), None], "time without time zone"),
    "local": (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None], "timestamp without time zone"),
    "instant": (
        pa.timestamp("us", "Europe/Berlin"),
        [dt.datetime(2026, 7, 1, 1, 2, 3, 4, dt.UTC), None],
        "timestamp with time zone",
    ),
    "list": (pa.list_(pa.decimal128(5, 1)), [[Decimal("1.5"), None], None], "jsonb"),
    "struct": (pa.struct([("a", pa.string()), ("b", pa.int64())]), [{"a": 'é"\\\n', "b": 1}, None], "jsonb"),
}


def test_every_type_of_column_comes_back_as_it_was_and_has_its_type_in_sql(database: str) -> None:
    arrays = [pa.array(values, kind) for kind, values, _ in VALUES.values()]
    new = pa.StructArray.from_arrays(arrays, names=list(VALUES))
    batch = ChangeBatch(
        key=pa.array([1, 2]), new=new, before=pa.nulls(2, pa.int64()), timestamp=pa.array([0, 0]), position=pa.array([5, 6])
    )
    reference = TableType(pa.int64(), new.type)
    columns = TableColumns(reference, ["id"], None)
    into = PostgresTable(database, "shop.Every type", columns, "position", "deleted")
    ask(database, "CREATE SCHEMA shop")
    into.prepare(create=True)
    into.merge([into.lines(columns.of(batch))])
    into.close()
    names = ", ".join(f'"{name}"' for name in VALUES)
    one, two = ask(database, f'SELECT {names} FROM shop."Every type_live" ORDER BY id')
    expected = {name: values[0] for name, (_, values, _) in VALUES.items()}
    assert dict(zip(VALUES, one, strict=True)) == {**expected, "list": [1.5, None]}
    assert set(two) == {None}
    types = ask(database, "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'Every type'")
    assert dict(types) == {
        "id": "bigint",
        **{name: kind for name, (_, _, kind) in VALUES.items()},
        "position": "bigint",
        "deleted": "boolean",
    }


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns")], ids=str)
def test_times_with_nanoseconds_are_refused_and_not_rounded_to_one_another(database: str, kind: pa.DataType) -> None:
    def batch(*at: int) -> ChangeBatch:
        numbers = pa.array([5, 6])
        new = pa.StructArray.from_arrays([numbers], ["n"])
        return ChangeBatch(key=pa.array(at).cast(kind), new=new, before=pa.nulls(2, pa.int64()), timestamp=numbers, position=numbers)

    into = PostgresTable(database, "times", TableColumns(TableType(kind, batch(0, 1).new.type), ["at"], None), "position", "deleted")
    into.prepare(create=True)
    into.merge([into.lines(into.columns.of(batch(1_000, 2_000)))])
    into.close()
    assert ask(database, "SELECT count(*) FROM times") == [(2,)]
    with pytest.raises(OutputError, match=r"PostgreSQL, table times: .* would lose data.*round them before"):
        into.lines(into.columns.of(batch(1_000, 1_001)))


def test_a_view_that_is_there_already_stays_as_it_is(database: str) -> None:
    ask(database, "CREATE VIEW t_live AS SELECT 7 AS mine")
    write(database, [Change(1, None, row(1), 1, 1)])
    assert ask(database, "SELECT mine FROM t_live") == [(7,)]
    assert ask(database, "SELECT id FROM t") == [(1,)]


def test_a_row_that_somebody_else_keeps_locked_is_an_error_in_one_sentence(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=50ms")
    write(database, [Change(1, None, row(1), 1, 1)])
    with psycopg.connect(database) as other:
        other.execute("SELECT * FROM t FOR UPDATE")
        pid = other.info.backend_pid
        with pytest.raises(Exception, match="lock timeout") as caught:
            write(database, [Change(1, row(1), row(2), 2, 2)])
    error = input_error_in(caught.value)
    assert error is not None
    assert str(error).startswith(f"PostgreSQL, table t: canceling statement due to lock timeout: the session {pid} of test (")
    assert ask(database, "SELECT n FROM t") == [(1,)]


def test_text_is_the_same_whatever_encoding_the_client_is_set_to(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    write(database, [Change(1, None, {"name": "Zoë", "n": 1}, 1, 1)])
    assert ask(database, "SELECT length(name), name FROM t") == [(3, "Zoë")]


def test_numbers_within_lists_that_are_not_finite_are_text_and_not_null(database: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("parts", pa.list_(pa.float64()))])
    write(database, [Change(1, None, {"parts": [math.nan, None, math.inf, 0.5]}, 1, 1)], schema=schema)
    assert ask(database, "SELECT parts FROM t") == [(["NaN", None, "Infinity", 0.5],)]


def test_bytes_in_a_dictionary_come_back_as_they_were(database: str) -> None:
    contents = [b"\\x41", b"\\101", b"\xff", b"a"]
    batch = ChangeBatch(
        key=pa.array(range(4)),
        new=pa.StructArray.from_arrays([pa.array(contents).dictionary_encode()], ["content"]),
        before=pa.nulls(4, pa.int64()),
        timestamp=pa.array(range(4)),
        position=pa.array(range(4)),
    )
    kind = TableType(batch.key.type, batch.new.type)
    into = PostgresTable(database, "bytes", TableColumns(kind, ["id"], None), "position", "deleted")
    into.prepare(create=True)
    into.merge([into.lines(into.columns.of(batch))])
    into.close()
    assert [bytes(content) for (content,) in ask(database, "SELECT content FROM bytes ORDER BY id")] == contents


def test_typed_tables_need_no_schema_and_values_without_columns_are_in_a_column_of_their_own(database: str) -> None:
    rows = [{"id": n, "shop": "ab"[n % 2], "lsn": n} for n in range(5)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        log = pipeline | beam.Create([pa.Table.from_pylist(rows)]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key=["shop", "id"], sequence_by="lsn", timestamp_by="lsn")
        _ = table | "rows" >> WritePostgres(database, "rows", key=["shop", "id"], create=True)
        _ = table | CountTable(group_by="shop") | "counts" >> WritePostgres(database, "counts", key="shop", create=True)
    assert ask(database, "SELECT * FROM rows_live ORDER BY id") == [("ab"[n % 2], n, n, n) for n in range(5)]
    assert ask(database, "SELECT shop, value FROM counts_live ORDER BY shop") == [("a", 3), ("b", 2)]


def test_the_parts_of_combined_keys_are_columns(database: str) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        one = pipeline | "one" >> beam.Create([Change("a", None, "A", 1, 1)])
        many = pipeline | "many" >> beam.Create([Change(n, None, "a", n, n) for n in (2, 3)])
        pairs = (one, many) | OneToManyJoin(lambda one, many: one + many, foreign_key=lambda key, value: value)
        schema = pa.schema([("one", pa.string()), ("many", pa.int64()), ("both", pa.string())])
        _ = pairs | WritePostgres(database, "pairs", key=["one", "many"], schema=schema, create=True)
    assert ask(database, "SELECT * FROM pairs_live ORDER BY many") == [("a", 2, "Aa", 2), ("a", 3, "Aa", 3)]


def test_a_table_of_one_s_own_may_have_other_columns_and_types_that_text_is_read_as(database: str) -> None:
    ask(database, "CREATE TABLE t (id bigint PRIMARY KEY, name uuid, n int, at bigint, gone bool, written timestamptz DEFAULT now())")
    name = uuid.uuid4()
    changes = [Change(1, None, {"name": str(name), "n": 1}, 1, 1), Change(2, {"name": str(name), "n": 1}, None, 1, 1)]
    write(database, changes, create=False, position="at", deleted="gone")
    assert ask(database, "SELECT id, name, n, at, gone, written IS NULL FROM t ORDER BY id") == [
        (1, name, 1, 1, False, False),
        (2, None, None, 1, True, False),
    ]


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        ("SELECT", {}, "there is no table t in the database: create it, or say create=True"),
        (
            "CREATE TABLE t (id int PRIMARY KEY, name text, position int)",
            {},
            "the table t has no column n, deleted; it has id, name, position",
        ),
        (
            "CREATE TABLE t (id int, name text, n int, position bigint, deleted bool)",
            {},
            "the table t has no primary key or unique index of the columns id",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, n int, position bigint, deleted bool)",
            {},
            "the column name of the table t is NOT NULL",
        ),
        (
            "CREATE TABLE t (id char(5) PRIMARY KEY, name text, n int, position bigint, deleted bool)",
            {},
            "the column id of the table t takes keys for one that differ in case, accents or spaces: make it text",
        ),
        (
            "CREATE COLLATION anyhow (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
            "CREATE TABLE t (id text COLLATE anyhow PRIMARY KEY, name text, n int, position bigint, deleted bool)",
            {},
            "the column id of the table t takes keys for one that differ in case",
        ),
        ("SELECT", {"table": "nowhere.t", "create": True}, 'PostgreSQL, table nowhere.t: schema "nowhere" does not exist'),
    ],
)
def test_a_table_that_cannot_be_merged_into_is_refused_when_the_pipeline_is_built(
    database: str, made: str, options: dict[str, Any], message: str
) -> None:
    ask(database, made)
    with pytest.raises(InputError) as caught:
        write(database, [], **{"create": False, **options})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer_is_named(database: str) -> None:
    with pytest.raises(InputError, match=r"PostgreSQL, table t: connection failed: .*port 1 failed: Connection refused$"):
        write("host=127.0.0.1 port=1 dbname=x", [])


def test_a_server_that_accepts_and_says_nothing_is_not_waited_for(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.systems.postgres.postgres_table._CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        with pytest.raises(InputError, match="PostgreSQL, table t: .*timeout"):
            write(f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=x", [])
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change("one", None, row(1), 1, 1), "a row does not fit the columns to write"),
        (Change((1, 2), None, row(1), 1, 1), "the key (1, 2) has not the columns id"),
        (
            Change(1, None, {"name": "x"} | {"other": 1}, 1, 1),
            "a row of the table gave the field 'other' = 1, and there are id, name, n",
        ),
        (Change(1, None, row(1, id=2), 1, 1), "the value of a row has another id than its key"),
        (Change(1, None, {"name": "nul \0", "n": 1}, 1, 1), 'invalid byte sequence for encoding "UTF8": 0x00'),
        (Change(1, None, row(2**40), 1, 1), 'value "1099511627776" is out of range for type integer (column n'),
    ],
)
def test_a_row_that_does_not_fit_fails_the_run_with_one_sentence(database: str, change: Any, message: str) -> None:
    ask(database, "CREATE TABLE t (id bigint PRIMARY KEY, name text, n int, position bigint, deleted bool)")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        write(database, [change], create=False)
    error = input_error_in(caught.value)
    assert error is not None
    assert message in str(error)
    assert ask(database, "SELECT FROM t") == []


def test_a_table_gets_the_columns_that_a_later_run_has_and_its_view_too(database: str) -> None:
    first = PostgresTable(database, "t", TableColumns(TableType(), ["id"], SCHEMA.remove(2)), "position", "deleted")
    first.prepare(create=True)
    first.merge(
        [first.lines(first.columns.of(batch_of([Change(1, None, {"name": "a"}, 1, 1), Change(2, None, {"name": "b"}, 2, 2)])))]
    )
    first.close()
    into = PostgresTable(database, "t", TableColumns(TableType(), ["id"], SCHEMA), "position", "deleted")
    with pytest.raises(InputError, match="has no column n"):
        into.prepare(create=True)
    into.prepare(create=True, widen=True)
    into.merge([into.lines(into.columns.of(batch_of([Change(1, {"name": "a"}, {"name": "a", "n": 5}, 3, 3)])))])
    into.close()
    assert live(database) == {1: {"name": "a", "n": 5}, 2: {"name": "b", "n": None}}


def test_a_column_gets_the_wider_type_of_a_later_run_and_the_view_stays_with_its_grants(database: str) -> None:
    for kind, number in ((pa.int32(), 5), (pa.int64(), 4_000_000_000)):
        columns = TableColumns(TableType(), ["id"], pa.schema([("id", pa.int64()), ("n", kind)]))
        into = PostgresTable(database, "t", columns, "position", "deleted")
        into.prepare(create=True, widen=kind == pa.int64())
        if kind == pa.int32():
            ask(database, "CREATE ROLE reader")
            ask(database, "GRANT SELECT ON t_live TO reader")
        into.merge([into.lines(into.columns.of(batch_of([Change(number, None, {"n": number}, number, number)])))])
        into.close()
    assert ask(database, "SELECT id, n FROM t_live ORDER BY id") == [(5, 5), (4_000_000_000, 4_000_000_000)]
    assert ask(database, "SELECT has_table_privilege('reader', 't_live', 'SELECT')") == [(True,)]
    ask(database, "CREATE TABLE theirs (id bigint PRIMARY KEY, n int, position bigint, deleted bool)")
    into = PostgresTable(database, "theirs", columns, "position", "deleted")
    into.prepare(create=True, widen=True)
    into.close()
    assert ask(
        database, "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'theirs'::regclass AND attname = 'n'"
    ) == [("integer",)]
    ask(database, "DROP OWNED BY reader")
    ask(database, "DROP ROLE reader")


BEFORE = [small(1, 1, "a"), small(2, 3, "b"), small(3, 5, "c"), small(3, 6, None), small(4, 7, "d"), small(5, 7, "e")]
"""The rows of a run up to position 7."""


def run_anew(
    database: str, state: Path, changes: list[tuple[int, str | None, int]] | None = None, *, batches: int = 1, rows: Any = ()
) -> None:
    """A run with a state over the rows of before or, where there are changes, of a table that begins anew at 7; or over others."""
    options = PipelineOptions([f"--beam_joins_state={state}", "--beam_joins_partitions=2"])
    with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
        table = table_of(pipeline, list(rows) or (BEFORE if changes is None else []), SMALL)
        written = table if changes is None else changes_anew(pipeline, changes, batches=batches)
        _ = written | "t" >> WritePostgres(database, "t", key="id", create=True)


def names(database: str) -> dict[int, str]:
    return dict(ask(database, "SELECT id, name FROM t_live"))


ANEW: list[tuple[int, str | None, int]] = [(1, "a", 7), (2, "B", 7), (4, "D", 7), (6, "f", 7), (6, None, 8), (7, "g", 9), (2, "BB", 9)]


def test_a_table_that_is_not_as_the_last_run_has_left_it_is_refused(database: str, tmp_path: Path) -> None:
    def run(*rows: Any) -> None:
        options = PipelineOptions([f"--beam_joins_state={tmp_path / 'state'}", "--beam_joins_partitions=2"])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
            _ = table_of(pipeline, list(rows), SMALL) | "t" >> WritePostgres(database, "t", key="id", create=True)

    run(*BEFORE)
    ask(database, "CREATE TABLE kept AS SELECT * FROM t")
    run(small(1, 8, "A"))
    run()
    for statement, how in (
        ("UPDATE t SET name = 'x' WHERE id = 4", "the row with the key 4 has other values"),
        ("DELETE FROM t WHERE NOT deleted", "the row with the key 1 is gone"),
        ("UPDATE t SET name = 'a', position = 1 WHERE id = 1", "the row with the key 1 is older"),
    ):
        with psycopg.connect(database) as connection:
            connection.execute(statement)
            connection.commit()
            with pytest.raises(
                InputError, match=f"^the table t is not as the last run .* has left it: {how}: --beam_joins_read_again"
            ):
                run(small(1, 9, "B"))
            connection.execute("DELETE FROM t")
            connection.execute("INSERT INTO t SELECT * FROM kept")
            connection.execute("UPDATE t SET name = 'A', position = 8 WHERE id = 1")
    run(small(1, 9, "B"), small(5, 9, None))
    ask(database, "DELETE FROM t WHERE deleted")
    run(small(2, 10, "C"))
    assert names(database) == {1: "B", 2: "C", 4: "d"}


@pytest.mark.parametrize("batches", [1, 5])
def test_a_table_that_begins_anew_replaces_all_rows_also_those_at_its_position(database: str, tmp_path: Path, batches: int) -> None:
    run_anew(database, tmp_path / "state")
    assert names(database) == {1: "a", 2: "b", 4: "d", 5: "e"}
    run_anew(database, tmp_path / "state", ANEW, batches=batches)
    assert names(database) == {1: "a", 2: "BB", 4: "D", 7: "g"}
    assert dict(ask(database, "SELECT id, name FROM t WHERE deleted")) == {3: None, 5: None, 6: None}
    run_anew(database, tmp_path / "state", [])
    assert names(database) == {}


@pytest.mark.parametrize("changes", [None, ANEW])
def test_readers_see_all_changes_of_a_run_or_none(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    run_anew(database, tmp_path / "state")
    seen, merge = [names(database)], PostgresTable.merge

    def watched(into: PostgresTable, pieces: Any, **options: Any) -> Any:
        def watching() -> Any:
            for piece in pieces:
                seen.append(names(database))
                yield piece

        merge(into, [*watching()], **options)
        seen.append(names(database))
        return merge(into, pieces, **options)  # which is tried again

    with monkeypatch.context() as patched:
        patched.setattr(PostgresTable, "merge", watched)
        if changes is None:
            run_anew(database, tmp_path / "state", rows=[small(1, 8, "A"), small(2, 9, None), small(9, 9, "i")])
        else:
            run_anew(database, tmp_path / "state", ANEW, batches=7)
    *before, after = seen
    assert len(before) > 1
    assert [each for each in before if each != before[0]] == []
    assert after == names(database) == ({1: "A", 4: "d", 5: "e", 9: "i"} if changes is None else {1: "a", 2: "BB", 4: "D", 7: "g"})


@pytest.mark.parametrize("when", ["in its transaction", "before its commit"])
def test_a_run_of_a_table_that_begins_anew_and_is_killed_may_be_repeated_also_by_another_pipeline(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    run_anew(database, tmp_path / "state")
    before = names(database)

    def killed(*_: Any) -> None:
        raise OSError("killed")

    other: list[tuple[int, str | None, int]] = [(5, "other", 7), (2, "other", 7), (8, "other", 99), (1, None, 99)]
    with monkeypatch.context() as patched, pytest.raises(Exception, match="killed"):
        if when == "before its commit":
            patched.setattr(StateFolder, "prepare", killed)
        else:
            patched.setattr(PostgresMarks, "left", killed)
        run_anew(database, tmp_path / "state", other, batches=4)
    assert names(database) == (before if when == "in its transaction" else {2: "other", 5: "other", 8: "other"})
    with pytest.raises(InputError, match="the table t has been made anew by run 2, which has not ended: repeat it with the pipeline"):
        run_anew(database, tmp_path / "state")
    run_anew(database, tmp_path / "state", ANEW, batches=3)
    assert names(database) == {1: "a", 2: "BB", 4: "D", 7: "g"}
    run_anew(database, tmp_path / "state")
    assert not list((tmp_path / "state").glob("anew-*"))


def test_a_late_transaction_of_a_killed_run_leaves_the_rows_of_the_run_that_repeats_it(database: str) -> None:
    columns = TableColumns(TableType(), ["id"], SCHEMA)
    into = PostgresTable(database, "t", columns, "position", "deleted")
    into.prepare(create=True)

    def merge(*changes: Change[Any, Any], replaces: int | None = None) -> None:
        into.merge([into.lines(columns.of(batch_of(list(changes))))], replaces=replaces)

    merge(*(Change(n, None, row(n), n, n) for n in range(8)))
    into.begin_anew(7)
    merge(Change(1, None, row(11), 7, 7), Change(2, None, row(12), 8, 8), replaces=7)
    merge(Change(1, None, row(99), 7, 7), replaces=7)  # of the run before
    into.close()
    assert live(database) == {1: row(11), 2: row(12)}


def test_a_table_that_begins_anew_is_made_where_it_is_not_there(database: str, tmp_path: Path) -> None:
    run_anew(database, tmp_path / "state")
    ask(database, "DROP TABLE t CASCADE")
    run_anew(database, tmp_path / "state", ANEW)
    assert names(database) == {1: "a", 2: "BB", 4: "D", 7: "g"}


def test_a_pipeline_that_has_changed_replaces_the_rows_of_the_one_before(database: str, tmp_path: Path) -> None:
    def run(rows: list[dict[str, Any]], *more: str, negate: bool) -> dict[int, str]:
        options = PipelineOptions([f"--beam_joins_state={tmp_path / 'state'}", "--beam_joins_partitions=2", *more])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
            kept = FilterTable(lambda key, value: "a" in value["name"], negate=negate)
            _ = table_of(pipeline, rows, SMALL) | "kept" >> kept | "t" >> WritePostgres(database, "t", key="id", create=True)
        return names(database)

    assert run([small(1, 1, "ab"), small(2, 2, "a"), small(3, 3, "b"), small(4, 3, "a")], negate=False) == {1: "ab", 2: "a", 4: "a"}
    assert run([small(5, 4, "b"), small(1, 5, "c")], "--beam_joins_changed=rebuild", negate=True) == {1: "c", 3: "b", 5: "b"}
    assert run([small(3, 6, None)], negate=True) == {1: "c", 5: "b"}
