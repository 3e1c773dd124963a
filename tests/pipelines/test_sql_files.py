"""``beam-joins run``: the tables and views of a SQL file, in one run and in several, and what is refused with its line."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins import View
from beam_joins.errors import InputError
from beam_joins.extras import MissingExtra
from beam_joins.io import ReadChangeEvents, ReadDelta, ReadKafkaChangeEvents, ReadPostgres, ReadSnapshots, WriteDelta
from beam_joins.pipelines.base.interruption import Interruption
from beam_joins.pipelines.commands.rounds import LOOK_SECONDS
from beam_joins.pipelines.sql.sql_pipeline import reader_of, writer_of
from beam_joins.pipelines.sql.sql_script import DeclaredTable, statements_of
from beam_joins.pipelines.sql.verified_views import Stored, WrongView, verified
from tests.pipelines.orders_run import Run

pytestmark = pytest.mark.usefixtures("own_directory")
ORDERS = """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(10, 2), op VARCHAR, lsn BIGINT)
    WITH (source = 'orders/*.jsonl', sequence_by = 'lsn', timestamp_by = 'lsn', except_columns = 'op, lsn',
          apply_as_deletes = '{"op": ["d"]}');
"""
SHOP = f"""-- the tables
{ORDERS}
CREATE TABLE customers WITH (source = 'customers/*.csv', key = 'id', sequence_by = 'lsn', except_columns = 'lsn');
-- the views; one that others read has no target
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 1;
CREATE MATERIALIZED VIEW by_city WITH (target = 'by_city.jsonl', key = 'city', records = 'rows') AS
    SELECT city, count(*) AS orders, sum(amount) AS total FROM large JOIN customers c ON customer = c.id GROUP BY city;
