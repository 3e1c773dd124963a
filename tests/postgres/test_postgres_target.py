"""What a table of PostgreSQL promises is read when a pipeline is built, and every value that is written stays the same value."""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import Change, ChangeBatch, TableFromChangelog
from beam_joins.errors import InputError, OutputError
from beam_joins.io import WritePostgres
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.postgres_table import PostgresTable
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.incoming_tables import batch_of
from tests.postgres.test_write_postgres import ask

LAST = "position bigint NOT NULL, deleted boolean NOT NULL"
TEXT, UTC, NOON = pa.string(), pa.timestamp("us", "UTC"), dt.datetime(2026, 3, 1, 12)


def into(database: str, kind: pa.DataType, table: str = "t", *, in_one: bool = True) -> PostgresTable:
    columns = TableColumns(TableType(pa.int64(), pa.struct([("v", kind)])), ["id"], None)
    return PostgresTable(database, table, columns, "position", "deleted", in_one=in_one)


def merge(target: PostgresTable, values: pa.Array) -> None:
    numbers = pa.array(range(len(values)), pa.int64())
    new = pa.StructArray.from_arrays([values], ["v"])
    batch = ChangeBatch(key=numbers, new=new, before=pa.nulls(len(values), pa.int64()), timestamp=numbers, position=numbers)
    target.prepare(create=False)
    try:
        target.merge([target.lines(target.columns.of(batch))])
    finally:
        target.close()


