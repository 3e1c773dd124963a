"""Beam's direct runner in worker processes, one for each core; by itself it runs all of a pipeline in one thread."""

import copy
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from apache_beam.options.pipeline_options import DebugOptions, DirectOptions, PipelineOptions, PortableOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import create_runner

from beam_joins.cores import usable_cores
from beam_joins.pipelines.runners.direct_channel import Handler, Pooled
from beam_joins.pipelines.runners.job_failure import JobFailed, user_failure
from beam_joins.pipelines.runners.local_connections import no_proxy_here
from beam_joins.pipelines.runners.portable_run import interruptible
from beam_joins.pipelines.runners.run_log import machinery_into, new_log_file
from beam_joins.pipelines.runners.run_options import WorkerOptions
from beam_joins.pipelines.runners.runner import ENGINE
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.workers import WorkerPool
from beam_joins.transforms.connect.runs import ONE_MACHINE, READ_ONCE

_DIRECT: Final = (None, "DirectRunner", "FnApiRunner", ENGINE)
_POOLED: Final = "pooled"
"""A mode of the direct runner beside its own, in which it starts workers by itself."""
_LOOK_SECONDS: Final = 0.5


class ProcessesRunner(FnApiRunner):
    """The direct runner whose stages run in the workers of the pool that ``--environment_config`` names."""

    def run_pipeline(self, pipeline: Any, options: PipelineOptions) -> Any:
        """Run the pipeline in these."""
        pooled = Pooled(options.view_as(PortableOptions).environment_config)
        return FnApiRunner(default_environment=pooled).run_pipeline(pipeline, options)


def is_direct(options: PipelineOptions) -> bool:
    """Whether the options mean the direct runner, with bounded input and without workers of its own."""
    direct, standard = options.view_as(DirectOptions), options.view_as(StandardOptions)
    is_plain = direct.direct_running_mode == "in_memory" and direct.direct_num_workers == 1
    return standard.runner in _DIRECT and not standard.streaming and is_plain


class LocalRunner(FnApiRunner):
    """Runs a bounded pipeline on all cores of this machine: Beam's direct runner with a worker process for each core.

        with beam.Pipeline("beam_joins.LocalRunner") as pipeline:
            ...

    On a command line it is ``--runner=beam_joins.LocalRunner``. ``--python_workers`` is another number of processes; with one the
    pipeline runs in this process, as on the direct runner. Results are the same with any number. Each takes the memory of one turn
    (``--beam_joins_memory``). It reads bounded input.

    Raises JobFailed, whose message is for a terminal, when a function of the pipeline raises or a worker ends, and
    RunnerSetupError for a number of workers that is none.
    """

    def run_pipeline(self, pipeline: Any, options: PipelineOptions) -> Any:
        """Run the pipeline to its end."""
        options = copy.deepcopy(options)
        options.view_as(StandardOptions).runner = ENGINE
        with direct_runner(options) as ready:
            return create_runner(ready.view_as(StandardOptions).runner).run_pipeline(pipeline, ready)


@contextmanager
def direct_runner(options: PipelineOptions) -> Iterator[PipelineOptions]:
    """Starts worker processes, yields the options that use them, and ends them.

    There are ``--python_workers`` of them, by default one for each core that the process may use. Each takes the
    memory of one turn (``--beam_joins_memory``). Options that name another runner, one worker, ``--streaming`` or
    a ``--direct_running_mode`` are yielded unchanged. The options passed in are never changed.

    Raises JobFailed, whose message is for a terminal, when a function of the pipeline raises or a worker ends.

    >>> with direct_runner(PipelineOptions(["--runner=SparkRunner"])) as options:
    ...     options.get_all_options()["runner"]
    'SparkRunner'
    """
    workers = _workers(options)
    if workers == 1 or not is_direct(options):
        yield options
        return
    options, log, is_kept = copy.deepcopy(options), new_log_file("direct"), False
    values = options.get_all_options(drop_default=True, retain_unknown_options=True)
    with interruptible(), no_proxy_here(), ExitStack() as stack:
        stack.callback(lambda: None if is_kept else log.unlink(missing_ok=True))
        pool = stack.enter_context(WorkerPool(values, log=log))
        stack.enter_context(machinery_into(log))
        for experiment in (ONE_MACHINE, READ_ONCE):
            options.view_as(DebugOptions).add_experiment(experiment)
        options.view_as(StandardOptions).runner = f"{__name__}.{ProcessesRunner.__name__}"
        address = options.view_as(PortableOptions).environment_config = pool.serve()
        options.view_as(DirectOptions).direct_num_workers = workers
        options.view_as(DirectOptions).direct_running_mode = _POOLED
        watch = stack.enter_context(_Watch(pool, address, log))
        try:
            yield options
        except RuntimeError as error:
            failure = watch.failure or user_failure(str(error), log)
            is_kept = failure is not None
            raise failure or error from None


def _workers(options: PipelineOptions) -> int:
    asked: int | None = options.view_as(WorkerOptions).python_workers
    if asked is not None and asked < 1:
        raise RunnerSetupError(f"--python_workers={asked} is not a number of processes, which is 1 or more.")
    return asked or usable_cores()


class _Watch:
    """Ends a run one of whose workers has ended in its middle."""

    def __init__(self, pool: WorkerPool, address: str, log: Path) -> None:
        self.failure: JobFailed | None = None
        self._pool, self._address, self._log = pool, address, log
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="direct-workers", daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()
        Handler.of_pools.pop(self._address, None)

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            if self._pool.has_lost_one():
                sentence = "a Python worker process ended in the middle of the job, out of memory or by a crash in a library."
                self.failure = JobFailed(f"{sentence} The log is {self._log}.", log=self._log, user=False)
                for handler in Handler.of_pools[self._address]:
                    handler.fail(sentence)
