"""The proofs at tiny size: each is right, and a result that is not is recognized."""

import logging
import xml.etree.ElementTree as ET
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from benchmarks.proofs import amplification, amplification_job
from benchmarks.proofs.__main__ import main
from benchmarks.proofs.bank import POSITIONS, Verdict, totals_of_json, verdict
from benchmarks.proofs.bank_job import bounded
from benchmarks.proofs.picture import draw
from benchmarks.proofs.transactions import Arrivals, provide_transactions

COUNT = 300


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provide_transactions(COUNT, tmp_path_factory.mktemp("bank"))


@pytest.fixture(autouse=True)
def log_level():
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_total_of_the_bank_is_zero_and_no_transfer_has_one_side(positions, data, tmp_path):
    bounded(data, tmp_path / "out", positions, "DirectRunner", ["--beam_joins_partitions=2"], None)
    assert verdict(tmp_path / "out", data, positions) == Verdict({"id": COUNT, "time": 60}[positions], 0, 0, complete=True)


def test_a_wrong_total_and_a_transfer_with_one_side_are_recognized(tmp_path):
    changes = {
        "totals": [(0, None, 0, 0), (0, 0, 7, 1)],
        "balances": [(3, None, {"balance": -1}, 0), (4, None, {"balance": 1}, 0), (3, {"balance": -1}, {"balance": -2}, 1)],
    }
    for name, rows in changes.items():
        (tmp_path / name).mkdir()
        columns = dict(zip(("key", "old", "new", "position"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), tmp_path / name / "1.parquet")
    (tmp_path / "data").mkdir()
    transfers = {"id": [0, 1], "from_account": [3, 3], "to_account": [4, 4], "amount": [1, 1], "at": [0, 0]}
    pq.write_table(pa.table(transfers), tmp_path / "data" / "1.parquet")
    actual = verdict(tmp_path, tmp_path / "data", "id")
    assert actual == Verdict(2, wrong=1, one_sided=1, complete=False)
    assert not actual.consistent


def test_the_unbounded_source_gives_the_transactions_in_the_order_of_arrival(data):
    path = data / "transactions.parquet"
    source = Arrivals(str(path))
    pieces = list(source.pieces("transactions", *source.range("transactions")))
    source.close()
    assert pa.Table.from_batches([piece.elements[0].value for piece in pieces]).equals(pq.read_table(path))
    assert pq.read_table(path)["id"].to_pylist() != list(range(COUNT))


def test_totals_of_flink_sql_are_read_without_what_they_retract_and_drawn(tmp_path):
    (tmp_path / "json").mkdir()
    lines = ['{"before":null,"after":{"total":-1},"op":"c"}', '{"before":{"total":-1},"after":null,"op":"d"}']
    (tmp_path / "json" / "part-0").write_text("\n".join([*lines, '{"before":null,"after":{"total":0},"op":"c"}', ""]))
    totals = totals_of_json(tmp_path / "json")
    assert totals == [-1, 0]
    draw(totals, 1, tmp_path / "bank.svg")
    texts = [element.text for element in ET.parse(tmp_path / "bank.svg").iter() if element.tag.endswith("}text")]
    assert texts[:2] == ["Flink SQL, streaming: 1 of 2 totals are not 0", "beam_joins: 0 of 1 totals are not 0"]


def test_labels_of_the_bank_are_whole_within_the_picture(tmp_path):
    draw([2_000_586, -2_000_586], 1, tmp_path / "bank.svg")
    digit = 7  # pixels, at most
    labels = [element for element in ET.parse(tmp_path / "bank.svg").iter() if element.get("text-anchor") == "end"]
    assert "-2,000,586" in [label.text for label in labels]
    assert [label.text for label in labels if float(label.get("x")) < digit * len(label.text)] == []


def test_an_update_of_the_row_to_which_all_refer_changes_each_sum_once(tmp_path):
    amplification.write_input(200, tmp_path)
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_partitions=2"])) as pipeline:
        amplification_job.build(pipeline, tmp_path / "whole", tmp_path / "out")
    assert amplification.checked(tmp_path / "out", tmp_path / "whole", rate=3) == (200 + 20, True)
    assert amplification.checked(tmp_path / "out", tmp_path / "whole", rate=2) == (200 + 20, False)


@pytest.mark.sweep
def test_the_update_is_right_in_a_run_that_goes_on(tmp_path, capsys):
    assert main(["amplification", "--rows", "1000", "--data", str(tmp_path)]) == 0
    assert "| then the update, resumed |" in capsys.readouterr().out


@pytest.mark.sweep
@pytest.mark.spark
@pytest.mark.flink
@pytest.mark.parametrize("way", ["direct", "resumed", "spark", "flink"])
def test_the_bank_is_right_in_all_ways(way, tmp_path):
    assert main(["bank", "--transactions", "2000", "--ways", way, "--partitions", "3", "--data", str(tmp_path)]) == 0
