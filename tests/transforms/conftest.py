"""Runs a pipeline on the direct runner, and the tests of ``on_both_runners`` on Spark too, all of them on one job server."""

from contextlib import contextmanager

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner


@pytest.fixture(scope="session")
def spark_options():
    from beam_joins.pipelines.spark import spark_runner

    with spark_runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[2]"])) as options:
        yield options


@pytest.fixture
def direct():
    """A new pipeline on the direct runner, its engine named: the default one switches between three."""
    return lambda: beam.Pipeline(runner=FnApiRunner())


@pytest.fixture(
    params=[
        "direct",
        "direct, in state",
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def pipeline(request):
    """A new pipeline on either runner, and with partitions that wait in state."""
    if request.param.startswith("direct"):
        waits = "state" if "state" in request.param else "group"
        return lambda: beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_replay={waits}"]))
    options = request.getfixturevalue("spark_options")

    @contextmanager
    def on_spark():
        with beam.Pipeline(options=options) as p:
            yield p

    return on_spark
