"""A proxy for the network is not asked for this machine, and the environment is as it was afterwards."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import runner
from beam_joins.pipelines.runners.local_connections import no_proxy_here

NOBODY = "http://127.0.0.1:9"
DIRECT = "no_grpc_proxy"  # gRPC reads it in small letters only


@pytest.fixture
def behind_a_dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
        monkeypatch.setenv(name, NOBODY)
        monkeypatch.setenv(name.upper(), NOBODY)
    for name in ("no_proxy", DIRECT, "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Where a server of gRPC listens on this machine."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None)


def test_a_job_server_on_this_machine_is_reached_behind_a_dead_proxy(behind_a_dead_proxy, endpoint):
    options = PipelineOptions(["--runner=PortableRunner", f"--job_endpoint={endpoint}"])
    with runner(options) as same:
        assert same is options


@pytest.mark.parametrize(
    ("before", "within"),
    [
        ({}, "localhost,127.0.0.1,::1"),
        ({"no_proxy": "intern.test"}, "intern.test,localhost,127.0.0.1,::1"),
        ({"no_proxy": "intern.test", DIRECT: "other.test"}, "other.test,localhost,127.0.0.1,::1"),
    ],
)
def test_hosts_that_took_no_proxy_before_still_take_none_and_the_environment_is_restored(
    behind_a_dead_proxy, monkeypatch, before, within
):
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    environment = dict(os.environ)
    with pytest.raises(ValueError, match="of the job"), no_proxy_here():
        assert os.environ[DIRECT] == within
        raise ValueError("of the job")
    assert dict(os.environ) == environment
