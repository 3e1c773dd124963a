"""Checks that services started by others, such as Docker and job servers, answer before a job is submitted."""

import shutil
import socket
import subprocess

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_joins.pipelines.runners.runner import START_POOL
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_DOCKER_SECONDS, _ENDPOINT_SECONDS = 20.0, 5.0
_LAST_PORT = 65_535


def check_docker() -> None:
    """Raise RunnerSetupError when docker is not installed or its daemon does not answer."""
    docker = shutil.which("docker")
    reason = "which is not installed" if docker is None else _dockers_complaint(docker)
    if reason:
        raise RunnerSetupError(
            f"--environment_type=DOCKER needs docker on this machine, {reason}; with --environment_type=LOOPBACK the "
            f"workers run in this process."
        )


def _dockers_complaint(docker: str) -> str:
    try:
        done = subprocess.run([docker, "version"], capture_output=True, text=True, timeout=_DOCKER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"which does not answer ({error})"
    lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
    return f"which says: {lines[-1].rstrip('. ')}" if done.returncode else ""


def check_job_endpoint(options: PipelineOptions) -> None:
    """Raise RunnerSetupError when `--job_endpoint` names a job server that does not answer.

    It is given five seconds, or what `--job_server_timeout` says in seconds.

    >>> check_job_endpoint(PipelineOptions(["--runner=PortableRunner", "--job_endpoint=embed"]))
    """
    portable = options.view_as(PortableOptions)
    endpoint = portable.job_endpoint
    if not endpoint or endpoint == "embed":
        return
    asked, beams = (int(each.job_server_timeout) for each in (portable, PipelineOptions([]).view_as(PortableOptions)))
    with grpc.insecure_channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_ENDPOINT_SECONDS if asked == beams else asked)
        except grpc.FutureTimeoutError:
            reason = _reason(endpoint)
            raise RunnerSetupError(
                f"No job server answers at {endpoint} ({reason}); start one there, or correct --job_endpoint."
            ) from None


def check_worker_pool(address: str) -> None:
    """Raise RunnerSetupError when no pool of Python workers answers at HOST:PORT."""
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_ENDPOINT_SECONDS)
        except grpc.FutureTimeoutError:
            raise RunnerSetupError(
                f"No worker pool answers at {address} ({_reason(address)}); start one there with '{START_POOL}PORT', or correct "
                f"--environment_config."
            ) from None


def _reason(endpoint: str) -> str:
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        return "it is not of the form HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ENDPOINT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return "what listens there does not speak gRPC"
