"""Make `--runner=SparkRunner` work for any Beam job, with Spark from PySpark and nothing to install but with pip.

    from beam_joins.pipelines.spark import spark_runner

    with spark_runner(PipelineOptions()) as options:
        with beam.Pipeline(options=options) as p:
            ...

With `--spark_master_url=local[*]` all runs on this machine. With `spark://HOST:PORT` the driver runs here and the
executors on the cluster; they are sent all jars, and need worker pools with the same Python packages, see README.
"""

import copy
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import grpc
from apache_beam.options.pipeline_options import (
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    StandardOptions,
)
from apache_beam.utils.subprocess_server import JavaJarServer

from beam_joins.pipelines.launcher.class_archive import ClassArchive
from beam_joins.pipelines.launcher.docker import check_docker
from beam_joins.pipelines.launcher.jars import is_writable, locked_jars, provide
from beam_joins.pipelines.launcher.java import java_launcher
from beam_joins.pipelines.launcher.job_endpoint import check_job_endpoint
from beam_joins.pipelines.launcher.job_failure import SparkJobFailed, job_failure
from beam_joins.pipelines.launcher.job_server import JobServer
from beam_joins.pipelines.launcher.local_connections import no_proxy_here
from beam_joins.pipelines.launcher.master import Master
from beam_joins.pipelines.launcher.pathing_jar import pathing_jar, spark_jars
from beam_joins.pipelines.launcher.setup_error import RunnerSetupError, SparkSetupError
from beam_joins.pipelines.launcher.spark_log import machinery_into, new_log_file, tell
from beam_joins.pipelines.launcher.spark_options import (
    SparkOptions,
    heap,
    master_url,
    maven_repository,
    needs_pool,
    python_workers,
    spark_conf,
)
from beam_joins.pipelines.launcher.staging import staged_in
from beam_joins.pipelines.launcher.workers import WorkerPool

__all__ = ["RunnerSetupError", "SparkJobFailed", "SparkOptions", "SparkSetupError", "spark_runner"]

_ENVIRONMENT_CACHE_MS = 60_000
_ARCHIVE_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0

# Measured: the second compiler and G1 cost more processor time than they save, even in a job of minutes.
_JVM = ("-XX:+UseParallelGC", "-Xmn256m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dspark.ui.enabled=false")
_JVM_LOCAL = ("-Dspark.driver.host=127.0.0.1", "-Dspark.driver.bindAddress=127.0.0.1")


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
    name = (options.view_as(StandardOptions).runner or "").rsplit(".", 1)[-1].lower()
    elsewhere = options.view_as(PortableOptions).job_endpoint or spark.spark_job_server_jar or spark.spark_submit_uber_jar
    return name in ("sparkrunner", "spark") and not elsewhere  # Beam takes both


class _Run:
    """One stay in the context: the pieces that run, on a stack that ends them in reverse order."""

    def __init__(self, options: PipelineOptions, stack: ExitStack) -> None:
        self.options = options
        self.succeeded = False
        ours, portable = options.view_as(SparkOptions), options.view_as(PortableOptions)
        memory, conf = heap(ours.driver_memory), spark_conf(ours.spark_conf or [])
        self._master = Master.parse(master_url(options))
        workers = python_workers(ours.python_workers, portable, self._master)
        self._log = _log_file(ours.spark_log)
        if not ours.spark_log:
            stack.callback(self._forget_log)

        scratch = Path(tempfile.mkdtemp(prefix="beam-spark-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        stack.enter_context(staged_in(scratch, options))

        # The workers' process is forked first of all, as threads and gRPC do not survive a fork.
        pool = None
        if needs_pool(portable, self._master):
            values = options.get_all_options(drop_default=True, retain_unknown_options=True)
            pool = stack.enter_context(WorkerPool(values, log=self._log, orphan=scratch))
        self._master.check()
        if portable.environment_type == "DOCKER" and self._master.cores is not None:
            check_docker()

        stack.enter_context(machinery_into(self._log))
        self._server = self._start_server([*memory, *conf], scratch, stack)
        tell(f"Spark's log: {self._log}" + ("" if ours.spark_log else " (kept if the job fails, or with --spark_log)"))
        if pool is not None:
            portable.environment_type, portable.environment_config = "EXTERNAL", pool.serve()
            stack.callback(pool.close)  # before the server ends: workers would complain of the lost connection
        portable.environment_cache_millis = int(portable.environment_cache_millis) or _ENVIRONMENT_CACHE_MS
        portable.sdk_worker_parallelism = workers
        portable.job_endpoint = self._server.wait()
        options.view_as(SparkRunnerOptions).spark_master_url = self._master.url

    def _start_server(self, jvm: list[str], scratch: Path, stack: ExitStack) -> JobServer:
        given = self.options.view_as(JobServerOptions)
        java = java_launcher(given.job_server_java_launcher)
        cache = Path(given.jar_cache_dir or JavaJarServer.JAR_CACHE)
        beam, spark = provide(locked_jars(), cache=cache, repository=maven_repository(self.options)), spark_jars()
        local = self._master.cores is not None
        kept = cache / "spark"
        if not is_writable(kept):
            kept = scratch
        jar = pathing_jar(beam, spark, kept)
        self._archive = ClassArchive(java, [jar, *beam, *spark], kept) if kept != scratch else None
        options = [*_JVM, *(_JVM_LOCAL if local else ()), *(self._archive.use() if self._archive else ())]
        options += [*jvm, *(given.job_server_jvm_properties or ())]
        server = JobServer(java=java, jar=jar, master=self._master.url, scratch=scratch, log=self._log, jvm=options)
        stack.callback(self._end)
        return server

    def _end(self) -> None:
        archive = self._archive if self._archive and self._archive.missing else None
        if archive and self.succeeded:
            tell("Keeping Spark's classes for faster starts, once ...")
        self._server.close(_ARCHIVE_SECONDS if archive and self.succeeded else _PATIENCE_SECONDS)
        if archive:
            archive.keep() if self.succeeded else archive.discard()

    def _forget_log(self) -> None:
        # an empty one is of a run that was refused before anything started
        if self.succeeded or not self._log.stat().st_size:
            self._log.unlink(missing_ok=True)

    def explain(self, error: Exception) -> SparkJobFailed | None:
        """The failure that a RuntimeError or a broken connection means, or None when it is not of the job."""
        reported = isinstance(error, RuntimeError) and " failed in state " in str(error)
        code = self._server.exit_code
        if code is not None and (reported or isinstance(error, grpc.RpcError)):
            text = f"Spark's JVM ended in the middle of the job (exit code {code}); the log is {self._log}."
            return SparkJobFailed(text, log=self._log, user=False)
        return job_failure(str(error), self._log) if reported else None


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
