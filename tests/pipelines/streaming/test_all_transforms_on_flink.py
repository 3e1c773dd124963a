"""All transforms in one pipeline on Flink give what they give as bounded input on the direct runner,
unbounded and bounded.
"""

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import runner
from beam_joins.pipelines.flink import FlinkJob, flink_job
from tests.pipelines.streaming.jobs import MANY_RESTARTS, Append, kill, python_workers, wait_until, written
from tests.transforms.all_builds import BUILDS, all_of_them
from tests.transforms.unbounded_runs import arrivals, bounded, elements_of, history, idle, two_sources

pytestmark = [pytest.mark.flink, pytest.mark.sweep, pytest.mark.usefixtures("flink")]

EVENTS = history(14, events=50, seconds=20)
FLAGS = (
    "--runner=FlinkRunner",
    "--flink_memory=2g",
    "--parallelism=2",
    "--python_workers=2",
    "--beam_joins_partitions=3",
)
MANY_STAGES = ("--flink_conf=execution.buffer-timeout.interval=100ms", "--max_bundle_time_mills=200")
"""By default the threads of some 150 stages wake every few milliseconds, which two cores have no time for."""


@pytest.fixture
def expected() -> list[list[str]]:
    """Each element with the name of its build."""
    elements = elements_of(FnApiRunner(), bounded, EVENTS, all_of_them)
    named = [[name, repr(element)] for (name, element), _ in elements]
    assert {name for name, _ in named} == {*BUILDS}
    return sorted(named)


def written_by(pipeline: beam.Pipeline, inputs: Any, out: Path) -> beam.runners.runner.PipelineResult:
    _ = all_of_them(*inputs) | beam.MapTuple(lambda name, element: [name, repr(element)]) | beam.ParDo(Append(out))
    return pipeline.run()


def checkpoints(job: FlinkJob) -> int:
    """How many the job has completed."""
    with urllib.request.urlopen(f"http://{job.address}/jobs/{job.id}/checkpoints", timeout=10) as answer:
        return int(json.load(answer)["counts"]["completed"])


def test_bounded_input_has_the_same_results_in_a_batch_job(tmp_path: Path, expected: list[list[str]]) -> None:
    with runner(PipelineOptions([*FLAGS])) as on_flink:
        pipeline = beam.Pipeline(options=on_flink)
        written_by(pipeline, bounded(pipeline, EVENTS), tmp_path).wait_until_finish()
    assert sorted(written(tmp_path)) == expected


def test_unbounded_input_has_them_too_with_checkpoints_from_which_it_goes_on_when_all_workers_are_killed(
    tmp_path: Path, expected: list[list[str]]
) -> None:
    with runner(PipelineOptions([*FLAGS, *MANY_STAGES, MANY_RESTARTS, "--streaming", "--checkpointing_interval=500"])) as on_flink:
        pipeline = beam.Pipeline(options=on_flink)
        result = written_by(pipeline, two_sources(pipeline, idle(arrivals(EVENTS, 14), "right")), tmp_path)
        job = flink_job(result, on_flink)
        wait_until(lambda: len(written(tmp_path)) > len(expected) // 2)
        before, while_it_ran = counted(written(tmp_path)), checkpoints(job)
        kill(python_workers())
        wait_until(lambda: counted(written(tmp_path)) >= counted(expected))
        # what comes too much is there by the end of another checkpoint or two
        at_the_end = checkpoints(job)
        assert at_the_end > while_it_ran
        wait_until(lambda: checkpoints(job) > at_the_end + 1)
        job.cancel()
    assert before <= counted(expected)
    # what is written outside of Flink comes again after a failure, and is the same again
    assert counted(written(tmp_path)).keys() == counted(expected).keys()


def counted(elements: list[Any]) -> Counter[tuple[str, str]]:
    return Counter(map(tuple, elements))
