"""WriteBigQuery: what is of BigQuery alone; the rest is in test_merge_once.py."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import bigquery

from beam_joins.errors import InputError, OutputError
from beam_joins.io import WriteBigQuery
from beam_joins.pipelines.formats.types.target_types import parquet_type
from beam_joins.pipelines.results.merge_once import DELETED, KeyedTable, LastChanges, MergedRun
from beam_joins.pipelines.systems import write_big_query
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.values.exact_casts import as_plain, exact_cast
from beam_joins.values.exact_values import ValuePlace
from tests.pipelines.big_query import BigQuery, Refused
from tests.pipelines.join_run import BY, refused
from tests.pipelines.merged_tables import BIGQUERY, PRICES
from tests.pipelines.orders_run import Run, write
from tests.pipelines.tables import shown
from tests.pipelines.test_results_of_commands import GONE, JOIN, NEW, ran
from tests.pipelines.test_target_types import SAMPLES

NONE_IN_BIGQUERY = ("decimal32", "decimal64", "decimal256", "time64[ns]", "timestamp[ns", "map", "duration", "month_day")
TARGET, RUNS = PRICES.split("."), "prices_beam_joins_runs"


def into(*fields: pa.Field) -> KeyedTable:
    return BIGQUERY.writer(key="id").into(PlainRows("Test", TableType(pa.int64(), pa.struct(fields)), "id", stored=parquet_type))


def merged(table: KeyedTable, columns: Mapping[str, Any], run: int = 1) -> int:
    """Merge columns of rows that are not deleted."""
    schema = table.schema.append(pa.field(DELETED, pa.bool_()))
    columns = {**columns, DELETED: [False] * len(columns["id"])}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema))
    return table.merge(LastChanges(table.schema, [sink.getvalue().to_pybytes()]), MergedRun("tests", run, run, anew=False)).version


def make(server: BigQuery, *fields: Mapping[str, Any], **more: Any) -> None:
    """Create the table that is merged into."""
    reference = dict(zip(("projectId", "datasetId", "tableId"), TARGET, strict=True))
    server.make({"tableReference": reference, "schema": {"fields": list(fields)}, **more})


def test_columns_of_each_type_hold_their_values_or_are_refused(big_query: BigQuery) -> None:
    taken = []
    for number, sample in enumerate(SAMPLES):
        field = pa.field(f"of_{number}", sample.type)
        nested_lists = pa.types.is_list(sample.type) and pa.types.is_list(sample.type.value_type)
        if nested_lists or str(sample.type).startswith(NONE_IN_BIGQUERY):
            with pytest.raises(ValueError, match=f"column 'of_{number}' is .*, which BigQuery has no type for: leave it out"):
                into(field)
            with pytest.raises(ValueError, match=r"column 'in\.s' is .*, which BigQuery has no type for"):
                into(pa.field("in", pa.struct([("s", sample.type)])))
        else:
            taken.append((field, as_plain(sample.column)))
    table = into(*(field for field, _ in taken))
    written = {field.name: exact_cast(column, table.schema.field(field.name).type, ValuePlace("a column")) for field, column in taken}
    merged(table, {"id": [7, 8], **written})
    there = big_query.arrow("FROM shop.sales.prices ORDER BY id")
    for name, column in written.items():
        actual = there[name].combine_chunks()
        if pa.types.is_list(column.type):
            assert actual.to_pylist() == [value or [] for value in column.to_pylist()], name
        else:
            assert actual.equals(exact_cast(column, actual.type, ValuePlace("a column"))), name


def test_a_null_list_becomes_an_empty_one_and_nulls_in_lists_are_refused(big_query: BigQuery) -> None:
    lists = pa.list_(pa.struct([("words", pa.list_(pa.string()))]))
    table = into(pa.field("deep", lists), pa.field("plain", pa.list_(pa.int64())))
    merged(table, {"id": [1, 2], "deep": [[{"words": ["a"]}], None], "plain": [None, [5]]})
    assert [row["plain"] for row in BIGQUERY.rows()] == [[], [5]]
    for name, value in (("plain", [1, None]), ("deep", [None]), ("deep", [{"words": [None]}])):
        with pytest.raises(InputError, match=f"^bigquery:{PRICES}: column '{name}' has a null in a list, which BigQuery"):
            merged(table, {"id": [3], "deep": [[]], "plain": [[]], name: [value]}, run=2)
    assert (len(BIGQUERY.rows()), big_query.names()) == (2, ["prices", RUNS])


@pytest.mark.parametrize("name", ["net price", "1st", "_TABLE_x", "_partitiontime", "a" * 301, "a`b"])
def test_names_that_bigquery_does_not_take_are_refused_when_the_transform_is_applied(name: str) -> None:
    for field in (pa.field(name, pa.int64()), pa.field("in", pa.struct([(name, pa.int64())]))):
        with pytest.raises(ValueError, match=f"column '{name}': BigQuery takes no such name: give it another one, of"):
            into(field)


def test_the_changes_are_loaded_where_the_dataset_is_into_a_table_that_expires_and_is_removed(big_query: BigQuery) -> None:
    bodies: list[Any] = []
    big_query.before = lambda method, path, body: bodies.append(body) if body else None
    merge, parts = BIGQUERY.merge_of([(1, "a")])
    merge.merge(parts)
    jobs = [body for body in bodies if "configuration" in body]
    assert {job["jobReference"]["location"] for job in jobs} == {"EU"}
    (loaded,) = [body for body in bodies if "expirationTime" in body]
    assert loaded["tableReference"]["tableId"].startswith("prices_beam_joins_")
    assert (BIGQUERY.rows(), big_query.names()) == ([{"id": 1, "name": "a"}], ["prices", RUNS])


def test_another_merge_between_the_question_and_the_transaction_is_seen(big_query: BigQuery) -> None:
    others = [BIGQUERY.merge_of([(1, "theirs"), (2, "theirs")], application="other"), BIGQUERY.merge_of([(2, "same"), (3, "same")])]

    def first(method: str, path: str, body: Any) -> None:
        if others and body and "BEGIN TRANSACTION" in str(body):
            merge, parts = others.pop(0)
            merge.merge(parts)

    merge, parts = BIGQUERY.merge_of([(2, "same"), (3, "same")])
    big_query.before = first
    assert merge.merge(parts) == 2
    assert shown(BIGQUERY.rows()) == shown([{"id": 1, "name": "theirs"}, {"id": 2, "name": "theirs"}, {"id": 3, "name": "same"}])


def test_a_merge_whose_requests_are_refused_at_any_step_is_whole_or_nothing_and_is_repeated_once(big_query: BigQuery) -> None:
    merge, parts = BIGQUERY.merge_of([(1, "a"), (2, "b")])
    merge.merge(parts)
    merge, parts = BIGQUERY.merge_of([(1, "aa"), (2, None)], run=2)
    old, new = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], [{"id": 1, "name": "aa"}]
    seen = []
    for step in range(1, 99):
        left = [step]

        def refuses(method: str, path: str, body: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Refused(403, "accessDenied", "Access Denied: tests")

        big_query.before = refuses
        try:
            merge.merge(parts)
        except OutputError as error:
            assert str(error) == f"cannot write bigquery:{PRICES}: Access Denied: tests"
        big_query.before = lambda method, path, body: None
        seen.append(shown(BIGQUERY.rows()))
        if left[0] > 0:
            break
    assert {*map(tuple, seen)} == {tuple(shown(old)), tuple(shown(new))}
    assert len(seen) > 8
    assert (seen[-1], BIGQUERY.version()) == (shown(new), 2)


def test_a_table_that_is_created_again_remembers_no_runs(big_query: BigQuery) -> None:
    for _ in range(2):
        merge, parts = BIGQUERY.merge_of([(1, "a")])
        merge.merge(parts)
        assert merge.merge(parts) == BIGQUERY.version()
        assert BIGQUERY.rows() == [{"id": 1, "name": "a"}]
        with bigquery.Client("shop", write_big_query.AnonymousCredentials()) as client:  # type: ignore[no-untyped-call]
            client.delete_table(PRICES)


ID: Mapping[str, Any] = {"name": "id", "type": "INTEGER"}
N: Mapping[str, Any] = {"name": "n", "type": "NUMERIC"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([{**ID, "mode": "REQUIRED"}, {**N, "precision": "12", "scale": "2"}], ""),
        ([ID, N], ""),
        ([ID, {**N, "precision": "12", "scale": "1"}], r"column 'n' is NUMERIC\(12, 1\) there, and NUMERIC in the table"),
        ([ID, {**N, "precision": "9", "scale": "2"}], r"column 'n' is NUMERIC\(9, 2\) there, and NUMERIC in the table"),
        ([ID, {**N, "mode": "REQUIRED"}], "column 'n' is NUMERIC NOT NULL there, and NUMERIC in the table"),
        ([ID, {**N, "type": "RECORD", "fields": [ID], "mode": "REPEATED"}], "column 'n' is ARRAY<RECORD<id INTEGER>> there"),
        ([{**ID, "collation": "und:ci"}, N], "column 'id' is INTEGER COLLATE und:ci there"),
    ],
)
def test_a_table_there_must_take_the_values_as_they_are(big_query: BigQuery, fields: Sequence[Any], sentence: str) -> None:
    table = into(pa.field("n", pa.decimal128(10, 2)))
    make(big_query, *fields)
    if not sentence:
        table.prepare(create=True)
        merged(table, {"id": [1], "n": [Decimal("12345678.25")]})
        assert BIGQUERY.rows() == [{"id": 1, "n": Decimal("12345678.25")}]
        return
    with pytest.raises(InputError, match=f"^bigquery:{PRICES}: {sentence}"):
        table.prepare(create=True)


def test_a_later_run_adds_the_columns_that_the_table_lacks(big_query: BigQuery) -> None:
    merged(into(pa.field("n", pa.int64())), {"id": [1], "n": [5]})
    wider = into(pa.field("n", pa.int64()), pa.field("words", pa.list_(pa.string())))
    with pytest.raises(InputError, match="has the columns id, n, and the table id, n, words: write to another one"):
        wider.prepare(create=True)
    wider.prepare(create=False, widen=True)
    merged(wider, {"id": [2], "n": [6], "words": [["a"]]}, run=2)
    assert [(row["n"], row["words"] or []) for row in sorted(BIGQUERY.rows(), key=lambda row: row["id"])] == [(5, []), (6, ["a"])]


def test_a_view_and_a_table_that_is_not_there_are_refused(big_query: BigQuery) -> None:
    table = into(pa.field("n", pa.int64()))
    assert not table.exists()
    with pytest.raises(InputError, match=f"^bigquery:{PRICES} is not there$"):
        table.prepare(create=False)
    make(big_query, ID, type="MATERIALIZED_VIEW")
    assert table.exists()
    with pytest.raises(InputError, match="is no table but a materialized view: write to another one"):
        table.prepare(create=True)


def no_credentials(**options: Any) -> None:
    raise DefaultCredentialsError("Your default credentials were not found.\nSee the page.")


def test_what_is_missing_is_one_sentence(big_query: BigQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PlainRows("Test", TableType(pa.int64(), pa.int64()), "id", stored=parquet_type)
    for each in ("prepare", "exists"):

        def asked(table: str = "shop.sales.t", each: str = each) -> str:
            options: Any = {"create": True} if each == "prepare" else {}
            with pytest.raises(InputError) as raised:
                getattr(WriteBigQuery(table).into(rows), each)(**options)
            return str(raised.value)

        assert asked("shop.none.t") == "bigquery:shop.none.t: there is no dataset shop.none, or none that you may see: create it"
        with monkeypatch.context() as patched:
            patched.setattr(big_query, "before", lambda *request: _refuse(403, "accessDenied", "Access Denied: Table shop:sales.t"))
            assert asked() == "cannot write bigquery:shop.sales.t: Access Denied: Table shop:sales.t"
        with monkeypatch.context() as patched:
            patched.setattr(write_big_query, "_BRIEFLY", {"retry": write_big_query.DEFAULT_RETRY.with_timeout(0.1), "timeout": 1})
            patched.setenv("BIGQUERY_EMULATOR_HOST", "http://127.0.0.1:1")
            assert asked().startswith("cannot write bigquery:shop.sales.t: HTTPConnectionPool(host='127.0.0.1', port=1)")
        with monkeypatch.context() as patched:
            patched.delenv("BIGQUERY_EMULATOR_HOST")
            patched.setattr("google.auth.default", no_credentials)
            assert asked() == "cannot write bigquery:shop.sales.t: Your default credentials were not found."


def _refuse(status: int, reason: str, message: str) -> None:
    raise Refused(status, reason, message)


def test_a_command_brings_a_table_of_bigquery_up_to_date(beam_joins: Run, big_query: BigQuery) -> None:
    to = ["--to", f"bigquery:{PRICES}", "--left", "in"]
    options = [*JOIN, "--state-dir", "state", *to]
    Path("in").mkdir()
    Path("l.jsonl").rename("in/1.jsonl")
    assert f"bigquery:{PRICES}, which the first run makes" in ran(beam_joins, *options, "--dry-run")
    assert big_query.names() == []
    for number, rows in enumerate(([], [NEW, GONE]), 1):
        if rows:
            write("in/2.jsonl", *rows)
        assert f"changes merged into bigquery:{PRICES}" in ran(beam_joins, *options)
        assert BIGQUERY.version() == number
    assert sorted(row["id"] for row in BIGQUERY.rows()) == [1, 3, 5]
    assert "--to: name a table, as in bigquery:PROJECT.DATASET.TABLE" in refused(beam_joins(*JOIN, "--to", "bigquery:prices"))
    assert f"bigquery:{PRICES} has the columns id, n, name, and the" in refused(beam_joins("join", *BY, *to, "--left", "in/1.jsonl"))


@pytest.mark.parametrize("table", ["", "t", "sales.t", "shop.sales.t$20261127", "shop.sales.`t`", 7])
def test_a_wrong_table_says_what_to_give(table: Any) -> None:
    with pytest.raises(ValueError, match=r"^table=.*: give PROJECT\.DATASET\.TABLE"):
        WriteBigQuery(table)
