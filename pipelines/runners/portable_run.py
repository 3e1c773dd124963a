"""One run on a portable runner, from start to end: its job server, Python workers and log."""

import copy
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Protocol

import grpc
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions, StandardOptions

from beam_joins.pipelines.runners.job_failure import JobFailed, job_failure
from beam_joins.pipelines.runners.job_server import JobServer
from beam_joins.pipelines.runners.local_connections import no_proxy_here
from beam_joins.pipelines.runners.master import Master
from beam_joins.pipelines.runners.reachable import check_docker, check_job_endpoint
from beam_joins.pipelines.runners.run_log import machinery_into, new_log_file, tell
from beam_joins.pipelines.runners.run_options import needs_pool, python_workers
from beam_joins.pipelines.runners.runner import Runner, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.staging import staged_in
from beam_joins.pipelines.runners.warm_start import take
from beam_joins.pipelines.runners.workers import WorkerPool
from beam_joins.transforms.connect.runs import ONE_MACHINE

_BROKEN_SECONDS = 5.0


class Remains(Protocol):
    """The files that a runner keeps of a run that has failed."""

    @property
    def notice(self) -> str:
        """A line that says at the start of the run where it is kept, or nothing."""

    def how_to_go_on(self, message: str, log: bytes) -> str:
        """The advice on how to resume a job that failed with this message, for the end of the error's text; `log` is
        the log of the server.
        """

    def end(self, *, succeeded: bool) -> None:
        """Removes the files that need not be kept."""


class Launch(NamedTuple):
    """One of Beam's runners whose job server is started here.

    `beams` and `options` are the classes of its pipeline options, Beam's and ours. `server` gives the options of
    the job server, and changes the pipeline's to fit. `remains` is called with the options before `server`. `version` asks
    a master for its version, where it tells.
    """

    runner: Runner
    beams: type[PipelineOptions]
    options: type[PipelineOptions]
    server: Callable[[PipelineOptions], ServerOptions]
    remains: Callable[[PipelineOptions], Remains] | None = None
    version: Callable[[Master], str] | None = None

    def is_meant(self, options: PipelineOptions) -> bool:
        """Whether the options ask for this runner and name no job server."""
        beams, slug = options.view_as(self.beams), self.runner.slug
        jars = (getattr(beams, f"{slug}_job_server_jar"), getattr(beams, f"{slug}_submit_uber_jar"))
        elsewhere = options.view_as(PortableOptions).job_endpoint or any(jars)
        return self.runner.is_named(options.view_as(StandardOptions).runner) and not elsewhere

    def check(self, master: Master) -> None:
        """Raise RunnerSetupError when a cluster does not answer, or says that it is of a version that Beam's runner is not
        built for.
        """
        name, option, wanted = self.runner.name, self.runner.master_option, self.runner.version
        master.check(name, option)
        version = self.version(master) if self.version and master.cores is None else ""
        if version and not version.startswith(f"{wanted}."):
            raise RunnerSetupError(
                f"{option}={master.host}:{master.port} is a cluster of {name} {version}, and Beam's runner is built for {wanted}."
            )


@contextmanager
def launched(options: PipelineOptions, *launches: Launch) -> Iterator[PipelineOptions]:
    """Starts the first of the launches that the options ask for, yields the options that use it, and ends all
    of it.

    Options that none of them is meant by are yielded unchanged, once their `--job_endpoint` answers.
    """
    launch = next((launch for launch in launches if launch.is_meant(options)), None)
    if launch is None:
        with no_proxy_here():
            check_job_endpoint(options)
            yield options
        return
    with interruptible(), no_proxy_here(), ExitStack() as stack:
        run = _Run(copy.deepcopy(options), launch, stack)
        try:
            yield run.options
        except (RuntimeError, grpc.RpcError) as error:
            failure = run.explain(error)
            if failure is None:
                raise
            raise failure from None
        run.succeeded = True