SAME: list[tuple[pa.DataType, list[Any], dict[str, list[str]]]] = [
    (pa.bool_(), [True], {"boolean": ["true"], "text": ["true"], "jsonb": ["true"]}),
    (
        pa.int64(),
        [7, 0],
        {"smallint": ["7", "0"], "numeric(9,2)": ["7.00", "0.00"], "double precision": ["7", "0"], "oid": ["7", "0"]},
    ),
    (pa.int64(), [1, 0], {"boolean": ["true", "false"], "character varying(3)": ["1", "0"], "json": ["1", "0"], "real": ["1", "0"]}),
    (pa.float32(), [0.1], {"real": ["0.1"], "double precision": ["0.10000000149011612"]}),
    (
        pa.float64(),
        [0.1, math.nan, -math.inf],
        {"double precision": ["0.1", "NaN", "-Infinity"], "numeric": ["0.1", "NaN", "-Infinity"]},
    ),
    (pa.float64(), [1.25, 1e20], {"numeric(24,2)": ["1.25", "100000000000000000000.00"]}),
    (pa.float64(), [7.0, 1e15], {"bigint": ["7", "1000000000000000"]}),
    (pa.decimal128(12, 2), [Decimal("1234.50")], {"numeric": ["1234.50"], "numeric(9,3)": ["1234.500"], "money": ["$1,234.50"]}),
    (pa.decimal128(12, 0), [Decimal(7)], {"integer": ["7"]}),
    (
        TEXT,
        ["a", "b  "],
        {"text": ["a", "b  "], "character varying(3)": ["a", "b  "], "character(3)": ["a", "b"], "name": ["a", "b  "]},
    ),
    (TEXT, ["ab    ", "cd"], {"character(6)": ["ab", "cd"]}),
    (TEXT, ["1.50", "NaN"], {"numeric(8,2)": ["1.50", "NaN"], "numeric": ["1.50", "NaN"]}),
    (
        TEXT,
        ["24:00:00", "09:30"],
        {"time": ["24:00:00", "09:30:00"], "time(0)": ["24:00:00", "09:30:00"], "timetz": ["24:00:00+00", "09:30:00+00"]},
    ),
    (TEXT, ["infinity", "0044-03-15 BC", "2026-03-01"], {"date": ["infinity", "0044-03-15 BC", "2026-03-01"]}),
    (TEXT, ["infinity", "2026-03-01 12:00:00+02"], {"timestamptz": ["infinity", "2026-03-01 10:00:00+00"]}),
    (TEXT, ["-infinity", "2026-03-01 12:00:00"], {"timestamp": ["-infinity", "2026-03-01 12:00:00"]}),
    (TEXT, ['["2026-03-01 00:00:00",)'], {"tstzrange": ['["2026-03-01 00:00:00+00",)'], "tsrange": ['["2026-03-01 00:00:00",)']}),
    (TEXT, ["1 mon -3 days 04:05:06.7", "-1 days +02:03:04"], {"interval": ["1 mon -3 days +04:05:06.7", "-1 days +02:03:04"]}),
    (TEXT, ["{1.25,NULL}"], {"numeric(5,2)[]": ["{1.25,NULL}"], "text[]": ["{1.25,NULL}"], "double precision[]": ["{1.25,NULL}"]}),
    (TEXT, ['{"a": "\\\\", "b": 1.0}'], {"jsonb": ['{"a": "\\\\", "b": 1.0}'], "json": ['{"a": "\\\\", "b": 1.0}']}),
    (TEXT, ["$1,234.56"], {"money": ["$1,234.56"]}),
    (TEXT, ["0101", "1"], {"bit varying(9)": ["0101", "1"]}),
    (TEXT, ["::1"], {"inet": ["::1/128"]}),
    (TEXT, ["0044-03-15 00:00:00+00 BC"], {"timestamptz": ["0044-03-15 00:00:00+00 BC"]}),
    (pa.binary(), [b"\x00\xff\\", b"", b"\\x41"], {"bytea": [r"\x00ff5c", r"\x", r"\x5c783431"]}),
    (
        pa.date32(),
        [NOON.date()],
        {"date": ["2026-03-01"], "timestamp": ["2026-03-01 00:00:00"], "timestamptz": ["2026-03-01 00:00:00+00"]},
    ),
    (pa.time64("us"), [NOON.time()], {"time": ["12:00:00"], "time(0)": ["12:00:00"], "timetz": ["12:00:00+00"]}),
    (pa.timestamp("us"), [NOON], {"timestamp": [f"{NOON}"], "timestamptz": [f"{NOON}+00"], "timestamp(0)": [f"{NOON}"]}),
    (UTC, [NOON.replace(tzinfo=dt.UTC)], {"timestamptz": [f"{NOON}+00"], "timestamp": [f"{NOON}"], "timestamptz(0)": [f"{NOON}+00"]}),
    (pa.timestamp("us", "Asia/Tokyo"), [NOON.replace(tzinfo=dt.UTC)], {"timestamp": [f"{NOON}"], "timestamptz": [f"{NOON}+00"]}),
    (pa.timestamp("us", "UTC"), [-63_000_000_000_000_000], {"timestamptz": ["0028-08-11 08:00:00+00 BC"]}),
    (pa.uuid(), [bytes(16)], {"uuid": ["00000000-0000-0000-0000-000000000000"]}),
    (pa.list_(pa.int64()), [[1, None]], {"jsonb": ["[1, null]"], "text": ["[1,null]"]}),
]


