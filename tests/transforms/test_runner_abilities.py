"""One table states what runners can do, for the engine, for launchers and for messages."""

from importlib import import_module
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.runner import PipelineRunner

from beam_joins.pipelines.runners.launches import LAUNCHES
from beam_joins.transforms.engine.blocks.block_folder import block_folder
from beam_joins.transforms.engine.construction.runner_abilities import LOCAL, ONE_MACHINE, RUNNERS, Abilities, require_able

MODULES = ("direct.direct_runner", "portability.fn_api_runner", "portability.prism_runner", "portability.spark_runner", "render")


class NewRunner(PipelineRunner):
    """A runner that Beam may have some day."""


class NewRunnerOfOurs(NewRunner):
    """A runner of ours on top of it."""


def test_every_runner_of_the_table_is_a_class_of_beam_under_this_name() -> None:
    modules = [import_module(f"apache_beam.runners.{module}") for module in MODULES]
    of_beam = {each.__name__ for module in modules for each in vars(module).values() if isinstance(each, type)}
    assert set(RUNNERS) - of_beam == {LOCAL}, "Beam has moved or renamed these: the table takes them for runners that can do all"


@pytest.mark.parametrize("flags", [[], ["--streaming"]], ids=["unbounded", "streaming"])
def test_one_line_of_the_table_refuses_what_a_new_runner_cannot_do(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = beam.Pipeline(runner=NewRunnerOfOurs(), options=PipelineOptions(flags))
    pcoll: PCollection[Any] = PCollection(pipeline, is_bounded=bool(flags))
    require_able("Join", pcoll)
    cannot = Abilities(not_unbounded="got no end:", not_streaming="has no stream:")
    monkeypatch.setitem(RUNNERS, "NewRunner", cannot)
    with pytest.raises(ValueError, match="^Join has no stream: use Prism" if flags else "^Join got no end: use Prism"):
        require_able("Join", pcoll)


def test_blocks_lie_on_disk_for_a_new_runner_in_memory_and_for_one_whose_launcher_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(*flags: str) -> Any:
        return block_folder(beam.Pipeline(runner=NewRunner(), options=PipelineOptions(list(flags))), None)

    assert folder() is None
    assert folder(f"--experiments={ONE_MACHINE}") is not None
    monkeypatch.setitem(RUNNERS, "NewRunner", Abilities(in_memory=True))
    assert folder() is not None


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.runner.slug)
def test_a_launcher_is_meant_by_the_name_of_its_runner_without_a_job_server(launch: Any) -> None:
    name, slug = launch.runner.name, launch.runner.slug
    for runner in (f"{name}Runner", slug, f"apache_beam.runners.portability.{slug}_runner.{name}Runner"):
        assert launch.is_meant(PipelineOptions([f"--runner={runner}"]))
        for flag in ("--job_endpoint=localhost:1", f"--{slug}_job_server_jar=a.jar", f"--{slug}_submit_uber_jar"):
            assert not launch.is_meant(PipelineOptions([f"--runner={runner}", flag]))
    assert not launch.is_meant(PipelineOptions([]))
    assert [other for other in LAUNCHES if other.is_meant(PipelineOptions([f"--runner={name}Runner"]))] == [launch]
