"""Python workers for a portable runner, forked from one process that has imported everything.

Beam's own worker pool starts each worker as a new interpreter, which imports Beam for seconds. Here a keeper
process, single-threaded and free of gRPC, forks a worker per request. The keeper is itself a fork of the
job's process, with all its modules, as long as gRPC has not been used there (gRPC does not survive a fork);
else it is a fresh interpreter.

A machine of a cluster has a pool for the jobs of all clients::

    python -m beam_joins.pipelines.runners.workers --service_port=50000
"""

import argparse
import importlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from apache_beam.internal import cloudpickle_pickler
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from beam_joins.pipelines.runners.child_processes import GRACE_SECONDS, classes_of_main, end, fork_is_safe
from beam_joins.pipelines.runners.keeper import FRESH, keep

_START_SECONDS = 120.0
_IDLE_SECONDS = 5
"""The seconds for which the workers of a cluster's pool keep stages that are idle, each with some megabytes."""


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Beam's external worker pool service on this machine, for `--environment_type=EXTERNAL`. Workers are known by the
    connection that has asked for them too: executors of one machine count theirs alike.

    Create it before anything else uses gRPC, so that its workers start warm; `serve` then returns the address
    for `--environment_config`. What workers write to stderr goes to `log`, if it is given; their stdout is the job's. When
    the job's process ends in whatever way, the keeper sees its pipe close and ends the workers.
    """

    def __init__(
        self, options: Mapping[str, Any], *, log: Path | None, orphan: Path | None = None, idle_seconds: int | None = None
    ) -> None:
        """Start the keeper.

        `options` are the pipeline's, as `PipelineOptions.get_all_options()` gives them. `orphan` is a
        directory that the keeper removes when the job's process has vanished without a word. `idle_seconds`
        is that of the `Runner`.
        """
        self._pipe, theirs = multiprocessing.Pipe()
        values, classes = dict(options), classes_of_main()  # before a fork: both sides know them by the names that pickling gives them
        if fork_is_safe():
            sys.stdout.flush()
            sys.stderr.flush()
            self._keeper = os.fork()
            if self._keeper == 0:
                try:
                    keep(theirs, self._pipe, values, log, orphan, idle_seconds)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)
        else:
            # not by multiprocessing, which would run the main script of the job once more
            os.set_inheritable(theirs.fileno(), True)
            command = [sys.executable, "-c", FRESH, str(theirs.fileno()), json.dumps([str(place) for place in sys.path])]
            self._keeper = os.posix_spawn(sys.executable, command, os.environ)
            self._pipe.send_bytes(cloudpickle_pickler.dumps((values, log, orphan, idle_seconds, classes)))
        theirs.close()
        self._one_at_a_time = threading.Lock()
        self._server: grpc.Server | None = None

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Start the service, on a free port unless one is given, and return its address, `127.0.0.1:port`.

        Raises `RuntimeError` if the port is taken.
        """
        # "localhost" may come to be served on ::1 alone, while another server answers on 127.0.0.1; and by
        # default gRPC shares ports
        alone = [("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(thread_name_prefix="worker-pool"), options=alone)
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(f"{host}:{port}")
        self._server.start()
        return f"{host}:{port}"

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Fork a worker that connects to the control endpoint of the request."""
        error = self._ask("start", request.worker_id, context.peer(), request.control_endpoint.url)
        return beam_fn_api_pb2.StartWorkerResponse(error=error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Ends a worker: it may finish by itself, as its control stream is closed; later it is terminated."""
        return beam_fn_api_pb2.StopWorkerResponse(error=self._ask("stop", request.worker_id, context.peer()))

    def _ask(self, verb: str, worker_id: str = "", asking: str = "", control: str = "") -> str:
        with self._one_at_a_time:
            try:
                self._pipe.send((verb, worker_id, asking, control))
                if not self._pipe.poll(_START_SECONDS):
                    return f"the worker keeper did not answer within {_START_SECONDS:.0f} s"
                return str(self._pipe.recv())
            except (OSError, EOFError):
                return "the worker keeper has ended"

    def has_lost_one(self) -> bool:
        """Whether a worker has ended otherwise than by itself."""
        return bool(self._ask("lost"))

    def close(self) -> None:
        """End the service, the workers and the keeper; calling it again does nothing."""
        if self._server is not None:
            self._server.stop(None)
        if not self._pipe.closed:
            self._ask("end")
            self._pipe.close()
            end([self._keeper], 2 * GRACE_SECONDS)

    def __enter__(self) -> "WorkerPool":
        """Return the pool."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Close the pool."""
        self.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a pool until it is interrupted or terminated."""
    parser = argparse.ArgumentParser(prog="python -m beam_joins.pipelines.runners.workers", description="A pool of Python workers.")
    parser.add_argument("--service_port", type=int, required=True, metavar="PORT", help="the port to listen on")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1); whoever reaches it can run any code"
    )
    arguments = parser.parse_args(argv)
    for module in ("io", "transforms.connect.runs", "transforms.connect.tables"):  # which workers have from their beginning
        importlib.import_module(f"beam_joins.{module}")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with WorkerPool({}, log=None, idle_seconds=_IDLE_SECONDS) as pool:
        try:
            address = pool.serve(arguments.service_port, arguments.host)
        except RuntimeError:
            print(f"cannot listen on {arguments.host}:{arguments.service_port}: name another --service_port", file=sys.stderr)
            return 1
        print(f"workers start at {address}", file=sys.stderr, flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
