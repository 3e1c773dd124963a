"""Make `--runner=SparkRunner` work for any Beam job, with Spark from PySpark and nothing to install but with pip.

    from beam_joins.pipelines.spark import spark_runner

    with spark_runner(PipelineOptions()) as options:
        with beam.Pipeline(options=options) as p:
            ...

With `--spark_master_url=local[*]` all runs on this machine. With `spark://HOST:PORT` the driver runs here and the
executors on the cluster; they are sent all jars, and need worker pools with the same Python packages, see README.
"""

import copy
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, SparkRunnerOptions, StandardOptions

from beam_joins.pipelines.launcher.job_failure import SparkJobFailed, job_failure
from beam_joins.pipelines.launcher.job_server import JobServer
from beam_joins.pipelines.launcher.local_connections import no_proxy_here
from beam_joins.pipelines.launcher.reachable import check_docker, check_job_endpoint
from beam_joins.pipelines.launcher.setup_error import RunnerSetupError, SparkSetupError
from beam_joins.pipelines.launcher.spark_log import machinery_into, new_log_file, tell
from beam_joins.pipelines.launcher.spark_options import SparkOptions, needs_pool, python_workers, server_options
from beam_joins.pipelines.launcher.staging import staged_in
from beam_joins.pipelines.launcher.warm_start import is_spark, take
from beam_joins.pipelines.launcher.workers import WorkerPool

__all__ = ["RunnerSetupError", "SparkJobFailed", "SparkOptions", "SparkSetupError", "spark_runner"]

_ENVIRONMENT_CACHE_MS = 60_000


@contextmanager
def spark_runner(options: PipelineOptions) -> Iterator[PipelineOptions]:
    """Start what `--runner=SparkRunner` needs, yield the options that use it, and end all of it.

    Options that name another runner, or that bring a job server of their own (`--job_endpoint`,
    `--spark_job_server_jar`, `--spark_submit_uber_jar`), are yielded unchanged. The options passed in are never changed.
    Connections to this machine take no proxy. After success nothing stays in the directory for temporary files; after
    a failure Spark's log does.

    Raises SparkSetupError when Spark cannot start, RunnerSetupError when a job server of `--job_endpoint` does not
    answer within five seconds, and SparkJobFailed in place of Beam's RuntimeError when the job fails; all have messages
    for a terminal. Ctrl-C and SIGTERM end everything, too.

    >>> with spark_runner(PipelineOptions(["--runner=DirectRunner"])) as options:
    ...     options.view_as(StandardOptions).runner
    'DirectRunner'
    """
    if not _is_ours(options):
        with no_proxy_here():
            check_job_endpoint(options)
            yield options
        return
    with _interruptible(), no_proxy_here(), ExitStack() as stack:
        run = _Run(copy.deepcopy(options), stack)
        try:
            yield run.options
        except (RuntimeError, grpc.RpcError) as error:
            failure = run.explain(error)
            if failure is None:
                raise
            raise failure from None
        run.succeeded = True


def _is_ours(options: PipelineOptions) -> bool:
    spark = options.view_as(SparkRunnerOptions)
    elsewhere = options.view_as(PortableOptions).job_endpoint or spark.spark_job_server_jar or spark.spark_submit_uber_jar
    return is_spark(options.view_as(StandardOptions).runner) and not elsewhere


class _Run:
    """One stay in the context: the pieces that run, on a stack that ends them in reverse order."""

    def __init__(self, options: PipelineOptions, stack: ExitStack) -> None:
        self.options = options
        self.succeeded = False
        self._pool: WorkerPool | None = None
        asked, portable = options.view_as(SparkOptions), options.view_as(PortableOptions)
        wanted = server_options(options)
        master = wanted.master
        workers = python_workers(asked.python_workers, portable, master)
        self._server = server = take(wanted) or JobServer(wanted, _log_file(asked.spark_log))
        if not asked.spark_log:
            stack.callback(self._forget_log)
        stack.callback(server.remove)
        stack.callback(self._end_server)
        stack.enter_context(staged_in(server.scratch, options))

        # The workers' process is forked first of all, as threads and gRPC do not survive a fork.
        if needs_pool(portable, master):
            values = options.get_all_options(drop_default=True, retain_unknown_options=True)
            self._pool = stack.enter_context(WorkerPool(values, log=server.log, orphan=server.scratch))
        master.check()
        if portable.environment_type == "DOCKER" and master.cores is not None:
            check_docker()

        stack.enter_context(machinery_into(server.log))
        stack.callback(self._end_server)  # what that makes Beam say goes into the log
        server.start()
        tell(f"Spark's log: {server.log}" + ("" if asked.spark_log else " (kept if the job fails, or with --spark_log)"))
        if self._pool is not None:
            portable.environment_type, portable.environment_config = "EXTERNAL", self._pool.serve()
            stack.callback(self._pool.close)  # before the server ends: workers would complain of the lost connection
        portable.environment_cache_millis = int(portable.environment_cache_millis) or _ENVIRONMENT_CACHE_MS
        portable.sdk_worker_parallelism = workers
        portable.job_endpoint = server.wait()
        options.view_as(SparkRunnerOptions).spark_master_url = master.url

    def _end_server(self) -> None:
        # its workers have ended already, and on this machine nobody else knows of it
        alone = self._pool is not None and self._server.options.master.cores is not None
        self._server.close(succeeded=self.succeeded, at_once=alone and self.succeeded)

    def _forget_log(self) -> None:
        # an empty one is of a run that was refused before anything started
        if self.succeeded or not self._server.log.stat().st_size:
            self._server.log.unlink(missing_ok=True)

    def explain(self, error: Exception) -> SparkJobFailed | None:
        """The failure that a RuntimeError or a broken connection means, or None when it is not of the job."""
        reported = isinstance(error, RuntimeError) and " failed in state " in str(error)
        code = self._server.exit_code
        if code is not None and (reported or isinstance(error, grpc.RpcError)):
            text = f"Spark's JVM ended in the middle of the job (exit code {code}); the log is {self._server.log}."
            return SparkJobFailed(text, log=self._server.log, user=False)
        return job_failure(str(error), self._server.log) if reported else None


def _log_file(asked: str | None) -> Path:
    if not asked:
        return new_log_file()
    log = Path(asked).absolute()
    try:
        log.open("ab").close()
    except OSError as error:
        raise SparkSetupError(f"The log {log} cannot be written ({error.strerror}); name another with --spark_log.") from None
    return log


@contextmanager
def _interruptible() -> Iterator[None]:
    # SIGTERM and SIGHUP would end Python on the spot, and what it has started would live on.
    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    changed = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                changed[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)
