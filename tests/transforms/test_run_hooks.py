"""What is called around the run of a pipeline, which Beam has no hook for."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins.transforms.engine.construction.run_hooks import around_run, before_run


def _raise(error: BaseException) -> Any:
    raise error


def of(calls: list[str], name: str) -> tuple[Callable[[], None], Callable[[Any], None]]:
    return lambda: calls.append(f"{name} begins"), lambda result: calls.append(f"{name} ends {result and result.state}")


@pytest.mark.parametrize("runner", [FnApiRunner, BundleBasedDirectRunner], ids=lambda runner: runner.__name__)
def test_the_with_block_of_a_pipeline_calls_what_was_put_around_its_run_the_last_first(runner: Any) -> None:
    calls = list[str]()
    with beam.Pipeline(runner=runner()) as pipeline:
        around_run(pipeline, *of(calls, "first"))
        around_run(pipeline, *of(calls, "second"))
        _ = pipeline | beam.Create([1]) | beam.Map(str)
    assert calls[:2] == ["second begins", "first begins"], "Beam's Pipeline.__exit__ calls no longer self.run(): look at run_hooks.py"
    assert set(calls[2:]) == {"first ends DONE", "second ends DONE"}, (
        "Beam no longer waits by result.wait_until_finish(): look at run_hooks.py"
    )
    assert calls[2] == "first ends DONE"


def test_what_is_called_before_a_run_is_called_behind_all_that_begins_and_not_where_that_raises() -> None:
    calls = list[str]()
    pipeline = beam.Pipeline(runner=FnApiRunner())
    around_run(pipeline, *of(calls, "first"))
    before_run(pipeline, lambda: calls.append("now"))
    around_run(pipeline, *of(calls, "second"))
    pipeline.run().wait_until_finish()
    assert calls[:3] == ["second begins", "first begins", "now"]
    around_run(pipeline, lambda: _raise(ValueError("refused")), lambda result: None)
    with pytest.raises(ValueError, match="refused"):
        pipeline.run()
    assert calls.count("now") == 1


def test_a_run_that_raises_ends_without_a_result_and_one_that_is_not_begun_does_not_end() -> None:
    calls = list[str]()
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: _raise(RuntimeError("no")))
    around_run(pipeline, *of(calls, "it"))
    with pytest.raises(RuntimeError, match="no"):
        pipeline.run()
    assert calls == ["it begins", "it ends None"]
    other = beam.Pipeline(runner=FnApiRunner())
    around_run(other, lambda: _raise(ValueError("refused")), of(calls, "other")[1])
    with pytest.raises(ValueError, match="refused"):
        other.run()
    assert len(calls) == 2


class _Result:
    """The result of a runner that goes on after `run` has returned."""

    def __init__(self, *states: str) -> None:
        self._states = list(states)
        self.state = self._states.pop(0)

    def wait_until_finish(self, duration: int | None = None) -> str:
        self.state = self._states.pop(0)
        return self.state


def test_a_run_that_goes_on_ends_when_waiting_says_that_it_has_ended() -> None:
    calls = list[str]()
    pipeline: Any = beam.Pipeline(runner=FnApiRunner())
    pipeline.run = lambda: _Result("RUNNING", "RUNNING", "FAILED")
    around_run(pipeline, *of(calls, "it"))
    result = pipeline.run()
    assert result.wait_until_finish(10) == "RUNNING"
    assert calls == ["it begins"]
    assert result.wait_until_finish() == "FAILED"
    assert calls == ["it begins", "it ends FAILED"]
