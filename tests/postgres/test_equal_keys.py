"""Keys that the database has equal are equal in a join, whatever their texts; other pairs of columns are refused or told."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import psycopg
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import CountTable, ForeignKeyJoin, LatestTable, TableTableJoin
from beam_joins.coders.key import common_type
from beam_joins.columns.compared import in_forms
from beam_joins.io import ReadPostgres
from beam_joins.keys.key_columns import comparable, factorize
from beam_joins.pipelines.formats.types.postgres_types import typed_values
from beam_joins.pipelines.systems.postgres.postgres_server import connected
from beam_joins.pipelines.systems.postgres.published_tables import published_tables
from tests.pipelines.orders_run import Run, read_lines
from tests.postgres.slot_tables import asked, run

SETUP = (
    "CREATE EXTENSION citext",
    "CREATE EXTENSION hstore",
    "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE TYPE pair AS (n numeric, c char(3))",
    "CREATE DOMAIN code AS char(5)",
    "CREATE DOMAIN whole AS int",
    "CREATE DOMAIN price AS numeric",
)
VALUES = {
    "smallint": ["1", "7"],
    "integer": ["1", "7"],
    "bigint": ["1", "7"],
    "oid": ["1", "7"],
    "xid": ["1", "7"],
    "numeric": ["1.0", "7.50", "0.1"],
    "numeric(6,2)": ["1", "7.5", "0.1"],
    "numeric(6,3)": ["1", "7.5", "0.1"],
    "price": ["1.00", "7.500", "NaN"],
    "whole": ["1", "7"],
    "real": ["1", "0.1", "-0", "NaN"],
    "double precision": ["1", "0.1", "0", "NaN"],
    "text": ["AB", "ab", "1", "a", "c  "],
    "varchar(10)": ["AB", "AB  ", "a", "1.0"],
    "char(6)": ["AB", "a", "1"],
    "char(8)": ["AB", "a", "c"],
    "code": ["AB", "a"],
    "name": ["AB", "a"],
    '"char"': ["a", "c"],
    "citext": ["Ab", "É", "a"],
    'text COLLATE "anycase"': ["AB", "A"],
    "boolean": ["true", "false"],
    "bytea": ["AB", "\\x00ff"],
    "date": ["2026-03-01", "0044-03-15"],
    "timestamp": ["2026-03-01", "0044-03-15"],
    "timestamp(0)": ["2026-03-01 00:00:00.4", "2026-03-02"],
    "timestamptz": ["2026-03-01 05:30+05:30"],
    "timestamptz(0)": ["2026-03-01 00:00:00.4+00"],
    "time": ["01:00", "23:59:59.5"],
    "timetz": ["01:00+00", "02:00+01"],
    "interval": ["1 day", "24:00:00", "1:00", "-1 mon 30 days", "23:59:59.5", "-00:00:00.5"],
    "inet": ["10.0.0.1", "10.0.0.0/8", "::1"],
    "cidr": ["10.0.0.1/32", "10.0.0.0/8", "::1/128"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03"],
    "uuid": ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
    "json": ['{"a": 1}'],
    "jsonb": ['{"a": 1.0, "b": ["1.0", 20]}', '{"b": ["1.0", 2e1], "a": 1}', '{"a": "1"}'],
    "bit(3)": ["101"],
    "varbit": ["101", "1010"],
    "money": ["1.50"],
    "mood": ["a", "b"],
    "pair": ["(1.0,a)", "(1,a)", '(,"b ")'],
    "int4range": ["[1,5)", "[1,4]", "empty"],
    "numrange": ["[1.0,2)", "[1,2.0)", "(,3]", "empty"],
    "nummultirange": ["{[1.0,2),[3,4)}", "{[1,2),[3.0,4)}"],
    "int[]": ["{1,2}", "[0:1]={1,2}"],
    "numeric[]": ["{1.0,NULL}", "{1,NULL}", "{{1.0}}"],
    "text[]": ['{AB,"a,b","NULL"}'],
    "varchar(5)[]": ['{AB,"a,b","NULL"}'],
    "char(5)[]": ["{AB}"],
    "jsonb[]": ['{"{\\"a\\": 1.0}"}', '{"{\\"a\\": 1}"}'],
    "xml": ["<a/>"],
    "point": ["(1,2)"],
    "box": ["(1,1),(0,0)", "(2,1),(1,0)"],
    "tsvector": ["a b", "b a"],
    "pg_lsn": ["0/10", "0/0010"],
    "hstore": ["a=>1", "b=>2, a=>1"],
    "regclass": ["pg_class"],
}
"""Values of each type, of which some are equal to others in another text."""

_NOT_COMPARED = (psycopg.errors.UndefinedFunction, psycopg.errors.AmbiguousFunction, psycopg.errors.IndeterminateCollation)
_TEXTS = "SELECT CASE WHEN {0}::text IS NOT NULL THEN format('%s', {0}) END FROM public.pairs ORDER BY id"
"""As the log has them; a cast would take blanks away."""


class Compared(NamedTuple):
    """What is joined: pairs of places of values by the types of both sides."""

    server: dict[tuple[str, str], set[tuple[int, int]]]
    ours: dict[tuple[str, str], set[tuple[int, int]]]
    refused: dict[tuple[str, str], str]
    told: dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def types(postgres: str) -> str:
    """A database with types and extensions."""
    run(postgres, "CREATE DATABASE equal_keys TEMPLATE template0 ENCODING UTF8 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
    conninfo = postgres.replace("dbname=postgres", "dbname=equal_keys")
    run(conninfo, *SETUP)
    return conninfo


@pytest.fixture(scope="module")
def compared(types: str) -> Compared:
    """All pairs of types."""
    columns = {kind: f"c{n}" for n, kind in enumerate(VALUES)}
    rows = max(map(len, VALUES.values()))
    run(
        types,
        f"CREATE TABLE pairs (id int PRIMARY KEY, {', '.join(f'{name} {kind}' for kind, name in columns.items())})",
        "CREATE PUBLICATION pairs FOR TABLE pairs",
    )
    with psycopg.connect(types, autocommit=True) as connection:
        for n in range(rows):
            values = [texts[n] if n < len(texts) else None for texts in VALUES.values()]
            connection.execute(f"INSERT INTO pairs VALUES ({', '.join(['%s'] * (len(values) + 1))})", [n, *values])
        server = dict[tuple[str, str], set[tuple[int, int]]]()
        for one in VALUES:
            for other in VALUES:
                query = f"SELECT a.id, b.id FROM pairs a JOIN pairs b ON a.{columns[one]} = b.{columns[other]}"
                with suppress(*_NOT_COMPARED):
                    server[one, other] = set(connection.execute(query).fetchall())
    with connected(types) as connection:
        table = published_tables(connection, "pairs")["public.pairs"]
        texts = {
            name: pa.array([text for (text,) in connection.execute(_TEXTS.format(name))], pa.string()) for name in columns.values()
        }
    described = {column.name: column for column in table.table.columns}
    ours, refused, told = dict[tuple[str, str], set[tuple[int, int]]](), dict[tuple[str, str], str](), dict[tuple[str, str], str]()
    for one, left in columns.items():
        for other, right in columns.items():
            try:
                made = table.compared[left].compared_with(table.compared[right])
            except ValueError as error:
                refused[one, other] = str(error)
                continue
            if made.note:
                told[one, other] = made.note
            sides = []
            for name, form in ((left, made.left), (right, made.right)):
                values = typed_values(texts[name], described[name].texts, described[name].type, table.columns.field(name))
                sides.append(in_forms(comparable(values, "a key"), [form]))
            if common_type(sides[0].type, sides[1].type) is None:
                refused[one, other] = "of types that are never equal"
                continue
            ours[one, other] = _met(*sides)
            if table.kinds[left] == table.kinds[right] == "text":  # as a command has keys
                plain = [in_forms(texts[name], [form]) for name, form in ((left, made.left), (right, made.right))]
                assert _met(*plain) == ours[one, other], (one, other)
    return Compared(server, ours, refused, told)


def _met(left: pa.Array, right: pa.Array) -> set[tuple[int, int]]:
    one, other = (codes.tolist() for codes in factorize(left, right))
    is_there = left.is_valid().to_pylist(), right.is_valid().to_pylist()
    return {(n, m) for n, a in enumerate(one) for m, b in enumerate(other) if a == b and is_there[0][n] and is_there[1][m]}


def test_each_pair_of_types_that_is_not_refused_is_joined_as_the_server_joins_it(compared: Compared) -> None:
    assert len(VALUES) >= 40
    wrong = {
        pair: (met, compared.server[pair])
        for pair, met in compared.ours.items()
        if pair in compared.server and met != compared.server[pair]
    }
    assert wrong == {}


def test_each_pair_that_the_server_does_not_compare_is_refused_or_told(compared: Compared) -> None:
    known = {*compared.server, *(pair[::-1] for pair in compared.server), *compared.told}  # xid = integer, not integer = xid
    silent = [pair for pair in compared.ours if pair not in known]
    assert silent == []
    assert compared.told["uuid", "text"] == (
        "public.pairs.c35 is uuid and public.pairs.c12 is text, which PostgreSQL does not compare: they are joined by their texts"
    )


def test_a_type_beside_itself_is_refused_only_where_its_texts_say_too_little(compared: Compared) -> None:
    assert {one for one, other in compared.refused if one == other} == {'text COLLATE "anycase"', "box"}
    assert [pair for pair in compared.told if pair[0] == pair[1]] == [(kind, kind) for kind in ("json", "xml", "point")]
    of_zones = compared.refused["date", "timestamptz"]
    assert of_zones.endswith(
        "is date and public.pairs.c26 is timestamp with time zone, which PostgreSQL compares by the time zone of the session: ALTER "
        "TABLE public.pairs ALTER COLUMN c23 TYPE timestamptz USING c23::timestamp AT TIME ZONE 'UTC'"
    )


@pytest.mark.parametrize(
    ("name", "reference", "key", "left", "right", "other"),
    [
        ("char_in_varchar", "char(6)", "varchar(10)", "'AB'", "'AB  '", "'CDE'"),
        ("citext_in_citext", "citext", "citext", "'Ann'", "'ANN'", "'ann'"),
        ("jsonb_in_jsonb", "jsonb", "jsonb", "'[1.0]'", "'[1]'", "'[1.00]'"),
    ],
)
def test_runs_find_the_rows_that_the_server_finds(
    types: str, beam_joins: Run, name: str, reference: str, key: str, left: str, right: str, other: str
) -> None:
    run(
        types,
        f"CREATE TABLE k_{name} (code {key} PRIMARY KEY, label text)",
        f"CREATE TABLE o_{name} (id int PRIMARY KEY, ref {reference})",
        f"INSERT INTO k_{name} VALUES ({right}, 'one')",
        f"INSERT INTO o_{name} VALUES (1, {left}), (2, NULL)",
    )
    address = _address(types, name)
    assert beam_joins("slot", "create", address, "--tables", f"public.o_{name},public.k_{name}").code == 0
    options = [
        "--left",
        address,
        "--left-table",
        f"o_{name}",
        "--right",
        address,
        "--right-table",
        f"k_{name}",
        "--foreign-key",
        "ref",
    ]
    options += ["--how", "left", "--select", "left.id, left.ref, right.label", "--state-dir", "state", "--latest", "now.jsonl"]
    for statements in (
        [],
        [f"INSERT INTO o_{name} VALUES (3, {left})", f"UPDATE k_{name} SET label = 'two'"],
        [f"BEGIN; UPDATE k_{name} SET code = {other}; UPDATE k_{name} SET label = 'three'; COMMIT"],
        [f"INSERT INTO o_{name} VALUES (4, {other})"],
        [f"DELETE FROM k_{name}"],
    ):
        run(types, *statements, "CHECKPOINT")
        ran = beam_joins("join", *options)
        assert (ran.code, ran.err) == (0, ""), ran
        query = f"SELECT id, ref::text, label FROM o_{name} LEFT JOIN k_{name} ON ref = code"
        if reference.startswith("char"):
            query = query.replace("ref::text", "format('%s', ref)")  # with its blanks
        got = [(row["id"], row["ref"], row["label"]) for row in read_lines(Path("now.jsonl"))]
        assert sorted(got) == [tuple(each or None for each in row) for row in asked(types, query)], statements


def test_python_joins_as_the_server_does_and_refuses_other_keys_and_groups(types: str) -> None:
    run(
        types,
        "CREATE TABLE sold (id int PRIMARY KEY, price numeric, shop citext, day date)",
        "CREATE TABLE prices (price numeric PRIMARY KEY, label text)",
        "CREATE TABLE days (day timestamp PRIMARY KEY, label text)",
        "CREATE TABLE others (price numeric PRIMARY KEY)",
        "INSERT INTO sold VALUES (1, 7.50, 'Ann', '2026-03-01'), (2, 8, 'ANN', '2026-03-02')",
        "INSERT INTO prices VALUES (7.5, 'cheap'), (8.00, 'dear')",
        "INSERT INTO days VALUES ('2026-03-02', 'Monday')",
        "CREATE PUBLICATION sold FOR TABLE sold, prices, days, others",
        "SELECT pg_create_logical_replication_slot('sold', 'pgoutput')",
    )
    _joined.clear()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        tables = pipeline | ReadPostgres(types, slot="sold", tables=["sold", "prices", "days", "others"])
        priced = (tables["sold"], tables["prices"]) | "price" >> ForeignKeyJoin(
            {"price": "left.price", "day": "left.day", "label": "right.label"}, foreign_key="price"
        )
        dated = (priced, tables["days"]) | "day" >> ForeignKeyJoin(
            {"price": "left.price", "label": "left.label", "day": "right.label"}, foreign_key="day", how="left"
        )
        _ = dated | LatestTable() | beam.Map(_collect)
        with pytest.raises(ValueError, match=r"public\.prices\.price is numeric and .* join them by ForeignKeyJoin"):
            _ = (tables["prices"], tables["others"]) | "same" >> TableTableJoin({"label": "left.label"})
        with pytest.raises(ValueError, match=re.escape("public.sold.shop is public.citext, and values that PostgreSQL has equal")):
            _ = tables["sold"] | "groups" >> CountTable(group_by="shop")
    assert sorted(map(str, _joined)) == [
        "{'price': '7.50', 'label': 'cheap', 'day': None}",
        "{'price': '8', 'label': 'dear', 'day': 'Monday'}",
    ]


_joined: list[Any] = []


def _collect(element: Any) -> None:
    _joined.extend([element[1]] if isinstance(element, tuple) else [row["value"] for row in element.to_pylist()])


def _address(conninfo: str, slot: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"postgres://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}?slot={slot}"
