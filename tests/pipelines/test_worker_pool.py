"""The service that forks Python workers for Spark and Flink: its address, and what its workers keep."""

import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
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