def test_every_value_that_is_taken_is_the_same_value_whatever_the_role_is_set_to(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = dict(each.split("=") for each in database.split())["dbname"]
    for setting, value in (
        ("TimeZone", "Asia/Tokyo"),
        ("DateStyle", "SQL, DMY"),
        ("IntervalStyle", "sql_standard"),
        ("array_nulls", "off"),
    ):
        ask(database, f"ALTER DATABASE {name} SET {setting} = '{value}'")
    monkeypatch.setenv("PGTZ", "America/New_York")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    shown = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'"
    wrong = {}
    for number, (kind, values, targets) in enumerate(SAME):
        for place, (target, right) in enumerate(targets.items()):
            table = f"t{number}_{place}"
            ask(database, f"CREATE TABLE {table} (id int PRIMARY KEY, v {target}, {LAST})")
            column = pa.array(values, pa.binary(16) if kind == pa.uuid() else kind)
            merge(into(database, kind, table), column.cast(kind) if kind == pa.uuid() else column)
            actual = [v for _, v in ask_as(database, shown, f"SELECT id, v::text FROM {table} ORDER BY id")]
            if actual != right:
                wrong[str(kind), target] = actual
    assert wrong == {}


def ask_as(database: str, settings: Any, query: Any) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(settings)
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("kind", "value", "target", "message"),
    [
        (pa.decimal128(12, 4), Decimal(1), "numeric(10,2)", "does not hold every decimal128(12, 4) as it is: make it numeric(12, 4)"),
        (pa.timestamp("us"), NOON, "date", "the column v of the table t is date, which does not hold every timestamp[us] as it is"),
        (pa.float64(), 0.1, "real", "make it double precision"),
        (TEXT, "00ff", "bytea", "the column v of the table t is bytea, which does not hold every string as it is: read the column as"),
        (TEXT, "1.255", "numeric(8,2)", "the column v is numeric(8,2), which does not hold '1.255' as it is"),
        (pa.float64(), 1.255, "numeric(8,2)", "the column v is numeric(8,2), which does not hold '1.255' as it is"),
        (TEXT, "{1.255}", "numeric(8,2)[]", "does not hold '{1.255}' as it is"),
        (pa.timestamp("us"), NOON.replace(microsecond=5), "timestamp(0)", "does not hold '2026-03-01 12:00:00.000005' as it is"),
        (pa.time64("us"), dt.time(1, 2, 3, 4), "time(3)", "the column v is time(3) without time zone, which does not hold"),
        (TEXT, "00:00:01.5", "interval(0)", "the column v is interval(0), which does not hold '00:00:01.5' as it is"),
        (TEXT, "abc ", "character varying(3)", "the column v is character varying(3), which does not hold 'abc ' as it is"),
        (TEXT, "a ", "character(3)", "the column v is character(3), which does not hold 'a ' as it is"),
        (TEXT, "abcd", "character(3)", "the column v is character(3), which does not hold 'abcd' as it is"),
        (TEXT, "n" * 64, "name", "the column v is name, which does not hold"),
        (TEXT, "ab", '"char"', "does not hold 'ab' as it is"),
        (TEXT, "now", "timestamptz", "does not hold 'now' as it is"),
        (pa.int64(), -1, "oid", "the column v is oid, which does not hold '-1' as it is"),
        (pa.int64(), 2**40, "integer", "is out of range for type integer (column v"),
        (TEXT, "007", "integer", "the column v is integer, which does not hold '007' as it is"),
        (TEXT, '{"a":1,"a":2}', "jsonb", """the column v is jsonb, which does not hold '{"a":1,"a":2}' as it is"""),
        (TEXT, '(1.255,"2026-03-01 12:00:00")', "pair", "the column v is pair, which does not hold '(1.255,"),
        (TEXT, '(1.25,"2026-03-01 12:00:00+02")', "pair", "does not hold '(1.25,"),
        (TEXT, '{"(1.255,)"}', "pair[]", "the column v is pair[], which does not hold"),
        (TEXT, "{1.255}", "exact[]", "the column v is exact[], which does not hold '{1.255}' as it is"),
        (TEXT, '{"[2026-03-01 12:00+02,)"}', "tsrange[]", "the column v is tsrange[], which does not hold"),
        (TEXT, "[1.255,)", "exact_range", "the column v is exact_range, which does not hold '[1.255,)' as it is"),
        (TEXT, "[1,5]", "int4range", "the column v is int4range, which does not hold '[1,5]' as it is"),
        (TEXT, "fat cat", "tsvector", "the column v is tsvector, which does not hold 'fat cat' as it is"),
        (TEXT, "(0,0),(1,1)", "box", "the column v is box, which does not hold '(0,0),(1,1)' as it is"),
        (TEXT, "1.255", "exact", "the column v is numeric(8,2), which does not hold '1.255' as it is"),
    ],
)
def test_a_value_that_the_column_would_change_is_refused_with_its_column(
    database: str, kind: pa.DataType, value: Any, target: str, message: str
) -> None:
    _make_types(database)
    ask(database, f"CREATE TABLE t (id int PRIMARY KEY, v {target}, {LAST})")
    with pytest.raises(InputError) as caught:
        merge(into(database, kind), pa.array([value], kind))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ask(database, "SELECT FROM t") == []


