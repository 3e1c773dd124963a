"""The service that forks Python workers for Spark and Flink: its address, and what its workers keep."""

import socket
import threading
from pathlib import Path

import pytest
from apache_beam.runners.worker import sdk_worker

from beam_joins.pipelines.runners.keeper import end_idle_processors
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
