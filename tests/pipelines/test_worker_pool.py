"""The service that forks Python workers for Spark and Flink: its address, and what its workers keep."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.worker import sdk_worker

from beam_joins.pipelines.runners.keeper import end_idle_processors, remove_orphan
from beam_joins.pipelines.runners.runner import PID_FILE
from beam_joins.pipelines.runners.workers import WorkerPool


@pytest.mark.process
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.sweep), True], ids=["alone", "by SO_REUSEPORT"])
def test_no_other_server_can_answer_at_the_address_of_a_pool(family, shared):
    with WorkerPool({}, log=Path("/dev/null")) as pool:
        host, _, port = pool.serve().rpartition(":")
        if family == socket.AF_INET6:
            host = f"::ffff:{host}"  # as gRPC of Python binds it
        with socket.socket(family) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
            with pytest.raises(OSError, match="in use"):
                other.bind((host, int(port)))
                other.listen()


class Executor(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """The side of a runner that workers connect to, and that asks a pool for them."""

    def __init__(self, stack: ExitStack, pool: str) -> None:
        self.connected, self.ended = threading.Event(), threading.Event()
        server = grpc.server(ThreadPoolExecutor(2))
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        stack.callback(server.stop, None)
        # channels of one process to one address would be one connection
        channel = stack.enter_context(grpc.insecure_channel(pool, [("grpc.use_local_subchannel_pool", 1)]))
        self.pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)

    def Control(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
        context.add_callback(self.ended.set)
        self.connected.set()
        self.ended.wait()
        yield from ()

    def start(self, worker_id: str) -> None:
        endpoint = endpoints_pb2.ApiServiceDescriptor(url=self.address)
        self.pool.StartWorker(beam_fn_api_pb2.StartWorkerRequest(worker_id=worker_id, control_endpoint=endpoint))

    def stop(self, worker_id: str) -> None:
        self.pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker_id))


@pytest.mark.process
def test_executors_that_give_their_workers_the_same_numbers_stop_their_own():
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool({}, log=Path("/dev/null")))
        first, second = (Executor(stack, address) for address in [pool.serve()] * 2)
        for executor in (first, second):
            executor.start("1-1")
            assert executor.connected.wait(60)
        first.stop("1-1")
        assert first.ended.wait(60)
        assert not second.ended.is_set()


@pytest.mark.process
def test_a_worker_that_was_killed_counts_as_lost_until_it_is_stopped_and_stays_no_zombie():
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool({}, log=Path("/dev/null")))
        executor = Executor(stack, pool.serve())
        executor.start("1-1")
        assert executor.connected.wait(60)
        assert not pool.has_lost_one()
        keeper = psutil.Process(pool._keeper)
        (killed,) = keeper.children()
        killed.kill()
        assert executor.ended.wait(60)
        executor.start("1-2")
        assert killed not in keeper.children()
        assert pool.has_lost_one()
        executor.stop("1-1")
        assert not pool.has_lost_one()


COMMAND = [sys.executable, "-m", "beam_joins.pipelines.runners.workers"]


@pytest.mark.process
def test_the_pool_of_a_machine_starts_workers_until_it_is_terminated_and_ends_them_then():
    with ExitStack() as stack, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        refused = subprocess.run([*COMMAND, f"--service_port={port}"], capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stderr.splitlines()[-1]) == (
            1,
            f"cannot listen on 127.0.0.1:{port}: name another --service_port",
        )
        bound.close()
        pool = stack.enter_context(subprocess.Popen([*COMMAND, f"--service_port={port}"], stderr=subprocess.PIPE, text=True))
        stack.callback(pool.kill)
        assert pool.stderr
        assert pool.stderr.readline() == f"workers start at 127.0.0.1:{port}\n"
        executor = Executor(stack, f"127.0.0.1:{port}")
        executor.start("1-1")
        assert executor.connected.wait(60)
        pool.terminate()
        assert executor.ended.wait(60)
        assert pool.wait() == 0


class Processor:
    """What Beam's worker calls of a bundle processor when a bundle is over and when it is not needed any
    more.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()

    def reset(self) -> None:
        """Nothing to forget."""

    def shutdown(self) -> None:
        self.ended.set()


def test_a_worker_ends_what_it_has_made_of_a_stage_when_that_has_been_idle(monkeypatch):
    name = "DEFAULT_BUNDLE_PROCESSOR_CACHE_SHUTDOWN_THRESHOLD_S"
    monkeypatch.setattr(sdk_worker, name, getattr(sdk_worker, name))
    end_idle_processors(1)
    cache = sdk_worker.BundleProcessorCache(frozenset(), None, None, {})
    try:
        idle, busy = Processor(), Processor()
        cache.active_bundle_processors |= {"bundle 1": ("stage 1", idle), "bundle 2": ("stage 2", busy)}
        cache.release("bundle 1")
        assert idle.ended.wait(30)
        assert not cache.cached_bundle_processors["stage 1"]
        assert not busy.ended.is_set()
    finally:
        cache.release("bundle 2")
        cache.shutdown()


@pytest.mark.process
@pytest.mark.parametrize(
    ("lasts", "patience", "ended"), [("0.3", 60.0, 0), ("600", 0.0, -signal.SIGKILL)], ids=["it ends by itself", "it does not end"]
)
def test_a_directory_is_removed_when_the_process_that_works_in_it_has_ended(tmp_path, lasts, patience, ended):
    directory = tmp_path / "beam-spark"
    directory.mkdir()
    with subprocess.Popen(["sleep", lasts], cwd=directory) as process:
        (directory / PID_FILE).write_text(str(process.pid))
        waiting = threading.Thread(target=remove_orphan, args=(directory,), kwargs={"patience": patience})
        waiting.start()
        assert process.wait() == ended
        waiting.join()
    assert not directory.exists()


@pytest.mark.parametrize("written", [None, "", "nonsense", "1"])
def test_a_directory_that_names_no_process_that_works_in_it_is_removed_at_once(tmp_path, written):
    directory = tmp_path / "beam-spark"
    directory.mkdir()
    if written is not None:
        (directory / PID_FILE).write_text(written)
    remove_orphan(directory)
    assert not directory.exists()