def _make_types(database: str) -> None:
    ask(database, "CREATE DOMAIN exact AS numeric(8,2)")
    ask(database, "CREATE TYPE pair AS (n exact, at timestamp)")
    ask(database, "CREATE TYPE exact_range AS RANGE (subtype = exact)")
    ask(database, "CREATE TYPE mood AS ENUM ('sad', 'so so')")
    ask(database, "CREATE TYPE labels AS (mood mood, id uuid, yes boolean)")


WITHIN: list[tuple[str, list[str], list[str]]] = [
    ("pair", ["(,)", "(1.25, 2026-03-01 12:00:00)"], ["(,)", '(1.25,"2026-03-01 12:00:00")']),
    ("pair[]", [array := '{"(1.25,\\"2026-03-01 12:00:00\\")",NULL}'], [array]),
    ("exact[]", ["{1.25,NULL}", "{{1.00}, {2.00}}"], ["{1.25,NULL}", "{{1.00},{2.00}}"]),
    ("exact_range", ["[1.25,2.50)", "empty"], ["[1.25,2.50)", "empty"]),
    ("tsrange[]", [ranges := '{"[\\"2026-03-01 12:00:00\\",)"}'], [ranges]),
    ("int4range", ["[1,5)", "[1,)"], ["[1,5)", "[1,)"]),
    ("tsvector", ["cat fat", "'cat':1"], ["'cat' 'fat'", "'cat':1"]),
    ("box", ["(1, 1), (0, 0)"], ["(1,1),(0,0)"]),
    ("mood[]", ['{sad,"so so"}'], ['{sad,"so so"}']),
    ("labels", ["(sad,A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,true)"], ["(sad,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,t)"]),
]


def test_values_of_types_within_types_that_stay_the_same_are_merged(database: str) -> None:
    _make_types(database)
    for number, (target, values, right) in enumerate(WITHIN):
        ask(database, f"CREATE TABLE t{number} (id int PRIMARY KEY, v {target}, {LAST})")
        merge(into(database, TEXT, f"t{number}"), pa.array([*values, None], TEXT))
        assert [v for (v,) in ask(database, f"SELECT v::text FROM t{number} ORDER BY id")] == [*right, None]


CHANGES = [Change(1, None, {"v": "A"}, 1, 1), Change(2, None, {"v": "B"}, 1, 1), Change(3, None, {"v": "C"}, 1, 1)]


def write(target: PostgresTable, *changes: Change[Any, Any], anew: bool = False) -> None:
    target.merge([target.lines(target.columns.of(batch_of(list(changes))))], anew=anew)


def of_text(database: str, **options: Any) -> PostgresTable:
    schema = pa.schema([("id", pa.int64()), ("v", TEXT)])
    return PostgresTable(database, "t", TableColumns(TableType(), ["id"], schema), "position", "deleted", **options)


