"""A table of PostgreSQL that is altered, restored or made again between two merges is noticed at the next one."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from beam_joins import Change
from beam_joins.errors import InputError, OutputError, Unavailable
from beam_joins.pipelines.results.run_mark import Mark, NotAsLeft
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.postgres_table import PostgresTable
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.incoming_tables import batch_of

COLUMNS = TableColumns(TableType(), ["id"], pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.decimal128(12, 4))]))
SHOUTS = """
    CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.name := upper(NEW.name); RETURN NEW; END$$;
    CREATE TRIGGER shout BEFORE INSERT OR UPDATE ON t FOR EACH ROW WHEN (NEW.id = 7) EXECUTE FUNCTION shout()
"""
AGAIN = "CREATE TABLE kept AS TABLE t; DROP VIEW t_live; DROP TABLE t; CREATE TABLE t (LIKE older INCLUDING ALL)"


@pytest.fixture
def there(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the database of the table."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def into(database: str) -> Iterator[PostgresTable]:
    """The table, with five rows, of which the last merge has changed one and deleted one; ``older`` is a copy from before it."""
    table = PostgresTable(database, "t", COLUMNS, "position", "deleted", in_one=True, is_marked=True, lines_come_later=True)
    table.prepare(create=True)
    yield table
    table.close()


def merged(into: PostgresTable, *changes: tuple[int, int, str | None], last: Mark | None = None, anew: bool = False) -> Mark:
    rows = [
        Change(key, None, None if name is None else {"name": name, "n": Decimal(position) + Decimal("0.1234")}, position, position)
        for key, position, name in changes
    ]
    return into.merge((into.lines(COLUMNS.of(batch_of(rows))) for _ in "1"), last=last, anew=anew)  # within the transaction


def last_of(into: PostgresTable, there: psycopg.Connection[Any]) -> Mark:
    """The mark of two merges; ``older`` is a copy of the table between them."""
    first = merged(into, *((key, key, f"n{key}") for key in range(5)), anew=True)
    there.execute("CREATE TABLE older (LIKE t INCLUDING ALL); INSERT INTO older TABLE t")
    return merged(into, (2, 20, "changed"), (3, 21, None), last=first)


@pytest.mark.parametrize(
    ("statements", "how"),
    [
        ("TRUNCATE t; INSERT INTO t TABLE older", "the row with the key 2 is older"),
        ("DELETE FROM t", "the row with the key 2 is gone"),
        ("DELETE FROM t WHERE id = 4", "the row with the key 4 is gone"),
        ("UPDATE t SET name = 'n3', deleted = false WHERE id = 3", "the row with the key 3 is older"),
        (AGAIN, "the row with the key 2 is gone"),
        ("DROP VIEW t_live; ALTER TABLE t DROP name", "it has no column name any more"),
        ("ALTER TABLE t RENAME name TO called", "it has no column name any more"),
        (
            "DROP VIEW t_live; ALTER TABLE t ALTER n TYPE numeric(12,2); ALTER TABLE t ALTER n TYPE numeric(12,4)",
            "the row with the key 2 has other values",
        ),
        ("UPDATE t SET name = 'mine' WHERE id = 4", "the row with the key 4 has other values"),
    ],
)
def test_a_table_that_is_not_as_the_last_run_has_left_it_is_refused_and_taken_when_it_is_made_anew(
    into: PostgresTable, there: psycopg.Connection[Any], statements: str, how: str
) -> None:
    last = last_of(into, there)
    there.execute(statements)
    with pytest.raises(NotAsLeft, match=f"^the table t is not as the last run with this state has left it: {how}$"):
        into.prepare(create=True, widen=True, last=last)
    if "ALTER TABLE t " not in statements or "(12,4)" in statements:
        with pytest.raises(NotAsLeft, match=how):
            merged(into, (1, 30, "next"), last=last)
    into.prepare(create=True, widen=True)
    merged(into, (1, 30, "next"), last=merged(into, (1, 1, "n1"), anew=True))
    assert there.execute("SELECT id, name FROM t").fetchall() == [(1, "next")]


@pytest.mark.parametrize(
    "statements",
    [
        "DELETE FROM t WHERE deleted",
        "CREATE TABLE kept AS TABLE t; TRUNCATE t; INSERT INTO t TABLE kept",
        f"{AGAIN}; INSERT INTO t TABLE kept",
        "DROP VIEW t_live; ALTER TABLE t ALTER n TYPE numeric(15,5), ALTER name TYPE varchar(99), ALTER id TYPE integer",
        "ALTER TABLE t ADD more text; VACUUM FULL t",
        "INSERT INTO t VALUES (9, 'of another', 1, 1, false); UPDATE t SET position = 99, name = 'newer' WHERE id = 4",
    ],
)
def test_a_table_with_all_rows_of_the_last_run_goes_on(into: PostgresTable, there: psycopg.Connection[Any], statements: str) -> None:
    last = last_of(into, there)
    for each in statements.split("; "):
        there.execute(each)
    into.prepare(create=True, widen=True, last=last)
    assert merged(into, (1, 30, "next"), last=last)["rows"][0][:2] in ([["1"], 30], [["4"], 99])
    assert there.execute("SELECT name FROM t WHERE id = 1").fetchall() == [("next",)]


@pytest.mark.parametrize(
    ("alter", "kind", "message"),
    [
        (
            "ALTER TABLE t ALTER n TYPE numeric(12,2)",
            InputError,
            r"the column n of the table t is numeric\(12,2\), which does not hold",
        ),
        (
            "ALTER TABLE t ALTER name TYPE varchar(2)",
            OutputError,
            r"the column name is character varying\(2\), which does not hold 'next ",
        ),
        (
            "ALTER TABLE t ADD more int NOT NULL DEFAULT 1; ALTER TABLE t ALTER more DROP DEFAULT",
            InputError,
            "more .* is NOT NULL and",
        ),
        ("CREATE UNIQUE INDEX one ON t ((name IS NULL))", InputError, "the unique index one of the table t would hold the next row"),
        (
            "ALTER TABLE t ADD CONSTRAINT full_ CHECK (name IS NOT NULL) NOT VALID",
            InputError,
            "the check full_ of the table t refuses",
        ),
        ("CREATE RULE no AS ON DELETE TO t DO INSTEAD NOTHING", InputError, r"the table t has rules \(CREATE RULE\)"),
    ],
)
def test_a_table_that_is_altered_while_its_writer_has_it_open_is_looked_at_before_each_merge(
    into: PostgresTable, there: psycopg.Connection[Any], alter: str, kind: type[Exception], message: str
) -> None:
    merged(into, (1, 1, "a"), anew=True)
    there.execute(f"DROP VIEW t_live; {alter}")
    with pytest.raises(kind, match=message):
        merged(into, (1, 30, "next      "))
    assert there.execute("SELECT name FROM t").fetchall() == [("a",)]


def test_rows_that_a_trigger_changes_or_keeps_are_refused_and_those_that_it_leaves_as_they_are_are_taken(
    into: PostgresTable, there: psycopg.Connection[Any]
) -> None:
    there.execute(SHOUTS)
    merged(into, (1, 1, "a"), (7, 2, "BIG"))
    with pytest.raises(OutputError, match=r"the column name has 'B' in place of 'b': a trigger of the table changes rows \(shout\)"):
        merged(into, (7, 3, "b"))
    there.execute("CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    there.execute("CREATE TRIGGER never BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION never()")
    with pytest.raises(OutputError, match=r"rows stay that are deleted: a trigger of the table changes rows \(never, shout\)"):
        merged(into, (8, 4, "c"), anew=True)
    assert there.execute("SELECT id, name FROM t ORDER BY id").fetchall() == [(1, "a"), (7, "BIG")]


def test_a_table_that_stays_locked_names_the_session_that_has_it(
    into: PostgresTable, there: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=10ms")
    with there.transaction():
        there.execute("LOCK TABLE t IN SHARE MODE")
        with pytest.raises(
            Unavailable, match=f"the session {there.info.backend_pid} of test .* has it locked since .*: end its trans"
        ):
            merged(into, (1, 1, "a"))
