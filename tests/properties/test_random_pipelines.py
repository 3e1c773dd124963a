"""Chains, diamonds, self-joins and broadcast tables: the law for whole pipelines, on every runner, in one run
and in incremental runs.
"""

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import runner
from tests.examples import examples
from tests.pipelines.streaming.jobs import written
from tests.programs import needed_prism
from tests.properties.random_pipelines import POSITIONS, Plan, Record, Step, build, random_history, random_plan, wrong
from tests.properties.strategies import cuts

SIDE_BY_SIDE = 4
RANDOMS = st.integers(0, 2**32).map(Random)  # what a plan is made of is drawn at once: it shrinks to another, not to a smaller one


def direct(plan: Plan, history: Sequence[Record], *, cuts: Sequence[int] | None = None, partitions: int = 3) -> list[str]:
    """What is wrong on the direct runner, in one run or, with cuts, in incremental runs."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        out.mkdir()
        bounds = [-1, *(cuts or ()), POSITIONS[-1]]
        for low, high in pairwise(bounds):
            flags = [f"--beam_joins_partitions={partitions}", *([f"--beam_joins_state={folder}/state"] if cuts is not None else [])]
            with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags)) as pipeline:
                build(pipeline, plan, [record for record in history if low < record.position <= high], out)
        return wrong(plan, history, written(out))


@examples(12)
@given(RANDOMS, st.sampled_from([1, 3, 16]))
def test_a_pipeline_of_any_transforms_has_the_contents_of_its_meaning_at_every_position(draw: Random, partitions: int) -> None:
    plan, history = random_plan(draw), random_history(draw)
    assert not wrong_with(plan, history, direct(plan, history, partitions=partitions))


@examples(5)
@given(RANDOMS, cuts())
def test_a_pipeline_of_any_transforms_goes_on_where_it_was_cut(draw: Random, cuts: list[int]) -> None:
    plan, history = random_plan(draw), random_history(draw)
    assert not wrong_with(plan, history, direct(plan, history, cuts=cuts))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(300))
def test_many_pipelines_have_the_contents_of_their_meaning(seed: int) -> None:
    draw = Random(f"many {seed}")
    plan, history = random_plan(draw), random_history(draw)
    cut = sorted(draw.choices(POSITIONS, k=draw.randrange(3))) if draw.random() < 0.3 else None
    assert not wrong_with(plan, history, direct(plan, history, cuts=cut, partitions=draw.choice([1, 3, 16])))


def wrong_with(plan: Plan, history: Sequence[Record], message: list[str]) -> list[str]:
    """With plan and history, if anything is wrong."""
    return [*message, str(plan), str(history)] if message else []


def side_by_side(pipeline: beam.Pipeline, seed: str, out: Path) -> list[tuple[Plan, list[Record]]]:
    """Several plans in one pipeline, as starting a job costs more than running one."""
    made = []
    for number in range(SIDE_BY_SIDE):
        draw = Random(f"{seed} {number}")
        made.append((random_plan(draw), random_history(draw)))
        build(pipeline, *made[-1], out, str(number))
    return made


def all_right(made: Sequence[tuple[Plan, list[Record]]], out: Path) -> None:
    lines = written(out)
    for number, (plan, history) in enumerate(made):
        assert not wrong_with(plan, history, wrong(plan, history, [line for line in lines if line[0] == str(number)]))


def test_random_pipelines_on_prism(prism: str, tmp_path: Path) -> None:
    flags = [f"--prism_location={needed_prism()}", "--environment_type=LOOPBACK", "--beam_joins_partitions=3"]
    with beam.Pipeline(runner=PrismRunner(), options=PipelineOptions(flags)) as pipeline:
        made = side_by_side(pipeline, "prism", tmp_path)
    all_right(made, tmp_path)


@pytest.mark.spark
@pytest.mark.sweep
def test_random_pipelines_on_spark(tmp_path: Path) -> None:
    flags = ["--runner=SparkRunner", "--spark_master_url=local[2]", "--beam_joins_partitions=3"]
    with runner(PipelineOptions(flags)) as options, beam.Pipeline(options=options) as pipeline:
        made = side_by_side(pipeline, "spark", tmp_path)
    all_right(made, tmp_path)


@pytest.mark.flink
@pytest.mark.sweep
def test_random_pipelines_on_flink(tmp_path: Path) -> None:
    flags = ["--runner=FlinkRunner", "--flink_memory=1g", "--parallelism=2", "--python_workers=2", "--beam_joins_partitions=3"]
    with runner(PipelineOptions(flags)) as options, beam.Pipeline(options=options) as pipeline:
        made = side_by_side(pipeline, "flink", tmp_path)
    all_right(made, tmp_path)


def test_a_change_that_is_missing_doubled_or_another_is_noticed(tmp_path: Path) -> None:
    plan = Plan((True, False, False), (Step("refer", (0, 1), "left"),), frozenset({0}))
    history = [Record(0, 1, 0, (2, 3)), Record(1, 2, 1, (None, 4)), Record(0, 1, 3, None)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        build(pipeline, plan, history, tmp_path)
    lines = written(tmp_path)
    assert len(lines) == 3
    assert wrong(plan, history, lines) == []
    for at, line in enumerate(lines):
        others = [*lines[:at], *lines[at + 1 :]]
        later = [*line[:-1], line[-1] + 1]
        assert all(wrong(plan, history, changed) for changed in (others, [*lines, line], [*others, later]))
