"""The page about metrics and the code name the same ones, and a pipeline reports them."""

import re

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ForeignKeyJoin, TableFromChangelog
from beam_joins.transforms.engine.blocks import metrics
from tests.docs.page import DOCS


def counted(how: str, *options: str) -> dict[str, int]:
    orders = pa.table({"id": [1, 2, 3, 1], "customer": ["ann", "bob", None, "bob"], "lsn": [3, 4, 5, 6]})
    customers = pa.table({"id": ["ann", "cid"], "name": ["Ann", "Cid"], "lsn": [1, 2]})
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(options)))
    left, right = (
        pipeline
        | f"read {name}" >> beam.Create([rows]).with_output_types(pa.Table)
        | name >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
        for name, rows in (("orders", orders), ("customers", customers))
    )
    _ = (left, right) | "join" >> ForeignKeyJoin({"name": "right.name"}, foreign_key="customer", how=how)
    result = pipeline.run()
    result.wait_until_finish()
    query = MetricsFilter().with_namespace(metrics.NAMESPACE)
    actual = result.metrics().query(query)
    of_join = [each for each in actual["counters"] if each.key.step.startswith("join/")]
    sums = {each.key.metric.name: 0 for each in of_join}
    for each in of_join:
        sums[each.key.metric.name] += each.committed
    return sums | {each.key.metric.name: each.committed.count for each in actual["distributions"]}


def test_the_page_and_the_code_name_the_same_metrics_of_the_same_kinds():
    table = (DOCS / "metrics.md").read_text(encoding="utf-8").partition("<!-- metrics -->")[2]
    named = re.findall(r"^\| `(\w+)` \| (\w+) \|", table, re.MULTILINE)
    assert named == [tuple(metric) for metric in metrics.METRICS]


def test_a_reason_that_no_metric_is_named_for_cannot_be_counted():
    with pytest.raises(KeyError):
        metrics.dropped("no_such_reason")


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("broadcast", ["--beam_joins_broadcast_bytes=0", "--beam_joins_broadcast_bytes=1000000"])
def test_a_join_counts_the_left_rows_that_have_no_right_row_whichever_way_it_runs(how, broadcast):
    sums = counted(how, broadcast)
    nobody = 1 if how == "left" else 0  # order 3 refers to nobody, and an inner join drops it before
    assert sums["unmatched"] == 2 + nobody  # order 2, and order 1 when it moves to bob
    assert sums["rows_out"] >= 2
    assert sums["block_rows"] == sums["block_bytes"] > 0
    assert ("dropped_null_foreign_key" in sums) == (how == "inner")


def test_a_run_that_goes_on_says_how_much_it_remembers(tmp_path):
    sums = counted("inner", f"--beam_joins_state={tmp_path}")
    assert sums["state_rows"] == sums["state_bytes"] > 0