@pytest.mark.parametrize(
    "made",
    [
        f"CREATE TABLE t (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, v text, {LAST})",
        f"CREATE TABLE t (id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, v text, {LAST})",
        f"CREATE TABLE t (id int PRIMARY KEY, v text, w int GENERATED ALWAYS AS (1) STORED,"
        f"n int GENERATED ALWAYS AS IDENTITY, {LAST})",
        f"CREATE TABLE t (id int, v text, {LAST}, PRIMARY KEY (id) INCLUDE (v))",
        f"CREATE TABLE t (id int UNIQUE NULLS NOT DISTINCT, v text, {LAST}, UNIQUE (v, id))",
        f"CREATE TABLE t (id int PRIMARY KEY, v text CHECK (v <> ''), {LAST}, CHECK (deleted OR v IS NOT NULL))",
        f"CREATE DOMAIN word AS text CHECK (VALUE <> ''); CREATE TABLE t (id int PRIMARY KEY, v word, {LAST})",
        f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}) PARTITION BY HASH (id);"
        "CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        f"CREATE TABLE t (id int PRIMARY KEY, v text, more int UNIQUE, {LAST})",
    ],
)
@pytest.mark.parametrize("in_one", [True, False])
def test_a_table_that_keeps_rows_is_merged_into(database: str, made: str, in_one: bool) -> None:
    ask(database, made)
    target = of_text(database, in_one=in_one)
    target.prepare(create=False)
    write(target, *CHANGES)
    write(target, Change(1, {"v": "A"}, {"v": "a"}, 2, 2), Change(2, {"v": "B"}, None, 2, 2))
    target.close()
    assert ask(database, "SELECT id, v, deleted FROM t ORDER BY id") == [(1, "a", False), (2, None, True), (3, "C", False)]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text GENERATED ALWAYS AS ('a') STORED, {LAST})",
            "the column v of the table t is generated",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text CHECK (v IS NOT NULL), {LAST})",
            "the check t_v_check of the table t refuses deleted",
        ),
        (
            f"CREATE DOMAIN word AS text NOT NULL; CREATE TABLE t (id int PRIMARY KEY, v word, {LAST})",
            "the column v of the table t is of the domain word, which refuses null, and is null where a row is",
        ),
        (
            f"CREATE DOMAIN word AS text CHECK (VALUE IS NOT NULL); CREATE TABLE t (id int PRIMARY KEY, v word, {LAST})",
            "the column v of the table t is of the domain word, which refuses null",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}) PARTITION BY HASH (id);"
            "CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0); ALTER TABLE t_0 ALTER v SET NOT NULL",
            "the column v of the table t is NOT NULL",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text, more int NOT NULL, {LAST})",
            "the column more of the table t is NOT NULL and not written",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v text, {LAST})",
            "unique index of the columns id, only one that is deferrable",
        ),
        (
            f"CREATE TABLE t (id int, v text, {LAST}); CREATE UNIQUE INDEX ON t (id) WHERE NOT deleted",
            "has no primary key or unique index",
        ),
        (
            "CREATE VIEW t AS SELECT 1 AS id, 'a' AS v, 1::bigint AS position, false AS deleted",
            "t is a view in the database: name a table",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}); CREATE RULE r AS ON INSERT TO t DO NOTHING",
            "the table t has rules (CREATE RULE)",
        ),
        ("CREATE TABLE t (id int PRIMARY KEY, v text, position text, deleted boolean)", "the column position of the table t is text"),
        ("CREATE TABLE t (id int PRIMARY KEY, v text, position bigint, deleted text)", "the column deleted of the table t is text"),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE NULLS NOT DISTINCT, {LAST})",
            "the unique index t_v_key of the table t would hold",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}, UNIQUE (position))",
            "the unique index t_position_key of the table t would hold",
        ),
        (
            f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}); CREATE UNIQUE INDEX u ON t ((coalesce(v, '')))",
            "the unique index u of the table t would hold the next row against a deleted one, which stays with null values: let it "
            "leave those out (WHERE NOT deleted), or drop it",
        ),
    ],
)
@pytest.mark.parametrize("in_one", [True, False])
def test_a_table_that_cannot_keep_rows_is_refused_before_anything_is_written(
    database: str, made: str, message: str, in_one: bool
) -> None:
    ask(database, made)
    with pytest.raises(InputError) as caught:
        of_text(database, in_one=in_one).prepare(create=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_whose_policies_hide_rows_is_refused(database: str) -> None:
    ask(
        database,
        f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}); ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE ROLE somebody LOGIN",
    )
    ask(database, "GRANT ALL ON t TO somebody; CREATE POLICY p ON t USING (id > 1)")
    try:
        with pytest.raises(InputError, match="the policies of the table t hide rows from the role somebody: give it BYPASSRLS"):
            of_text(database.replace("user=test", "user=somebody")).prepare(create=False)
    finally:
        ask(database, "DROP OWNED BY somebody; DROP ROLE somebody")


SECOND = {
    "plain": f"CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE, {LAST})",
    "deferrable": f"CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE DEFERRABLE INITIALLY IMMEDIATE, {LAST})",
    "deferred": f"CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE DEFERRABLE INITIALLY DEFERRED, {LAST})",
    "partial": f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}); CREATE UNIQUE INDEX ON t (v) WHERE NOT deleted",
    "of an expression": f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}); CREATE UNIQUE INDEX ON t (lower(v))",
    "partial, of an expression": f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST});"
    "CREATE UNIQUE INDEX ON t (coalesce(v, '')) WHERE NOT deleted",
    "of a partition": f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}) PARTITION BY RANGE (id);"
    "CREATE TABLE t_0 PARTITION OF t DEFAULT; ALTER TABLE t_0 ADD UNIQUE (v)",
    "exclusion": f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST}, EXCLUDE (v WITH =))",
}


