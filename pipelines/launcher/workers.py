"""Python worker processes for a portable runner, forked warm from one process that has imported everything already.

Beam's own worker pool starts each worker as a new interpreter, which imports Beam for seconds. Here a keeper process,
single-threaded and free of gRPC, forks a worker per request. The keeper is itself a fork of the job's process, with all
its modules, as long as gRPC has not been used there (gRPC does not survive a fork); else it is a fresh interpreter.
"""

import ctypes
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, SetupOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker import sdk_worker, sdk_worker_main

_GRACE_SECONDS = 5.0
_START_SECONDS = 120.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_PR_SET_PDEATHSIG = 1


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Beam's external worker pool service on this machine, for `--environment_type=EXTERNAL`.

    Create it before anything else uses gRPC, so that its workers start warm; `serve` then returns the address for
    `--environment_config`. What workers write to stderr goes to `log`; their stdout is the job's. When the job's
    process ends in whatever way, the keeper sees its pipe close and ends the workers.

    >>> with WorkerPool({}, log=Path(os.devnull)) as pool:
    ...     pool.serve().startswith("localhost:")
    True
    """

    def __init__(self, options: Mapping[str, Any], *, log: Path, orphan: Path | None = None) -> None:
        """Start the keeper.

        `options` are the pipeline's, as `PipelineOptions.get_all_options()` gives them. `orphan` is a directory that
        the keeper removes when the job's process has vanished without a word.
        """
        method = "fork" if fork_is_safe() else "spawn"
        context = multiprocessing.get_context(method)
        self._pipe, theirs = context.Pipe()
        inherited = self._pipe if method == "fork" else None
        self._keeper = context.Process(  # type: ignore[attr-defined]
            target=_keep, args=(theirs, inherited, dict(options), log, orphan), name="beam-worker-keeper", daemon=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._keeper.start()
        theirs.close()
        self._one_at_a_time = threading.Lock()
        self._server: grpc.Server | None = None

    def serve(self) -> str:
        """Start the service on a free port and return its address, `localhost:port`."""
        self._server = grpc.server(ThreadPoolExecutor(thread_name_prefix="worker-pool"))
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("localhost:0")
        self._server.start()
        return f"localhost:{port}"

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Fork a worker that connects to the control endpoint of the request."""
        error = self._ask("start", request.worker_id, request.control_endpoint.url)
        return beam_fn_api_pb2.StartWorkerResponse(error=error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        """End a worker: it may finish by itself, as its control stream is closed; later it is told to."""
        return beam_fn_api_pb2.StopWorkerResponse(error=self._ask("stop", request.worker_id, ""))

    def _ask(self, verb: str, worker_id: str, control: str) -> str:
        with self._one_at_a_time:
            try:
                self._pipe.send((verb, worker_id, control))
                if not self._pipe.poll(_START_SECONDS):
                    return f"the worker keeper did not answer within {_START_SECONDS:.0f} s"
                return str(self._pipe.recv())
            except (OSError, EOFError):
                return "the worker keeper has ended"

    def close(self) -> None:
        """End the service, the workers and the keeper; calling it again does nothing."""
        if self._server is not None:
            self._server.stop(None)
        if not self._pipe.closed:
            self._ask("end", "", "")
            self._pipe.close()
        self._keeper.join(2 * _GRACE_SECONDS)
        if self._keeper.is_alive():
            self._keeper.kill()
            self._keeper.join()

    def __enter__(self) -> "WorkerPool":
        """Return the pool."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Close the pool."""
        self.close()


def fork_is_safe() -> bool:
    """Whether this process may be forked: on Linux, no other Python thread, and no thread of gRPC's."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    names = set()
    for task in os.listdir("/proc/self/task"):
        try:
            names.add(Path("/proc/self/task", task, "comm").read_text("utf-8").strip())
        except OSError:
            continue
    return not any(name.startswith(("grpc", "event_engine", "lifeguard")) for name in names)


def _keep(pipe: Connection, inherited: Connection | None, options: dict[str, Any], log: Path, orphan: Path | None) -> None:
    if inherited is not None:
        inherited.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _stderr_into(log)
    _keep_memory()
    workers: dict[str, int] = {}
    while True:
        try:
            verb, worker_id, control = pipe.recv()
        except (EOFError, OSError):
            break
        answer = ""
        if verb == "start":
            answer = _fork(workers, worker_id, control, options)
        elif verb == "stop":
            _end([workers.pop(worker_id)] if worker_id in workers else [], _GRACE_SECONDS)
        else:
            orphan = None
            _end(list(workers.values()), 0)
            workers.clear()
        pipe.send(answer)
    _end(list(workers.values()), 0)
    if orphan is not None:
        time.sleep(_GRACE_SECONDS)  # the JVM is ending, too
        shutil.rmtree(orphan, ignore_errors=True)


def _keep_memory() -> None:
    """Have the workers use memory again that they have freed, instead of giving it back for every array and asking anew.

    Measured in a join on columns: half of the workers' time in the kernel was for new pages.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for option, value in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 64 << 20), (_M_ARENA_MAX, 1)):
            if hasattr(libc, "mallopt"):
                libc.mallopt(option, value)
        pa.set_memory_pool(pa.system_memory_pool())


def _fork(workers: dict[str, int], worker_id: str, control: str, options: dict[str, Any]) -> str:
    sys.stdout.flush()
    keeper = os.getpid()
    try:
        workers[worker_id] = os.fork()
    except OSError as error:
        return f"no more worker processes: {error}"
    if workers[worker_id] == 0:
        _work(worker_id, control, options, keeper)
    return ""


def _work(worker_id: str, control: str, options: dict[str, Any], keeper: int) -> None:
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        _harness(worker_id, control, options).run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _harness(worker_id: str, control: str, values: dict[str, Any]) -> sdk_worker.SdkHarness:
    # The same steps as Beam's sdk_worker_main takes in a worker of its own.
    RuntimeValueProvider.set_runtime_options(values)
    options = PipelineOptions.from_dictionary(values)
    FileSystems.set_options(options)
    pickler.set_library(options.view_as(SetupOptions).pickle_library)
    experiments = options.view_as(DebugOptions).experiments or []
    return sdk_worker.SdkHarness(
        control,
        worker_id=worker_id,
        state_cache_size=sdk_worker_main._get_state_cache_size_bytes(options),
        data_buffer_time_limit_ms=sdk_worker_main._get_data_buffer_time_limit_ms(experiments),
    )


def _end(pids: list[int], grace: float) -> None:
    for number, seconds in ((0, grace), (signal.SIGTERM, 2.0), (signal.SIGKILL, 60.0)):
        for pid in pids if number else ():
            os.kill(pid, number)
        until = time.monotonic() + seconds
        while pids and time.monotonic() < until:
            pids = [pid for pid in pids if os.waitpid(pid, os.WNOHANG) == (0, 0)]
            time.sleep(0.01)
        if not pids:
            return


def _stderr_into(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(file, 2)
    os.close(file)
    for handler in logging.getLogger().handlers:
        handler.flush()