CREATE MATERIALIZED VIEW "Orders" WITH (target = 'orders.jsonl') AS SELECT id, amount AS "Amount" FROM large;
"""


def shop() -> None:
    """The file, and what its sources have in the first run."""
    Path("shop.sql").write_text(SHOP)
    Path("orders").mkdir()
    Path("customers").mkdir()
    orders("1", [1, 7, "5.50", "c", 1], [2, 8, "20", "c", 2], [3, 8, "1", "c", 3])
    Path("customers/1.csv").write_text("id,city,lsn\n7,Oslo,1\n8,Rome,1\n")


def orders(name: str, *rows: list[Any]) -> None:
    columns = ("id", "customer", "amount", "op", "lsn")
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    Path(f"orders/{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def written(pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(Path().glob(pattern)) for line in path.read_text().splitlines()]


def test_the_views_of_a_file_are_written_to_their_targets(beam_joins: Run) -> None:
    shop()
    ran = beam_joins("run", "shop.sql")
    kept = ["by_city: 2 changes, kept in by_city.jsonl", "Orders: 2 changes, kept in orders.jsonl"]
    assert (ran.code, ran.out.splitlines()) == (0, ["customers: 2 changes", "orders: 3 changes", *kept]), ran.err
    assert written("by_city*") == [{"city": "Oslo", "orders": 1, "total": 5.5}, {"city": "Rome", "orders": 1, "total": 20}]
    assert [(row["id"], row["Amount"], row["deleted"]) for row in written("orders*.jsonl")] == [(1, 5.5, False), (2, 20, False)]


def test_runs_go_on_and_a_changed_view_is_a_changed_pipeline(beam_joins: Run) -> None:
    shop()
    assert beam_joins("run", "shop.sql", "--state-dir", "state").code == 0
    ran = beam_joins("run", "shop.sql", "--state-dir", "state")
    assert (ran.code, ran.out, len(written("orders-*"))) == (0, "nothing new: nothing to do\n", 2)
    orders("2", [1, 7, "5.50", "d", 4], [2, 8, "30", "u", 5])
    assert beam_joins("run", "shop.sql", "--state-dir", "state").code == 0
    changes = [(row["id"], row.get("Amount"), row["deleted"]) for row in written("orders-000002.jsonl")]
    assert changes == [(1, None, True), (2, 30, False)]
    Path("shop.sql").write_text(SHOP.replace("c.id GROUP BY", "c.id WHERE city <> 'Rome' GROUP BY"))
    ran = beam_joins("run", "shop.sql", "--state-dir", "state")
    assert (ran.code, "by_city" in ran.err) == (2, True), ran
    ran = beam_joins("run", "shop.sql", "--state-dir", "state", "--beam_joins_changed=rebuild")
    assert (ran.code, written("by_city-000003.jsonl")) == (0, []), ran


def test_rounds_take_whole_files_until_a_signal_comes_and_duckdb_computes_the_same(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop()
    Path("shop.sql").write_text(SHOP.replace('"Orders"', "amounts"))
    Path("customers/1.csv").rename("later.csv")

    waits = list[float]()

    def wait(self: Interruption, seconds: float) -> None:
        """What happens between two rounds."""
        waits.append(seconds)
        assert len(waits) < 99
        if seconds < 1:  # between two looks of a round
            return
        if Path("later.csv").exists():
            Path("later.csv").rename("customers/1.csv")
        elif Path("orders-000002.jsonl").exists():
            signal.raise_signal(signal.SIGTERM)
        elif Path("orders-000001.jsonl").exists():
            with Path("orders/2.jsonl").open("a") as growing:
                if growing.tell() < 50:
                    growing.write('{"id": 1, "op": "d", "lsn": 4}\n')

    monkeypatch.setattr(Interruption, "wait", wait)
    ran = beam_joins("run", "shop.sql", "--state-dir", "state", "--follow", "--verify")
    assert (ran.code, ran.err) == (0, ""), ran
    verified = ["by_city: 2 rows, as by DuckDB", "amounts: 2 rows, as by DuckDB"]
    first, *lines = ran.out.splitlines()
    assert first == "line 6: customers: the files: there is no file customers/*.csv: waiting for it"
    assert lines[0].startswith("run 1: customers 2 changes, orders 3 changes, by_city 2 changes, amounts 2 changes, ")
    assert lines[3].startswith("run 2: customers 0 changes, orders 1 change, ")
    twice = "orders has dropped 1 record (duplicate_position 1)"
    one_row = [each.replace("2 rows", "1 row") for each in verified]
    assert (lines[1:3], lines[4:]) == (verified, [twice, *one_row, "stopped after 2 runs"])


def test_files_that_arrive_while_tables_look_for_them_are_of_one_run(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shop()
    looks = 0

    def reader_of_orders(table: DeclaredTable) -> Any:
        nonlocal looks
        looks += table.name == "orders"
        if looks == 2:  # the customers have been looked for in this round
            Path("customers/2.csv").write_text("id,city,lsn\n9,Bonn,9\n")
            orders("2", [9, 9, "9", "c", 9])
        return reader_of(table)

    def wait(interruption: Interruption, seconds: float) -> None:
        if Path("orders-000002.jsonl").exists():
            interruption.by = signal.SIGTERM

    monkeypatch.setattr("beam_joins.pipelines.sql.sql_pipeline.reader_of", reader_of_orders)
    monkeypatch.setattr(Interruption, "wait", wait)
    ran = beam_joins("run", "shop.sql", "--state-dir", "state", "--follow", "--whole-files")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out.splitlines()[1].startswith("run 2: customers 1 change, orders 1 change, by_city 1 change, Orders 1 change, ")
    assert {"city": "Bonn", "orders": 1, "total": 9.0} in written("by_city.jsonl")


def test_a_run_says_how_many_records_tables_and_views_have_dropped_and_why(beam_joins: Run, caplog: pytest.LogCaptureFixture) -> None:
    Path("shops.csv").write_text("id,city,lsn\n1,Oslo,1\n,Rome,2\n3,Bern,three\n4,,4\n4,,4\n")
    table = (
        "CREATE TABLE shops (id BIGINT, city VARCHAR, lsn BIGINT) WITH (source = 'shops.csv', key = 'id', sequence_by = 'lsn', {});\n"
    )
    options = "target = 'cities.jsonl', key = 'city', records = 'rows'"
    view = f"CREATE MATERIALIZED VIEW cities WITH ({options}) AS SELECT city FROM shops;\n"
    Path("shop.sql").write_text(table.format("on_bad_record = 'drop'") + view)
    ran = beam_joins("run", "shop.sql")
    assert ran.out.splitlines() == [
        "shops: 2 changes",
        "cities: 1 change, kept in cities.jsonl",
        "shops has dropped 3 records (bad_record 1, duplicate_position 1, null_key 1)",
        "cities has dropped 1 record (null_key 1)",
    ]
    assert not caplog.records


def test_all_tables_without_a_whole_file_look_for_theirs_in_each_round(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shop()
    rounds = 0

    def wait(interruption: Interruption, seconds: float) -> None:
        nonlocal rounds
        rounds += seconds > LOOK_SECONDS
        if rounds == 2:
            interruption.by = signal.SIGTERM

    monkeypatch.setattr(Interruption, "wait", wait)
    ran = beam_joins("run", "shop.sql", "--state-dir", "state", "--follow")
    assert ran.out.startswith("run 1: customers 2 changes, orders 3 changes, "), ran


def test_a_view_that_duckdb_computes_otherwise_fails_the_run(tmp_path: Path) -> None:
    half = pa.array(["0.3333", "1.0000", "9.0000"]).cast(pa.decimal128(9, 4))
    kept = pa.table({"id": [1, 2, 3], "half": half, "n": [1.0, 0.3, None]})
    pq.write_table(pa.table({"id": [1, 2, 4], "x": [1, 3, 9], "n": [1, 0.1 + 0.2, None]}), tmp_path / "t.parquet")
    pq.write_table(kept, tmp_path / "v.parquet")
    stored = {name: Stored(str(tmp_path / f"{name}.parquet"), ("id",)) for name in ("t", "v")}
    query = "SELECT ID, x::DECIMAL(9, 4) / 3 AS Half, n FROM t WHERE id < 4 UNION ALL SELECT 3, 9, NULL"
    assert [*verified(stored, {"t": "", "v": query}, str(tmp_path))] == ["v: 3 rows, as by DuckDB"]
    with pytest.raises(WrongView, match="id=2: half is Decimal.'1.0000'. and not 3.0; id=3 should not be there; id=4 is missing$"):
        [*verified(stored, {"t": "", "v": "SELECT id, x / CASE id WHEN 2 THEN 1 ELSE 3.0 END AS half, n FROM t"}, str(tmp_path))]
    with pytest.raises(InputError, match="v cannot be verified: DuckDB does not run its query .Catalog Error: .*: leave --verify out"):
        [*verified(stored, {"t": "", "v": "SELECT id, nothing(x) AS half, n FROM t"}, str(tmp_path))]


@pytest.mark.parametrize("command", [["run", "shop.sql", "--explain"], ["explain", "shop.sql"]], ids=["run", "explain"])
def test_the_plans_are_printed_and_nothing_is_written(
    beam_joins: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    shop()
    ran = beam_joins(*command)
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line[:1].isalpha()][:2] == [
        "large",
        "filter (cast(amount as decimal(22, 2)) > cast(1 as decimal(22, 2))) | key: id | FilterTable",
    ]
    assert "by_city -> by_city.jsonl\n" in ran.out
    assert "  table large: id, amount | key: id" in ran.out
    assert not [*Path().glob("by_city*"), *Path().glob("orders*.jsonl"), *temporary.iterdir()]


def test_the_plans_say_which_columns_no_view_reads_and_a_later_view_reads_them(beam_joins: Run) -> None:
    Path("shops.csv").write_text("id,city,note,memo,lsn\n1,Oslo,a,b,1\n2,Rome,c,d,2\n")
    table = "CREATE TABLE shops WITH (source = 'shops.csv', key = 'id', sequence_by = 'lsn', except_columns = 'lsn');\n"
    view = (
        "CREATE MATERIALIZED VIEW cities WITH (target = 'cities.jsonl', key = 'city', records = 'rows') AS SELECT city{} FROM shops;\n"
    )
    Path("shop.sql").write_text(table + view.format(""))
    *_, unread, _, kept = beam_joins("explain", "shop.sql").out.rstrip("\n").split("\n")
    assert unread == "shops: no view reads note, memo"
    assert kept == "A state keeps these columns for later views; a table that declares its columns has no others."
    assert beam_joins("run", "shop.sql", "--state-dir", "state").code == 0
    Path("shop.sql").write_text(table + view.format(", note"))
    assert "no view reads memo\n" in beam_joins("explain", "shop.sql").out
    ran = beam_joins("run", "shop.sql", "--state-dir", "state", "--beam_joins_changed=rebuild")
    assert (ran.code, ran.err) == (0, ""), ran
    assert written("cities.jsonl") == [{"city": "Oslo", "note": "a"}, {"city": "Rome", "note": "c"}]
    declared = table.replace("shops WITH", "shops (id BIGINT, city VARCHAR, lsn BIGINT) WITH") + view.format("")
    Path("shop.sql").write_text(declared)
    assert "no view reads" not in beam_joins("explain", "shop.sql").out


VIEW = "CREATE VIEW v WITH (target = 'v.jsonl') AS SELECT * FROM orders"
REFUSED = [
    ("SELECT 1", "line 1: write CREATE TABLE name (column type, ...) WITH (source = '...')"),
    ("", "no view has a target"),
    (ORDERS, "no view has a target: write CREATE MATERIALIZED VIEW name WITH (target = '...')"),
    (f"{ORDERS}\n{ORDERS}", "line 5: there are two relations 'orders'"),
    (f"{ORDERS};\n{VIEW.replace('orders', 'shops')}", "line 5: v: there is no table shops; there are orders, v"),
    (f"{ORDERS}{VIEW.replace('*', 'x')}", "line 4: v: View: there is no column x; there are orders.id"),
    (f"{ORDERS}{VIEW.replace('*', 'amount')}", "line 4: v: the view has no columns that are its key: give key = '...'"),
    (f"{ORDERS}{VIEW} ORDER BY id", "line 4: v: query: ORDER BY is not kept"),
    (f"{ORDERS}{VIEW.replace('target', 'targets')}", "no view has a target"),
    (f"{ORDERS}{VIEW}; CREATE VIEW w AS SELECT id FROM v", "line 4: nobody reads the view 'w': give it a target, or leave it out"),
    (f"{ORDERS}{VIEW.replace('orders', 'v')}", "line 4: the view 'v' reads itself, through itself"),
    (f"{ORDERS.replace('BIGINT PRIMARY', 'BIGNT PRIMARY')}{VIEW}", "line 1: orders: the type BIGNT: "),
    (f"{ORDERS.replace('source', 'sources')}{VIEW}", "line 1: orders: give the table 'orders' source = '...', or snapshots = '...'"),
    (
        f"{ORDERS.replace('sequence_by', 'sequenced_by')}{VIEW}",
        "line 1: orders: ReadChangelog has no option sequenced_by: choose among",
    ),
    (ORDERS.replace("'{", "'{{") + VIEW, "line 1: orders: apply_as_deletes: {{"),
    (ORDERS.replace("'lsn'", "lsn", 1) + VIEW, "line 1: sequence_by: write a text in single quotes, a number, TRUE or FALSE"),
    (ORDERS.replace(" BIGINT,", ",", 1) + VIEW, "line 1: customer: write a type, and NOT NULL or PRIMARY KEY behind it"),
    (ORDERS.replace("orders/", "nowhere/") + VIEW, "there is no file nowhere/*.jsonl"),
    ("CREATE TABLE t (id BIGINT", "line 1: a parenthesis is not closed"),
    ("CREATE VIEW v AS", "line 1: the query is missing"),
    ("CREATE TABLE t (id BIGINT) WITH (source = 'x') AS", "line 1: 'AS' is not expected"),
    ("CREATE TABLE 't", "the file is no SQL"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED, ids=[str(n) for n, _ in enumerate(REFUSED)])
def test_a_file_that_cannot_be_run_is_refused_with_its_line(beam_joins: Run, text: str, sentence: str) -> None:
    shop()
    Path("shop.sql").write_text(text)
    ran = beam_joins("run", "shop.sql")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
    assert sentence in ran.err


def test_a_file_that_is_not_there_is_named(beam_joins: Run) -> None:
    ran = beam_joins("run", "nowhere.sql")
    assert (ran.code, ran.err) == (2, "python -m pipelines.run: there is no file nowhere.sql\n")


def test_without_the_extra_the_packages_are_named(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shop()
    monkeypatch.setitem(sys.modules, "beam_joins.pipelines.sql.sql_script", None)
    monkeypatch.delitem(sys.modules, "beam_joins.pipelines.sql.sql_pipeline", raising=False)
    ran = beam_joins("run", "shop.sql")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran
    assert "SQL needs datafusion and sqlglot: pip install 'datafusion==55.*'" in ran.err
    monkeypatch.setitem(sys.modules, "beam_joins.views.planned.sql_plans", None)
    with pytest.raises(MissingExtra, match="SQL needs datafusion and sqlglot: pip install"):
        View("SELECT id FROM orders")


READERS = [
    ("source = 'events.jsonl', format = 'debezium'", ReadChangeEvents),
    ("snapshots = 'days/*.csv', min_share = 0.9", ReadSnapshots),
    ("source = 'delta:lake/orders'", ReadDelta),
    ("source = 'postgres://localhost/shop?slot=s&table=public.orders'", ReadPostgres),
    ("source = 'kafka://broker:9092/orders?format=debezium'", ReadKafkaChangeEvents),
]


@pytest.mark.parametrize(("options", "reader"), READERS, ids=[reader.__name__ for _, reader in READERS])
def test_the_address_of_a_source_says_its_reader(options: str, reader: type[Any]) -> None:
    (table,) = statements_of(f"CREATE TABLE t (id BIGINT PRIMARY KEY) WITH ({options})")
    assert isinstance(table, DeclaredTable)
    assert type(reader_of(table)) is reader


def test_the_address_of_a_target_says_its_writer() -> None:
    assert type(writer_of("delta:lake/v", {}, ("id",))) is WriteDelta
    with pytest.raises(ValueError, match="WriteDelta has no option records: choose among"):
        writer_of("delta:lake/v", {"records": "rows"}, ("id",))
    with pytest.raises(ValueError, match="^target: cities must end in .avro"):
        writer_of("cities", {}, ("id",))
    with pytest.raises(InputError, match="target: name a folder behind delta:"):
        writer_of("delta:", {}, ("id",))


def test_types_keys_and_options_of_a_table_are_read() -> None:
    text = """
        CREATE TABLE "Stock" (shop INT, "skuName" VARCHAR(10) NOT NULL, at TIMESTAMP WITH TIME ZONE, PRIMARY KEY (shop, "skuName"))
        WITH (source = 'o''x', n = 3, share = 0.5, flag = true)"""
    (table,) = statements_of(text)
    assert isinstance(table, DeclaredTable)
    assert (table.name, table.key) == ("Stock", ("shop", "skuName"))
    assert [(column.name, column.type, column.is_nullable) for column in table.columns] == [
        ("shop", "INT", True),
        ("skuName", "VARCHAR(10)", False),
        ("at", "TIMESTAMP WITH TIME ZONE", True),
    ]
    assert table.options == {"source": "o'x", "n": 3, "share": 0.5, "flag": True}
