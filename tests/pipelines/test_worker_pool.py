"""The service that forks Python workers for Spark and Flink: its address."""

import socket
from pathlib import Path

import pytest

from beam_joins.pipelines.launcher.workers import WorkerPool


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "by SO_REUSEPORT"])
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
