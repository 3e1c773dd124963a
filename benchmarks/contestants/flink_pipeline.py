"""Unbounded pipelines on Flink, which run until something is there."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import runner
from beam_joins.pipelines.flink import flink_job

_FLINK: Final = ("--runner=FlinkRunner", "--streaming")
_END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2


def run_until(build: Callable[[beam.Pipeline], None], is_over: Callable[[], bool], options: Sequence[str] = ()) -> None:
    """Run a pipeline, and cancel its job when it is over; raises the error of a job that fails."""
    with runner(PipelineOptions([*_FLINK, *options])) as ready:
        pipeline = beam.Pipeline(options=ready)
        build(pipeline)
        result: Any = pipeline.run()
        job = flink_job(result, ready)
        failed: list[BaseException] = []
        waiting = threading.Thread(target=_wait, args=(result, failed), daemon=True)
        waiting.start()
        while not failed and not is_over():
            time.sleep(_POLL_SECONDS)
        if failed:
            raise failed[0]
        job.cancel()
        waiting.join(_END_SECONDS)


def _wait(result: Any, failed: list[BaseException]) -> None:
    try:
        result.wait_until_finish()
    except BaseException as error:
        failed.append(error)
