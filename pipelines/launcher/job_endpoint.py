"""A job server that the user has started: whether it answers, before a job is given to it."""

import socket

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_joins.pipelines.launcher.setup_error import RunnerSetupError

_SECONDS = 5.0
_LAST_PORT = 65_535


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
    channel = grpc.insecure_channel(endpoint)
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS if asked == beams else asked)
    except grpc.FutureTimeoutError:
        raise RunnerSetupError(
            f"No job server answers at {endpoint} ({_reason(endpoint)}); start one there, or correct --job_endpoint."
        ) from None
    finally:
        channel.close()


def _reason(endpoint: str) -> str:
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        return "it is not of the form HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return "what listens there does not speak gRPC"
