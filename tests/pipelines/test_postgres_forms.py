"""Which Arrow types go into which columns of PostgreSQL, and which values they keep as they are."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.errors import InputError
from beam_joins.pipelines.systems.postgres.copy_text import copy_text
from beam_joins.pipelines.systems.postgres.postgres_forms import NUMBERS, Form, PostgresType, TargetColumn, form_of, require_names

LOCAL, INSTANT = "timestamp without time zone", "timestamp with time zone"
CLOCK, CLOCK_ZONED = "time without time zone", "time with time zone"
EXACT, REFUSED = Form(), None
COMPARED = Form(is_compared=True)
NUMBER, NUMBER_COMPARED = Form(pattern=NUMBERS), Form(pattern=NUMBERS, is_compared=True)
DECIMAL, TEXT, US, UTC = pa.decimal128(12, 4), pa.string(), pa.timestamp("us"), pa.timestamp("us", "UTC")


def type_of(shown: str) -> PostgresType:
    """A type as the server gives it, of what it writes with a modifier.

    >>> type_of("numeric(5,2)[]"), type_of("timestamp(0) without time zone").plain, type_of("tsrange")
    (PostgresType(shown='numeric(5,2)[]', plain='numeric[]', element='numeric', within=()), 'timestamp without time zone', \
PostgresType(shown='tsrange', plain='tsrange', element='timestamp without time zone', within=()))
    """
    before, bracket, behind = shown.partition("(")
    plain = before + behind.partition(")")[2] if bracket else shown
    ranges = {"tsrange": LOCAL, "tstzrange": INSTANT, "daterange": "date", "numrange": "numeric", "datemultirange": "date"}
    return PostgresType(shown, plain, ranges.get(plain, plain.removesuffix("[]") if plain.endswith("[]") else ""))


RULES: list[tuple[pa.DataType, dict[str, Form | None]]] = [
    (pa.bool_(), {"boolean": EXACT, "jsonb": EXACT, "text": EXACT, "integer": REFUSED, "bytea": REFUSED}),
    (pa.int16(), {"smallint": EXACT, "bigint": EXACT, "numeric": EXACT, "numeric(5,2)": EXACT, "numeric(5,-2)": REFUSED}),
    (pa.int32(), {"double precision": Form(cast=pa.float64()), "real": Form(cast=pa.float32()), "date": REFUSED}),
    (pa.int64(), {"integer": EXACT, "boolean": EXACT, "oid": Form(pattern=r"\d+"), "text": EXACT, LOCAL: REFUSED}),
    (pa.int64(), {"bit varying(9)": REFUSED, "interval": REFUSED, CLOCK: REFUSED, "character varying(9)": COMPARED}),
    (pa.float32(), {"real": EXACT, "double precision": Form(cast=pa.float64()), "numeric": EXACT, "integer": Form(cast=pa.int64())}),
    (pa.float64(), {"double precision": EXACT, "real": REFUSED, "numeric(10,2)": COMPARED, "boolean": REFUSED}),
    (DECIMAL, {"numeric": EXACT, "numeric(10,4)": EXACT, "numeric(20,6)": EXACT, "numeric(10,2)": REFUSED, "numeric(10,0)": REFUSED}),
    (DECIMAL, {"bigint": REFUSED, "double precision": REFUSED, "real": REFUSED, "money": REFUSED, "text": EXACT}),
    (pa.decimal128(12, 0), {"bigint": EXACT, "numeric(20,0)": EXACT}),
    (pa.decimal128(12, 2), {"money": EXACT}),
    (TEXT, {"text": EXACT, "citext": EXACT, "character varying": EXACT, "character varying(3)": COMPARED, "character(6)": COMPARED}),
    (TEXT, {"name": COMPARED, '"char"': COMPARED, "bytea": REFUSED, "uuid": EXACT, "inet": EXACT, "json": EXACT, "bigint": NUMBER}),
    (TEXT, {"numeric": NUMBER, "numeric(8,2)": NUMBER_COMPARED, "numeric(8,2)[]": NUMBER_COMPARED, "text[]": EXACT}),
    (
        TEXT,
        {
            "jsonb": Form(has_one_of_each=True),
            "int4range": COMPARED,
            "tsvector": COMPARED,
            "box": Form(digits=pa.float64(), is_compared=True),
            "integer[]": NUMBER,
        },
    ),
    (TEXT, {"double precision": Form(digits=pa.float64()), "real[]": Form(digits=pa.float32()), "point": Form(digits=pa.float64())}),
    (pa.binary(), {"bytea": EXACT, "text": REFUSED, "character varying": REFUSED, "jsonb": REFUSED}),
    (pa.date32(), {"date": EXACT, LOCAL: EXACT, INSTANT: EXACT, "timestamp(0) without time zone": EXACT, CLOCK: REFUSED}),
    (pa.time32("s"), {CLOCK: EXACT, CLOCK_ZONED: EXACT, "time(0) without time zone": EXACT, "interval": REFUSED}),
    (pa.time64("us"), {"time(0) without time zone": COMPARED, "time(6) without time zone": EXACT, LOCAL: REFUSED}),
    (US, {LOCAL: EXACT, INSTANT: EXACT, "timestamp(0) without time zone": COMPARED, "date": REFUSED, CLOCK: REFUSED}),
    (pa.timestamp("ms"), {"timestamp(3) without time zone": EXACT, "timestamp(2) without time zone": COMPARED}),
    (UTC, {INSTANT: EXACT, LOCAL: EXACT, "timestamp(3) with time zone": COMPARED, "date": REFUSED, "text": EXACT}),
    (pa.uuid(), {"uuid": EXACT, "text": EXACT, "bytea": REFUSED}),
    (pa.list_(pa.int64()), {"jsonb": EXACT, "json": EXACT, "text": EXACT, "bigint[]": REFUSED}),
    (pa.null(), {"integer": EXACT, "bytea": EXACT, "daterange": EXACT}),
]


@pytest.mark.parametrize(("kind", "rule"), RULES, ids=lambda each: str(each) if isinstance(each, pa.DataType) else "")
def test_a_type_goes_into_columns_that_hold_its_values_and_into_no_others(kind: pa.DataType, rule: dict[str, Form | None]) -> None:
    assert {name: form_of(kind, type_of(name)) for name in rule} == rule
    assert {name: form_of(pa.dictionary(pa.int8(), kind), type_of(name)) for name in rule} == rule


TEXTS: list[tuple[str, list[str], list[str]]] = [
    (
        "date",
        ["2026-03-01", "infinity", "-infinity", "0044-03-15 BC", "12026-03-01"],
        ["now", "2026-03-01 12:00", "03/04/2026", "today"],
    ),
    (CLOCK, ["09:30", "24:00:00", "09:30:00.123456", "09:30:00.1234560"], ["09:30:00.1234567", "09:30+02", "2026-03-01 09:30", "now"]),
    (CLOCK_ZONED, ["09:30:00+02", "09:30Z", "09:30:00"], ["09:30 CET", "allballs"]),
    (
        LOCAL,
        ["2026-03-01 12:00:00", "2026-03-01T12:00:00Z", "2026-03-01", "infinity", "0044-03-15 12:00:00 BC"],
        ["2026-03-01 12:00+02"],
    ),
    (INSTANT, ["2026-03-01 12:00:00+02", "2026-03-01T12:00:00.5-0330", "infinity", "0044-03-15 12:00:00+00 BC"], ["now", "1.3.2026"]),
    (
        "tsrange",
        ['["2026-03-01 00:00:00","2026-03-02 00:00:00")', "empty", "[2026-03-01,)"],
        ['["2026-03-01 00:00:00+02",)', "[now,)"],
    ),
    ("date[]", ["{2026-03-01,NULL}", "{}", "[0:0]={2026-03-01}", "{{2026-03-01},{2026-03-02}}"], ['{"2026-03-01 12:00:00"}', "{now}"]),
    ("datemultirange", ["{[2026-03-01,2026-03-02),[2026-04-01,)}"], ['{["2026-03-01 12:00:00",)}']),
    ("interval", ["1 mon -3 days 04:05:06.7", "-00:00:01", "P1DT0.5S"], ["00:00:01.1234567"]),
    ("oid", ["0", "4294967295"], ["-1"]),
    ("money", ["$1,234.56", "-$0.01"], ["1.234,56 €", "$1.234", "¥5"]),
    ("double precision", ["0.1", "-0", "NaN", "1e-320", "1e19"], ["12345678901234567890", "0.12345678901234567890"]),
    ("real", ["0.1", "16777216"], ["16777217", "0.123456789"]),
    ("integer", ["7", "-7", "0", "+7", " 10 "], ["007", "-01", "00"]),
    ("bigint[]", ["{7,NULL,0}", "[0:0]={100}", "{{1},{20}}", "{}"], ["{007}", "{1,02}"]),
    ("numeric", ["0.50", ".05", "1.05e03", "NaN", "-Infinity", "10"], ["00.5", "-007"]),
    ("numrange", ["[0.10,20)", "empty", "(,7]"], ["[01,2)"]),
    (
        "jsonb",
        ['{"a": 1, "b": {"a": 2}}', '[{"a": 1}, {"a": 2}]', '{"a": ":::"}', "7", '{"a": 1,, "a": 2}'],
        ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', r'{"a": 1, "\u0061": 2}'],
    ),
    ("point", ["(0.1,-2)"], ["(0.12345678901234567890,0)"]),
]


@pytest.mark.parametrize(("kind", "same", "others"), TEXTS, ids=[kind for kind, _, _ in TEXTS])
def test_a_text_is_written_where_the_server_can_only_read_the_same_value(kind: str, same: list[str], others: list[str]) -> None:
    def written(*texts: str | None) -> bytes:
        form = form_of(TEXT, type_of(kind))
        assert form is not None
        return copy_text([pa.array(texts, TEXT)], [TargetColumn("x", type_of(kind), form)])

    assert written(*same, None).decode().splitlines() == [*same, r"\N"]
    for other in others:
        with pytest.raises(ValueError, match="the column x is .*, which does not hold '.*' as it is"):
            written(None, same[0], other)


@pytest.mark.parametrize(
    ("kind", "values", "into", "lines"),
    [
        (pa.float32(), [0.1], "double precision", ["0.10000000149011612"]),
        (pa.int64(), [2**53, 7], "double precision", ["9.007199254740992e+15", "7"]),
        (pa.float64(), [7.0, 1e15], "bigint", ["7", "1000000000000000"]),
        (pa.date32(), [-719_162, -719_529, -719_528], "date", ["0001-01-01", "0002-12-31 BC", "0001-01-01 BC"]),
        (US, [-62_167_219_200_000_000], LOCAL, ["0001-01-01 00:00:00.000000 BC"]),
        (pa.timestamp("us", "Europe/Berlin"), [0], LOCAL, ["1970-01-01 00:00:00.000000Z"]),
        (pa.uuid(), [bytes(16)], "uuid", ["00000000-0000-0000-0000-000000000000"]),
        (pa.binary(), [b"\\x41", b"\\"], "bytea", [r"\\x5c783431", r"\\x5c"]),
        (pa.decimal128(5, -2), [Decimal(12300)], "numeric", ["1.23E+4"]),
    ],
    ids=lambda each: str(each) if isinstance(each, pa.DataType | str) else "",
)
def test_a_value_is_written_so_that_the_column_gets_the_same_value(kind: Any, values: list[Any], into: str, lines: list[str]) -> None:
    form = form_of(kind, type_of(into))
    assert form is not None
    column = pa.array(values, {pa.uuid(): pa.binary(16), pa.date32(): pa.int32()}.get(kind, kind)).cast(kind)
    assert copy_text([column], [TargetColumn("x", type_of(into), form)]).decode().splitlines() == lines


@pytest.mark.parametrize(
    ("kind", "value", "into"),
    [(pa.int64(), 2**53 + 1, "double precision"), (pa.int32(), 2**24 + 1, "real"), (pa.float64(), 1.5, "bigint")],
)
def test_a_number_that_the_column_would_round_is_refused(kind: pa.DataType, value: Any, into: str) -> None:
    form = form_of(kind, type_of(into))
    assert form is not None
    with pytest.raises(ValueError, match=r"a row gave .* for the column 'x' of type .*, which does not hold it exactly"):
        copy_text([pa.array([value], kind)], [TargetColumn("x", type_of(into), form)])


N = "n" * 58


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (f"{N}12345", ["id"], f"the name of the view {N}12345_live has 68 bytes, and PostgreSQL keeps 63: shorten that of the table"),
        (f"{N}1", ["id"], f"the name of the view {N}1_live has 64 bytes"),
        (f"shop.{N}123456", ["id"], f"the name of the schema or table {N}123456 has 64 bytes"),
        ("t", ["id", "é" * 32], f"the name of the column {'é' * 32} has 64 bytes"),
        ("t", ["id", "xmin"], "the name xmin is of a system column, which each table has: give the column another name"),
        ("t", ["id", ""], "'' is no name of a column: give another one"),
    ],
)
def test_a_name_that_postgresql_would_cut_or_has_itself_is_refused(table: str, columns: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        require_names(table, columns, has_view=True)
    assert message in str(caught.value)


def test_names_of_63_bytes_are_taken() -> None:
    require_names(f"{N}.{N}", ["é" * 31], has_view=True)
    require_names(f"{N}12345", ["id"], has_view=False)
