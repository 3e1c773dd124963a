"""LocalRunner: runs a bounded pipeline on the cores of this machine."""

import copy
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import Pipe
from typing import Any, Final

from apache_beam.metrics.metric import MetricResults
from apache_beam.metrics.monitoring_infos import consolidate
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, TypeOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import metrics_pb2
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from beam_joins.cores import usable_cores
from beam_joins.pipelines.base.garbage_collection import uncollected
from beam_joins.pipelines.runners.job_failure import JobFailed, user_failure
from beam_joins.pipelines.runners.local.bundles import Bundles, failure_text
from beam_joins.pipelines.runners.local.graph_building import NotEvaluated, graph_of
from beam_joins.pipelines.runners.local.pipeline_graph import pickled, unpickled
from beam_joins.pipelines.runners.local.shuffle import RootTurns
from beam_joins.pipelines.runners.local.worker_processes import Metrics, WorkerProcesses
from beam_joins.pipelines.runners.portable_run import interruptible
from beam_joins.pipelines.runners.run_log import new_log_file
from beam_joins.pipelines.runners.run_options import WorkerOptions
from beam_joins.pipelines.runners.runner import LOCAL
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.transforms.connect.runs import keep_views

_log: Final = logging.getLogger("beam_joins")
_started: Final = ContextVar[WorkerProcesses | None]("started", default=None)
"""The processes that wait for a pipeline."""
_ALONE_SECONDS: Final = {True: 0.3, False: 2.0}
"""The time for which this process works alone, by whether the others are its forks: most runs that go on end within it."""
_LOOK_SECONDS: Final = 0.05


class LocalRunner(PipelineRunner):
    """Runs a bounded pipeline on all cores of this machine, in a worker process for each core.

        with beam.Pipeline("beam_joins.LocalRunner") as pipeline:
            ...

    On a command line it is ``--runner=beam_joins.LocalRunner``. A pipeline begins in this process, and the others take over when it
    has not ended in a moment. ``--python_workers`` is another number of processes, which work from the beginning; with one the
    pipeline runs in this process. Results are the same with any number. Each takes the memory of one turn
    (``--beam_joins_memory``).

    Elements go from function to function, and are encoded only where Beam groups them. A pipeline with state or timers of its own,
    or with groups in windows, is run by Beam's direct runner, in this process; a message of the logger ``beam_joins`` says which
    transform is why.

    Raises JobFailed, whose message is for a terminal, when a function of the pipeline raises or a worker ends, and
    RunnerSetupError for a number of workers that is none.
    """

    def is_fnapi_compatible(self) -> bool:
        """Whether Beam hands a pipeline over as it is."""
        return True

    def apply(self, transform: Any, input: Any, options: PipelineOptions) -> Any:
        """Apply a transform, as Beam does it."""
        keep_views(options)
        return super().apply(transform, input, options)

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> Any:
        """Run the pipeline to its end."""
        count = worker_count(options)
        pipeline.visit(group_by_key_input_visitor(not options.view_as(TypeOptions).allow_non_deterministic_key_coders))
        try:
            _require_plain(options)
            graph = graph_of(pipeline)
        except NotEvaluated as reason:
            return _run_by_beam(pipeline, options, str(reason))
        RuntimeValueProvider.set_runtime_options({})
        functions, turns = pickled(graph), RootTurns(graph, count)
        with uncollected():
            if count == 1:
                return LocalResult(evaluated_here(functions, turns))
            with _taken(options, count) as processes:
                if _asked_count(options) is None:
                    return LocalResult(_evaluated_until_taken_over(functions, turns, processes))
                return LocalResult(processes.evaluate(functions, turns))


def worker_count(options: PipelineOptions) -> int:
    """The number of processes that a pipeline with these options is run in. Raises RunnerSetupError."""
    asked = _asked_count(options)
    if asked is not None and asked < 1:
        raise RunnerSetupError(f"--python_workers={asked} is not a number of processes, which is 1 or more.")
    return asked or usable_cores()


