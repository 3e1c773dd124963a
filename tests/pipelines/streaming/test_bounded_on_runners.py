"""Bounded input gives the same results on each runner, however it orders stages and fires timers."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import runner
from tests.pipelines.streaming.jobs import Append, written
from tests.transforms.all_builds import all_of_them, one_of_a_kind
from tests.transforms.test_unbounded import changes
from tests.transforms.unbounded_runs import bounded, elements_of, given_on_prism, history

EVENTS = history(3, events=600, deletes=False)


def reprs(timed):
    return sorted(repr(element) for element, _ in timed)


def written_on(options: PipelineOptions, build, out: Path) -> list[str]:
    """What a runner whose workers are other processes gives."""
    with beam.Pipeline(options=options) as pipeline:
        _ = build(*bounded(pipeline, EVENTS)) | "Text" >> beam.Map(repr) | beam.ParDo(Append(out))
    return sorted(written(out))


@pytest.mark.spark
@pytest.mark.parametrize(
    "build", [pytest.param(one_of_a_kind, marks=pytest.mark.gate), pytest.param(all_of_them, marks=pytest.mark.sweep)]
)
def test_every_kind_of_join_in_one_job_on_spark(tmp_path, build):
    expected = reprs(elements_of(FnApiRunner(), bounded, EVENTS, build))
    flags = ["--runner=SparkRunner", "--spark_master_url=local[2]", "--beam_joins_partitions=2"]
    with runner(PipelineOptions(flags)) as options:
        assert written_on(options, build, tmp_path) == expected


@pytest.mark.flink
@pytest.mark.gate
@pytest.mark.usefixtures("flink")
def test_a_chain_of_joins_filters_and_counts_on_flink(tmp_path):
    expected = reprs(elements_of(FnApiRunner(), bounded, EVENTS, changes("a chain")))
    flags = ["--runner=FlinkRunner", "--flink_memory=1g", "--parallelism=2", "--python_workers=2", "--beam_joins_partitions=3"]
    with runner(PipelineOptions(flags)) as options:
        assert written_on(options, changes("a chain"), tmp_path) == expected


def test_every_transform_and_every_kind_of_join_in_one_job_on_prism(prism):
    expected = elements_of(FnApiRunner(), bounded, EVENTS, all_of_them)
    actual = given_on_prism(bounded, EVENTS, all_of_them, "--beam_joins_partitions=8")
    assert sorted(map(repr, actual)) == sorted(map(repr, expected)), "with their times"