class _Run:
    """The resources of one run, on a stack that ends them in reverse order."""

    def __init__(self, options: PipelineOptions, launch: Launch, stack: ExitStack) -> None:
        self.options = options
        self.succeeded = False
        self._pool: WorkerPool | None = None
        portable = options.view_as(PortableOptions)
        self._remains = remains = launch.remains(options) if launch.remains else None
        if remains:
            stack.callback(lambda: remains.end(succeeded=self.succeeded))
        wanted = launch.server(options)
        runner, master = wanted.runner, wanted.master
        workers = python_workers(options, runner, master)
        self._server = server = take(wanted) or JobServer(wanted, _log_file(wanted))
        if not wanted.log:
            stack.callback(self._forget_log)
        stack.callback(server.remove)
        stack.callback(self._end_server)
        stack.enter_context(staged_in(server.scratch, options))

        # The workers' process is forked first of all, as threads and gRPC do not survive a fork.
        if needs_pool(portable, runner, master):
            values = options.get_all_options(drop_default=True, retain_unknown_options=True)
            if master.cores is not None:
                options.view_as(DebugOptions).add_experiment(ONE_MACHINE)
            self._pool = stack.enter_context(
                WorkerPool(values, log=server.log, orphan=server.scratch, idle_seconds=runner.idle_seconds)
            )
        launch.check(master)
        if portable.environment_type == "DOCKER" and master.cores is not None:
            check_docker()

        stack.enter_context(machinery_into(server.log))
        stack.callback(self._end_server)  # what that makes Beam say goes into the log
        server.start()
        tell(f"{runner.name}'s log: {server.log}" + ("" if wanted.log else f" (kept if the job fails, or with {runner.log_option})"))
        if self._remains and self._remains.notice:
            tell(self._remains.notice)
        if self._pool is not None:
            portable.environment_type, portable.environment_config = "EXTERNAL", self._pool.serve()
            stack.callback(self._pool.close)  # before the server ends: workers would complain of the lost connection
        portable.sdk_worker_parallelism = workers
        portable.job_endpoint = server.wait()
        setattr(options.view_as(launch.options), runner.log_option.lstrip("-"), str(server.log))

    def _end_server(self) -> None:
        # its workers have ended already, and on this machine nobody else knows of it
        alone = self._pool is not None and self._server.options.master.cores is not None
        self._server.close(succeeded=self.succeeded, at_once=alone and self.succeeded)

    def _forget_log(self) -> None:
        # an empty one is of a run that was refused before anything started
        if self.succeeded or not self._server.log.stat().st_size:
            self._server.log.unlink(missing_ok=True)

    def explain(self, error: Exception) -> JobFailed | None:
        """The failure that a RuntimeError or a broken connection means, or None when it is not of the job."""
        reported = isinstance(error, RuntimeError) and " failed in state " in str(error)
        # a connection is broken before the process that has died is known to have ended
        code = self._server.exit_code if reported else self._server.exit_code_within(_BROKEN_SECONDS)
        log, runner = self._server.log, self._server.options.runner
        if code is not None and (reported or isinstance(error, grpc.RpcError)):
            text = f"{runner.name}'s JVM ended in the middle of the job (exit code {code}); the log is {log}."
            failure = JobFailed(text, log=log, user=False)
        elif reported:
            failure = job_failure(str(error), log, runner, self._server.log_text())
        else:
            return None
        if self._remains:
            advice = self._remains.how_to_go_on(str(error), self._server.log_text())
            failure.args = (f"{failure}{advice}",)
        return failure


def _log_file(options: ServerOptions) -> Path:
    if not options.log:
        return new_log_file(options.runner.slug)
    log = Path(options.log).absolute()
    try:
        log.open("ab").close()
    except OSError as error:
        raise RunnerSetupError(
            f"The log {log} cannot be written ({error.strerror}); name another with {options.runner.log_option}."
        ) from None
    return log


@contextmanager
def interruptible() -> Iterator[None]:
    """Ends the block by an exception on SIGTERM and SIGHUP, so that all that it has started is ended."""

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
