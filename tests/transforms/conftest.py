"""Runs a pipeline on the direct runner, and the tests of ``on_both_runners`` on Spark too, all of them on one
job server.
"""

import copy
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins.transforms.engine.stages.replay_options import ReplayOptions

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On Spark the first and the last of a test's variants run; the others are sweeps."""
    variants: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("spark") and not item.get_closest_marker("sweep"):
            variants[item.nodeid.partition("[")[0]].append(item)
    for item in (item for several in variants.values() for item in several[1:-1]):
        item.add_marker(pytest.mark.sweep)


@pytest.fixture(scope="session")
def spark_options():
    from beam_joins import runner

    with runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[2]"])) as options:
        yield options


@pytest.fixture
def direct():
    """A new pipeline on the direct runner, its engine named: the default one switches between three."""

    def pipeline(partitions=3):
        options = PipelineOptions([f"--beam_joins_partitions={partitions}"])
        return beam.Pipeline(runner=FnApiRunner(), options=options)

    return pipeline


@pytest.fixture(
    params=[
        "direct",
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def pipeline(request):
    """A new pipeline on either runner; with a number of partitions if one is given."""
    if request.param == "direct":

        def on_direct(partitions=3):
            options = PipelineOptions([f"--beam_joins_partitions={partitions}"])
            return beam.Pipeline(runner=FnApiRunner(), options=options)

        return on_direct
    options = request.getfixturevalue("spark_options")

    @contextmanager
    def on_spark(partitions=3):
        inputs = copy.deepcopy(options)
        inputs.view_as(ReplayOptions).beam_joins_partitions = partitions
        with beam.Pipeline(options=inputs) as p:
            yield p

    return on_spark