@pytest.mark.parametrize("made", SECOND.values(), ids=SECOND)
def test_rows_hand_on_values_that_the_table_holds_once(database: str, made: str) -> None:
    ask(database, made)
    target = of_text(database, in_one=True)
    target.prepare(create=False)
    write(target, *CHANGES, anew=True)
    rows = [{1: "B", 2: "A", 3: "C"}, {1: "C", 2: "A", 3: None}, {1: "C", 2: "D", 3: None, 4: "A"}, {1: "A", 2: "C", 3: "D", 4: None}]
    for position, after in enumerate(rows, 2):
        write(target, *(Change(key, None, v and {"v": v}, position, position) for key, v in after.items()))
        assert dict(ask(database, "SELECT id, v FROM t ORDER BY id")) == after
    with pytest.raises(OutputError, match=r"PostgreSQL, table t: (duplicate key value|conflicting key value) violates"):
        write(target, Change(5, None, {"v": "A"}, 9, 9))
    target.close()
    with pytest.raises(InputError, match="the unique index .* of the table t would refuse a value that one row hands on to another"):
        of_text(database).prepare(create=False)


def test_a_table_that_is_altered_behind_the_construction_of_the_pipeline_is_not_written(database: str) -> None:
    ask(database, f"CREATE TABLE t (id int PRIMARY KEY, v text, {LAST})")
    target = of_text(database)
    target.prepare(create=False)
    ask(database, "ALTER TABLE t ALTER v TYPE varchar(3)")
    with pytest.raises(OutputError, match="PostgreSQL, table t: the table was altered since the pipeline was built: run it again"):
        write(target, *CHANGES)


def built(database: str, state: Path | None, *rows: int, **options: Any) -> beam.Pipeline:
    """A pipeline that writes rows, each of its number and at the position of its number."""
    settings = PipelineOptions([] if state is None else [f"--beam_joins_state={state}", "--beam_joins_partitions=2"])
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=settings)
    log = pipeline | beam.Create([pa.table({"id": rows, "v": rows, "lsn": rows})]).with_output_types(pa.Table)
    table = log | "table" >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["lsn", "id"])
    _ = table | WritePostgres(database, "t", key="id", create=True, **options)
    return pipeline


def test_a_first_run_with_a_state_refuses_a_table_with_rows_and_goes_on_where_it_was_killed(database: str, tmp_path: Path) -> None:
    def run(state: str | None, *rows: int, **options: Any) -> list[int]:
        built(database, state and tmp_path / state, *rows, **options).run().wait_until_finish()
        return [key for (key,) in ask(database, "SELECT id FROM t_live ORDER BY id")]

    assert run("one", 1, 2) == [1, 2]
    assert run("one", 3) == [1, 2, 3]
    assert run(None, 1, 2, 3, 4) == [1, 2, 3, 4]
    with pytest.raises(InputError) as caught:
        run("two", 5)
    assert str(caught.value) == (
        f"the table t has rows, which no run with the state {tmp_path / 'two'} has written, so that rows deleted meanwhile would "
        "stay: empty the table, give the state of the runs before, or say existing='keep'"
    )
    assert run("two", 5, existing="keep") == [1, 2, 3, 4, 5]
    ask(database, "TRUNCATE t")
    built(database, tmp_path / "three", 1, 2)
    ask(database, "INSERT INTO t VALUES (1, 1, 1, false)")  # and there the first run was killed
    assert run("three", 1, 2) == [1, 2]
    assert run("three", 3) == [1, 2, 3]
    ask(database, "DROP TABLE t CASCADE")
    with pytest.raises(InputError, match=r"the table t is not there, and would lack what the runs before with .*three have written"):
        run("three", 4)
