"""Calls functions before the run of a pipeline and at its end, for which Beam has no hook, and makes pipelines that may never run.

Relies on, in Beam 2.66 to 2.77: the ``with`` block of a pipeline and users call ``run`` of the pipeline object and
``wait_until_finish`` of the result that it returns, each of which may be replaced in its object; a run whose state is
terminal has ended.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.runners.runner import PipelineState

_BEFORE = "_beam_joins_before_run"


def empty_pipeline(options: PipelineOptions) -> Pipeline:
    """A pipeline without the folder that Beam makes for transforms in other languages and removes at the end of a run: it would stay
    where the pipeline does not run, or the process is killed.
    """
    pipeline = Pipeline(options=options)
    os.rmdir(pipeline.local_tempdir)
    return pipeline


def around_run(pipeline: Pipeline, begin: Callable[[], None], end: Callable[[Any], None]) -> None:
    """Call ``begin`` before a run, and ``end`` when it has ended: with its result, or with ``None`` if the
    run, waiting for it or ``end`` has raised. ``end`` may be called again; a ``begin`` that raises undoes its
    own work.
    """
    run: Callable[..., Any] = pipeline.run
    first = not hasattr(pipeline, _BEFORE)
    if first:
        setattr(pipeline, _BEFORE, list[Callable[[], None]]())

    def begin_and_run(*args: Any, **options: Any) -> Any:
        begin()
        with _ended_by(end):
            for call in getattr(pipeline, _BEFORE) if first else ():
                call()
            result = run(*args, **options)
            _end_if_terminal(result, end)
        wait: Callable[..., Any] = result.wait_until_finish

        def wait_and_end(*args: Any, **options: Any) -> Any:
            with _ended_by(end):
                state = wait(*args, **options)
                _end_if_terminal(result, end)
            return state

        result.wait_until_finish = wait_and_end
        return result

    pipeline.run = begin_and_run  # type: ignore[method-assign]


def before_run(pipeline: Pipeline, call: Callable[[], None]) -> None:
    """Call a function before a run, behind every ``begin`` of :func:`around_run`: the folder of a state is locked then."""
    if not hasattr(pipeline, _BEFORE):
        around_run(pipeline, lambda: None, lambda result: None)
    getattr(pipeline, _BEFORE).append(call)


def _end_if_terminal(result: Any, end: Callable[[Any], None]) -> None:
    if PipelineState.is_terminal(result.state):
        end(result)


@contextmanager
def _ended_by(end: Callable[[Any], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        end(None)
        raise
