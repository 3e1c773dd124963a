"""The page of Beam YAML: its pipeline runs as it says, and its table has the words of each transform."""

import inspect
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from beam_joins.pipelines.yaml import __main__ as program
from beam_joins.pipelines.yaml import provided
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
        ("how: left", "how: middle", r'"ForeignKeyJoin" at line \d+: .*choose one of'),
        ("{left: Orders, right: Customers}", "[Orders, Customers]", r"at line \d+: give the inputs names: input: .left: NAME"),
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


def test_the_table_has_the_transforms_and_their_words() -> None:
    table = next(re.findall(r"(?:^\|.*\|\n)+", (DOCS / "yaml.md").read_text(encoding="utf-8"), re.MULTILINE).__iter__())
    written = {}
    for row in table.splitlines()[2:]:
        names, _, config = (re.findall(r"`(\w+)`", cell) for cell in row.strip("|").split("|"))
        written |= dict.fromkeys(names, config)
    reference = {name: list(inspect.signature(getattr(provided, name)).parameters) for name in PROVIDED}
    assert written == reference


def test_rows_come_out_as_they_went_in_with_their_types() -> None:
    import apache_beam as beam
    from apache_beam.testing.util import assert_that, equal_to
    from apache_beam.utils.timestamp import Timestamp

    row = beam.Row(id=1, at=Timestamp(micros=1_700_000_000_123_456), tags=["a"], inner=beam.Row(x=1.5, y=b"z"), lsn=3)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        table = pipeline | beam.Create([row]) | "table" >> provided.TableFromChangelog(key=["id"], timestamp_by="at", sequence_by=["lsn"], except_columns=["lsn"])
        assert_that(
            table | "latest" >> provided.LatestTable(key=["id"]), equal_to([beam.Row(id=1, at=row.at, tags=["a"], inner=row.inner)])
        )


def test_whole_numbers_and_fractions_in_one_field_are_fractions_and_other_kinds_are_refused_with_its_name() -> None:
    import apache_beam as beam

    from beam_joins.pipelines.yaml.rows import _record_batch, columns_of

    def of(*values: object) -> pa.Schema:
        return columns_of(beam.Pipeline() | beam.Create([beam.Row(id=1, n=value) for value in values]))

    assert of(2, 2.5) == of(None, 2.5, 2) == pa.schema([("id", pa.int64()), ("n", pa.float64())])
    assert of(2, None).field("n").type == pa.int64()
    rows = [beam.Row(n=value) for value in (2, 2.5, None, 2**53)]
    assert _record_batch(rows, pa.schema([("n", pa.float64())])).to_pydict() == {"n": [2.0, 2.5, None, 2.0**53]}
    with pytest.raises(ValueError, match=rf"'n'.*{2**53 + 1}|{2**53 + 1}.*'n'"):
        _record_batch([beam.Row(n=2**53 + 1)], pa.schema([("n", pa.float64())]))
    for name, values in (("n", (2, "two")), ("n.deep", (beam.Row(deep=2), beam.Row(deep=2.5)))):  # Beam merges the types within rows
        with pytest.raises(
            ValueError, match=f"the field '{name}' has values of several kinds, such as numbers and text, or any: write"
        ):
            of(*values)
