"""The page of Beam YAML: its pipeline runs as it says, and its table has the words of each transform."""

import inspect
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import beam_joins
import beam_joins.io
from beam_joins.pipelines.yaml import __main__ as program
from beam_joins.pipelines.yaml import provided
from beam_joins.pipelines.yaml.options import NOT_IN_YAML
from tests.docs.page import DOCS, blocks

pytestmark = pytest.mark.xdist_group("yaml")  # Beam YAML takes twelve seconds to load: in one process
PROVIDED = yaml.safe_load((Path(provided.__file__).with_name("providers.yaml")).read_text(encoding="utf-8"))[0]["transforms"]
ORDERS = [
    {"id": 1, "customer": "ann", "amount": 5, "op": "c", "at": 1},
    {"id": 2, "customer": "bob", "amount": 7.25, "op": "c", "at": 2},
    {"id": 1, "customer": "eve", "amount": 5, "op": "u", "at": 5},
    {"id": 3, "customer": "bob", "amount": 1, "op": "c", "at": 6},
    {"id": 3, "customer": "bob", "amount": 1, "op": "d", "at": 7},
]
TRANSFORMS = {
    name: made
    for module in (beam_joins, beam_joins.io)
    for name in module.__all__
    if inspect.isclass(made := getattr(module, name)) and hasattr(made, "expand")
}
ALL = """
pipeline:
  transforms:
    - {type: Create, name: StockLog, config: {elements: [{item: tea, count: 7, at: 1}, {item: milk, count: 2, at: 2}]}}
    - {type: Create, name: PriceLog, config: {elements: [{item: tea, price: 2.5, at: 3}, {item: milk, price: 1.0, at: 3}]}}
    - {type: Create, name: ShelfLog, config: {elements: [{item: tea, shelf: a, at: 4}]}}
    - type: Create
      name: Sold
      config: {elements: [{sale: 1, item: tea, n: 2, at: 2}, {sale: 2, item: tea, n: 2, at: 5}, {sale: 3, item: null, n: 1, at: 6}]}
    - {type: TableFromChangelog, name: Stock, input: StockLog, config: {key: item, timestamp_by: at}}
    - {type: TableFromChangelog, name: Price, input: PriceLog, config: {key: [item], timestamp_by: at}}
    - {type: TableFromChangelog, name: Shelf, input: ShelfLog, config: {key: [item], timestamp_by: at, except_columns: [at]}}
    - {type: TableFromChangelog, name: Sales, input: Sold, config: {key: [sale], timestamp_by: at}}
    - type: TableTableJoin
      input: {stock: Stock, price: Price, place: Shelf}
      config: {tables: [stock, price, place], how: [inner, left],
               joiner: {item: stock.item, count: stock.count, price: price.price, shelf: place.shelf}}
    - {type: FilterTable, name: Kept, input: TableTableJoin, config: {predicate: count < 5 or shelf is None, negate: true}}
    - type: MapTable
      input: Kept
      config: {fn: {worth: count * price, name: item.upper()}, schema: {worth: double, name: string}}
    - {type: TableToRows, name: Last, input: MapTable, config: {key: [item]}}
    - {type: WriteParquet, input: Last, config: {path: worth}}
    - type: OneToManyJoin
      input: {left: Stock, right: Sales}
      config: {joiner: {count: left.count, n: right.n}, foreign_key: item, how: left, error_handling: {output: errors}}
    - {type: TableToRows, name: Changed, input: OneToManyJoin, config: {records: changes}}
    - type: AssertEqual
      name: Pairs
      input: Changed
      config: {elements: [
        {old: null, new: {foreign_key: tea, primary_key: null, count: 7, n: null}, timestamp: 1, position: 1},
        {old: {foreign_key: tea, primary_key: null, count: 7, n: null}, new: null, timestamp: 2, position: 2},
        {old: null, new: {foreign_key: tea, primary_key: 1, count: 7, n: 2}, timestamp: 2, position: 2},
        {old: null, new: {foreign_key: tea, primary_key: 2, count: 7, n: 2}, timestamp: 5, position: 5},
        {old: null, new: {foreign_key: milk, primary_key: null, count: 2, n: null}, timestamp: 2, position: 2}]}
    - type: ForeignKeyJoin
      input: {left: Sales, right: Price}
      config: {foreign_key: item, how: semi, error_handling: {output: errors}}
    - {type: TableToRows, name: New, input: ForeignKeyJoin, config: {key: id, records: upserts}}
    - type: AssertEqual
      name: Semi
      input: New
      config: {elements: [{id: 1, sale: 1, item: tea, n: 2, at: 2, timestamp: 3, position: 3, deleted: false},
                          {id: 2, sale: 2, item: tea, n: 2, at: 5, timestamp: 5, position: 5, deleted: false}]}
    - type: StreamForeignKeyJoin
      input: {stream: Sold, table: Price}
      config: {joiner: {n: stream.n, price: table.price}, foreign_key: [item], key: sale, timestamp_by: at, how: left}
    - type: AssertEqual
      name: Priced
      input: StreamForeignKeyJoin
      config: {elements: [{sale: 1, n: 2, price: null, timestamp: 2}, {sale: 2, n: 2, price: 2.5, timestamp: 5},
                          {sale: 3, n: 1, price: null, timestamp: 6}]}
    - type: StreamTableJoin
      input: {stream: Sold, table: Price}
      config: {joiner: {n: stream.n, price: table.price}, key: [item], timestamp_by: at, error_handling: {output: errors}}
    - {type: AssertEqual, name: SamePrice, input: StreamTableJoin, config: {elements: [{item: tea, n: 2, price: 2.5, timestamp: 5}]}}
    - type: WindowedStreamJoin
      input: {left: Sold, right: StockLog}
      config: {joiner: {n: left.n, count: right.count}, key: [item], timestamp_by: at, before: 0.000003, after: 0, grace: 0,
               error_handling: {output: errors}}
    - {type: AssertEqual, name: Close, input: WindowedStreamJoin, config: {elements: [{item: tea, n: 2, count: 7, timestamp: 2}]}}
    - type: View
      input: {sales: Sales, prices: Price}
      config: {query: "SELECT s.item, sum(n * price) AS worth FROM sales s JOIN prices p ON s.item = p.item GROUP BY s.item",
               key: [item]}
    - {type: TableToRows, name: Worth, input: View, config: {key: [item]}}
    - {type: AssertEqual, input: Worth, config: {elements: [{item: tea, worth: 10.0}]}}
    - {type: CountTable, input: Sales, config: {group_by: [item, n], error_handling: {output: errors}}}
    - {type: FilterTable, name: Some, input: CountTable, config: {predicate: value > 1}}
    - {type: TableToRows, name: Counts, input: Some}
    - {type: AssertEqual, name: Counted, input: Counts, config: {elements: [{item: tea, n: 2, value: 2}]}}
    - type: Flatten
      name: Errors
      input: [OneToManyJoin.errors, ForeignKeyJoin.errors, StreamTableJoin.errors, WindowedStreamJoin.errors, CountTable.errors]
    - type: MapToFields
      name: Reasons
      input: Errors
      config: {language: python, fields: {sale: "':3,' in record", reason: reason}}
    - type: AssertEqual
      input: Reasons
      config: {elements: [{sale: true, reason: null_foreign_key}, {sale: true, reason: null_foreign_key},
                          {sale: true, reason: null_key}, {sale: true, reason: null_key}, {sale: true, reason: null_group}]}
"""
"""Every form of option and input, with what comes out."""
ENRICHED = [{"id": 1, "amount": 5.0, "name": None}, {"id": 2, "amount": 7.25, "name": "Bob"}]


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pipeline of the page, in a directory with its input."""
    monkeypatch.chdir(tmp_path)
    Path("orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ORDERS))
    return next(block.text for block in blocks(DOCS / "yaml.md") if block.language == "yaml")


def rows_in(path: str) -> list[dict[str, object]]:
    rows = [json.loads(line) for part in Path().glob(f"{path}-*") for line in part.read_text().splitlines()]
    return sorted(rows, key=json.dumps)


def enriched() -> list[dict[str, object]]:
    return rows_in("enriched")


@pytest.mark.parametrize(
    "runner",
    [
        "DirectRunner",
        pytest.param("SparkRunner", marks=[pytest.mark.spark, pytest.mark.sweep]),
        pytest.param("FlinkRunner", marks=[pytest.mark.flink, pytest.mark.sweep]),
    ],
)
def test_the_pipeline_of_the_page_gives_the_joined_rows(pipeline: str, runner: str) -> None:
    Path("orders.yaml").write_text(pipeline)
    assert program.main(["orders.yaml", f"--runner={runner}"]) == 0
    assert enriched() == ENRICHED


def test_records_that_are_dropped_are_rows_of_the_output_that_error_handling_names(pipeline: str) -> None:
    spec = yaml.safe_load(pipeline)
    reader, _, customers, *_ = transforms = spec["pipeline"]["transforms"]
    reader["config"]["error_handling"] = customers["config"]["error_handling"] = {"output": "errors"}
    spec["pipeline"]["transforms"][1]["config"]["elements"].append({"id": None, "name": "Nobody", "at": 4})
    for name in ("Orders", "Customers"):
        transforms.append({"type": "WriteToJson", "name": f"{name}Errors", "input": f"{name}.errors", "config": {"path": name}})
    Path("orders.yaml").write_text(yaml.safe_dump(spec))
    good = Path("orders.jsonl").read_text()
    Path("orders.jsonl").write_text(good + '{"id": 4,\n' + json.dumps(ORDERS[0] | {"id": None}) + "\n")
    assert program.main(["orders.yaml", "--runner=DirectRunner"]) == 0
    assert enriched() == ENRICHED
    bad, null_key = rows_in("Orders")
    assert (bad["reason"], bad["timestamp"]) == ("bad_record", 0)
    assert "orders.jsonl, line 6: not JSON" in str(bad["record"])
    assert (null_key["reason"], null_key["timestamp"]) == ("null_key", 1)
    assert json.loads(str(null_key["record"])) == ORDERS[0] | {"id": None}
    assert [row["reason"] for row in rows_in("Customers")] == ["null_key"]


def test_beams_own_program_runs_it_with_the_providers(pipeline: str) -> None:
    from apache_beam.yaml import main

    include = Path(provided.__file__).with_name("providers.yaml")
    Path("orders.yaml").write_text(f"{pipeline}\nproviders:\n  - include: {include}\n")
    main.run(["--yaml_pipeline_file=orders.yaml", "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"])
    assert enriched() == ENRICHED


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            "foreign_key: customer",
            "foreign_key: custumer",
            r'"ForeignKeyJoin" at line \d+: foreign_key=.custumer.: there is no such',
        ),
        ("amount >= 5", "amuont >= 5", r'"Large" at line \d+: predicate=.amuont >= 5.: there is no column amuont; there are id, cust'),
        ("amount >= 5", "amount >=", r'"Large" at line \d+: predicate=.amount >=.: give a Python expression'),
        ("left: Large", "left: CustomerLog", r'"ForeignKeyJoin" at line \d+: ForeignKeyJoin takes a table as left, not rows'),
        ("how: left", "type: left", r'"ForeignKeyJoin" at line \d+: ForeignKeyJoin has no option type: choose among joiner, '),
        ("how: left", "how: middle", r'"ForeignKeyJoin" at line \d+: .*choose one of'),
        ("{left: Large, right: Customers}", "[Large, Customers]", r"at line \d+: give the inputs names: input: .left: NAME"),
        ("amount: double", "amount: dubble", r'"Orders" at line \d+.*schema: amount: dubble is no type of Arrow'),
        ("amount: double", "amount: int64", r"orders.jsonl, line 2: .*amount"),
        ("path: orders.jsonl", "path: nowhere.jsonl", r'"Orders" at line \d+.*there is no file nowhere.jsonl'),
        ("amount: double,", "amount: double}, error_handling: {output: bad}, ignored: {", r'Unconsumed error output for "Orders"'),
        ("pipeline:", "pipelines:", "orders.yaml has no pipeline"),
        ("pipeline:", "pipeline: [", "orders.yaml is not YAML"),
    ],
)
def test_an_error_is_a_sentence_that_names_the_line(
    pipeline: str, capsys: pytest.CaptureFixture[str], right: str, wrong: str, message: str
) -> None:
    Path("orders.yaml").write_text(pipeline.replace(right, wrong, 1))
    assert program.main(["orders.yaml", "--runner=DirectRunner"]) == 2
    text_of_error = capsys.readouterr().err
    assert len(text_of_error.splitlines()) == 1, text_of_error
    assert re.search(message, text_of_error), text_of_error


def test_the_table_has_the_transforms() -> None:
    table = next(re.findall(r"(?:^\|.*\|\n)+", (DOCS / "yaml.md").read_text(encoding="utf-8"), re.MULTILINE).__iter__())
    written = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.strip("|").split("|")[0])]
    assert sorted(written) == sorted(PROVIDED)


def test_the_options_are_those_of_the_classes_with_their_help() -> None:
    from apache_beam.yaml.yaml_provider import InlineProvider

    left_out = set()
    for name in PROVIDED:
        python = inspect.signature(TRANSFORMS[name]).parameters
        not_in_yaml = {option: {option, f"{name}.{option}"} & {*NOT_IN_YAML} for option in python}
        left_out |= {each for found in not_in_yaml.values() for each in found}
        added = ["error_handling"] * hasattr(TRANSFORMS[name], "with_outputs")
        fields = InlineProvider({name: getattr(provided, name)}).config_schema(name).fields
        assert [field.name for field in fields] == [*(option for option, found in not_in_yaml.items() if not found), *added], name
        assert [field.name for field in fields if not field.description] == [], name
    assert left_out == {*NOT_IN_YAML}
    assert {*TRANSFORMS} - {*PROVIDED} == {
        *("ReduceTable", "WindowedAggregate", "WindowedTableJoin", "WindowedTableToStream"),  # take functions
        *("LatestTable", "TableToChanges", "TableToStream"),  # TableToRows gives all of them as rows
        *("ReadGrowingFiles", "ReadKafka", "ReadParquet"),  # Beam YAML has readers of rows
    }


def test_a_new_option_of_a_class_is_an_option_of_yaml() -> None:
    import apache_beam as beam

    class Limit(beam.PTransform):  # type: ignore[type-arg]
        """Limits rows.

        * ``by``, ``of``: a column, as in
          ``Limit(by="id")``.
        """

        def __init__(self, *, by: str | Sequence[str], of: timedelta | float = 5, schema: pa.Schema | None = None) -> None:
            super().__init__()
            self.given = by, of, schema

    made = provided.provided(Limit)
    assert '  by: a column, as in `Limit(by="id")`.\n  of: a column, as in `Limit(by="id")`. In YAML seconds.' in str(made.__doc__)
    assert made(by=["id"], of=1.5, schema={"id": "int8"})._transform.given == ("id", 1.5, pa.schema([("id", pa.int8())]))
    assert made(by=["shop", "id"])._transform.given == (["shop", "id"], 5, None)
    for config, message in (({"by": "id", "on": 1}, "Limit has no option on: choose among by, of, schema"), ({"of": 1}, "needs by")):
        with pytest.raises(ValueError, match=message):
            made(**config)


def test_every_form_of_transform_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("all.yaml").write_text(ALL)
    assert program.main(["all.yaml", "--runner=DirectRunner"]) == 0
    assert pq.read_table(next(Path().glob("worth-*.parquet"))).to_pylist() == [{"item": "tea", "worth": 17.5, "name": "TEA"}]


def test_rows_come_out_as_they_went_in_with_their_types() -> None:
    import apache_beam as beam
    from apache_beam.testing.util import assert_that, equal_to
    from apache_beam.utils.timestamp import Timestamp

    row = beam.Row(id=1, at=Timestamp(micros=1_700_000_000_123_456), tags=["a"], inner=beam.Row(x=1.5, y=b"z"), lsn=3)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        table = (
            pipeline
            | beam.Create([row])
            | "table" >> provided.TableFromChangelog(key=["id"], timestamp_by="at", sequence_by=["lsn"], except_columns=["lsn"])
        )
        assert_that(
            table | "latest" >> provided.TableToRows(key=["id"]), equal_to([beam.Row(id=1, at=row.at, tags=["a"], inner=row.inner)])
        )


def test_rows_without_a_time_have_null_for_it(tmp_path: Path) -> None:
    import apache_beam as beam
    from apache_beam.testing.util import assert_that, equal_to

    (tmp_path / "r.csv").write_text("id,name\n1,Ann\n1,Anna\n,x\n")
    read = provided.ReadChangelog(path=str(tmp_path / "r.csv"), key=["id"], schema={"id": "int64", "name": "string"})
    changed = beam.Row(old=None, new=beam.Row(id=1, name="Anna"), timestamp=None, position=None)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        table = pipeline | read
        assert_that(table | "changes" >> provided.TableToRows(key=["id"], records="changes"), equal_to([changed]), label="changes are")
        upserts = table | "upserts" >> provided.TableToRows(key=["id"], records="upserts")
        assert_that(
            upserts, equal_to([beam.Row(id=1, name="Anna", timestamp=None, position=None, deleted=False)]), label="upserts are"
        )


def test_inferred_columns_of_any_names_are_joined_by_name(tmp_path: Path) -> None:
    import apache_beam as beam
    from apache_beam.testing.util import assert_that, equal_to

    (tmp_path / "l.csv").write_text('Order No,Cust. No,"Total ""net"", EUR",Größe,a:b\n1,7,1.5,L,1\n')
    (tmp_path / "r.jsonl").write_text('{"Cust. No": 7, "Full Name": "Ann"}\n')
    orders = provided.ReadChangelog(path=str(tmp_path / "l.csv"), key="Order No", sequence_by="a:b", schema="inferred")
    customers = provided.ReadChangelog(path=str(tmp_path / "r.jsonl"), key=["Cust. No"], schema="inferred")
    columns = {"net": 'left.Total "net", EUR', "Größe": "left.Größe", "name": "right.Full Name"}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        tables = {"left": pipeline | "orders" >> orders, "right": pipeline | "customers" >> customers}
        joined = tables | "join" >> provided.ForeignKeyJoin(foreign_key="Cust. No", joiner=columns)
        rows = joined | "rows" >> provided.TableToRows(key=["order_no"])
        assert_that(rows, equal_to([beam.Row(order_no=1, net=1.5, Größe="L", name="Ann")]))


def test_whole_numbers_and_fractions_in_one_field_are_fractions_and_other_kinds_are_refused_with_its_name() -> None:
    import apache_beam as beam

    from beam_joins.transforms.engine.construction.beam_schemas import columns_of_rows, record_batch

    def of(*values: object) -> pa.Schema:
        return columns_of_rows((beam.Pipeline() | beam.Create([beam.Row(id=1, n=value) for value in values])).element_type)

    assert of(2, 2.5) == of(None, 2.5, 2) == pa.schema([("id", pa.int64()), ("n", pa.float64())])
    assert of(2, None).field("n").type == pa.int64()
    rows = [beam.Row(n=value) for value in (2, 2.5, None, 2**53)]
    assert record_batch(rows, pa.schema([("n", pa.float64())])).to_pydict() == {"n": [2.0, 2.5, None, 2.0**53]}
    with pytest.raises(ValueError, match=rf"'n'.*{2**53 + 1}|{2**53 + 1}.*'n'"):
        record_batch([beam.Row(n=2**53 + 1)], pa.schema([("n", pa.float64())]))
    for name, values in (("n", (2, "two")), ("n.deep", (beam.Row(deep=2), beam.Row(deep=2.5)))):  # Beam merges the types within rows
        with pytest.raises(
            ValueError, match=f"the field '{name}' has values of several kinds, such as numbers and text, or any: write"
        ):
            of(*values)