@contextmanager
def local_processes(options: PipelineOptions) -> Iterator[PipelineOptions]:
    """Yields the options of a :class:`LocalRunner` that runs one pipeline, by forks of this process as it is now: while it has no
    other threads. Forks that wait already, as no pipeline has needed them, are kept.
    """
    options = copy.deepcopy(options)
    options.view_as(StandardOptions).runner = LOCAL
    if (count := worker_count(options)) == 1 or _started.get() is not None:
        yield options
        return
    log, is_kept = new_log_file("local"), False
    try:
        with interruptible(), WorkerProcesses(count, options, log) as processes:
            token = _started.set(processes)
            try:
                yield options
            finally:
                _started.reset(token)
    except JobFailed as failed:
        is_kept = failed.log == log
        raise
    finally:
        if not is_kept:
            log.unlink(missing_ok=True)


@contextmanager
def _taken(options: PipelineOptions, count: int) -> Iterator[WorkerProcesses]:
    """The processes that have been started for a pipeline, or new ones."""
    if (processes := _started.get()) is not None:
        _started.set(None)  # they evaluate one
        yield processes
        if not processes.have_worked:
            _started.set(processes)
        return
    with local_processes(options), _taken(options, count) as processes:
        yield processes


def evaluated_here(functions: bytes, turns: RootTurns, goes_on: Callable[[], bool] = lambda: True) -> Metrics:
    """Evaluate the turns of a graph in this process, so long as it ``goes_on``; gives the metrics of its functions.

    Raises JobFailed.
    """
    bundles = Bundles(unpickled(functions))
    try:
        while goes_on() and (task := turns.next_task(None)) is not None:
            root, elements = task
            bundles.begin(root, turns.sides(root))
            while elements is not None:
                bundles.process(elements)
                turns.keep(bundles.taken())
                task = turns.next_task(root) if goes_on() else None
                elements = None if task is None else task[1]
            bundles.end()
            turns.keep(bundles.taken())
            turns.left(root)
        bundles.close()
    except Exception as error:
        failure = user_failure(failure_text(error, bundles), None)
        assert failure is not None
        raise failure from error
    return [*bundles.metrics()]


def _evaluated_until_taken_over(functions: bytes, turns: RootTurns, processes: WorkerProcesses) -> Metrics:
    """Evaluate the turns of a graph in this process, until others take them over."""
    ended, taken_over = threading.Event(), threading.Event()
    here, mine = Pipe(duplex=False)

    def take_over() -> Metrics:
        if ended.wait(_ALONE_SECONDS[processes.are_forks]):
            return []
        while not processes.begin_within(_LOOK_SECONDS):
            if ended.is_set():
                return []
        taken_over.set()
        return processes.evaluate(functions, turns, beside=here)

    with ThreadPoolExecutor(1) as thread, here, mine:
        others = thread.submit(take_over)
        try:
            metrics = evaluated_here(functions, turns, lambda: not taken_over.is_set())
            ended.set()
            mine.close()
            return metrics + others.result()
        except BaseException:
            ended.set()
            processes.kill()
            raise


def _asked_count(options: PipelineOptions) -> int | None:
    asked: int | None = options.view_as(WorkerOptions).python_workers
    return asked


class LocalResult(PipelineResult):
    """The result of a pipeline that has run to its end."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(PipelineState.DONE)  # type: ignore[no-untyped-call]
        self._metrics = metrics

    def wait_until_finish(self, duration: Any = None) -> str:
        """The state in which it has ended."""
        state: str = self.state
        return state

    def metrics(self) -> MetricResults:
        """The metrics of its functions."""
        # the whole of Beam's direct runner, which a run does without
        from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics  # noqa: PLC0415

        infos = dict[str, list[Any]]()
        for label, info in self._metrics:
            infos.setdefault(label, []).append(metrics_pb2.MonitoringInfo.FromString(info))
        made: MetricResults = FnApiMetrics({label: [*consolidate(each)] for label, each in infos.items()})
        return made


def _require_plain(options: PipelineOptions) -> None:
    """Raise :class:`NotEvaluated` for options of Beam's direct runner."""
    direct, types = options.view_as(DirectOptions), options.view_as(TypeOptions)
    if direct.direct_runner_bundle_repeat or direct.direct_num_workers != 1 or direct.direct_running_mode != "in_memory":
        raise NotEvaluated("the options are of the direct runner")
    if types.performance_runtime_type_check:
        raise NotEvaluated("--performance_runtime_type_check is of Beam's runners")


def _run_by_beam(pipeline: Pipeline, options: PipelineOptions, reason: str) -> Any:
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # noqa: PLC0415

    _log.info("%s: Beam's direct runner runs the pipeline, in this process", reason)
    return FnApiRunner().run_pipeline(pipeline, options)
