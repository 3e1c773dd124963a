"""Starts the runner that the options of a pipeline name; what it lacks is one sentence, where Beam shows a trace or waits
for minutes.

    from beam_joins import runner

    with runner(PipelineOptions()) as options:
        with beam.Pipeline(options=options) as pipeline:
            ...
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.runner import create_runner

from beam_joins.pipelines.runners.check_setup import check_setup
from beam_joins.pipelines.runners.launches import LAUNCHES
from beam_joins.pipelines.runners.local.local_runner import local_processes, worker_count
from beam_joins.pipelines.runners.portable_run import launched
from beam_joins.pipelines.runners.reachable import check_docker
from beam_joins.pipelines.runners.run_options import WorkerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_DIRECT: Final = (None, "DirectRunner", "FnApiRunner")
_JOB_SERVER: Final = "start a job server yourself and name it with --job_endpoint=HOST:PORT"


@contextmanager
def runner(options: PipelineOptions) -> Iterator[PipelineOptions]:
    """Starts what ``--runner`` needs, yields the options that use it, and ends all of it.

    For ``SparkRunner`` that is Beam's job server with Spark from PySpark, for ``FlinkRunner`` the same with Flink, which pip
    and Maven Central have; a cluster is named by Beam's own options (``--spark_master_url``, ``--flink_master``). Options
    that bring a job server of their own (``--job_endpoint``, ``--spark_job_server_jar``, ``--flink_job_server_jar``,
    ``--spark_submit_uber_jar``, ``--flink_submit_uber_jar``) are yielded unchanged, as those of other runners are. The
    worker processes of the local runner are forks of this process where it has no other threads; ``--python_workers`` starts them
    on the direct runner, too. The options passed in are never changed. A cluster of this machine ends with the block, and its jobs
    with it; after a failure its log stays among the temporary files.

    Raises RunnerSetupError, whose message is for a terminal, when the runner cannot start or a job server does not answer within
    five seconds, and JobFailed in place of Beam's RuntimeError when the job fails. Ctrl-C and SIGTERM end everything, too.

    >>> with runner(PipelineOptions(["--runner=DirectRunner"])) as options:
    ...     options.get_all_options()["runner"]
    'DirectRunner'
    >>> with runner(PipelineOptions(["--runner=Nonsense"])):
    ...     pass
    Traceback (most recent call last):
    beam_joins.pipelines.runners.setup_error.RunnerSetupError: Unexpected pipeline runner: Nonsense. Valid values are ...
    """
    name = _checked(options)
    try:
        with launched(options, *LAUNCHES) as ready, workers_for(ready) as run:
            yield run
    except (RuntimeError, ValueError, OSError, grpc.RpcError, grpc.FutureTimeoutError) as error:
        sentence = runner_failure(error, name)
        if sentence is None:
            raise
        raise RunnerSetupError(sentence) from None


def workers_for(options: PipelineOptions) -> AbstractContextManager[PipelineOptions]:
    """The worker processes of the local runner, and of the direct runner where ``--python_workers`` asks for several; options of
    other runners are yielded as they are.
    """
    name, streaming = options.view_as(StandardOptions).runner, options.view_as(StandardOptions).streaming
    is_local = (name or "").rpartition(".")[2] == "LocalRunner"
    if streaming or not (is_local or name in _DIRECT):
        return nullcontext(options)
    several = options.view_as(WorkerOptions).python_workers is not None and worker_count(options) > 1
    return local_processes(options) if is_local or several else nullcontext(options)


def setup_of(options: PipelineOptions) -> Iterator[str]:
    """The requirements of the runner and which of them are installed, one line each; nothing is started.

    Raises RunnerSetupError for what is missing.
    """
    _checked(options)
    yield from check_setup(options, *LAUNCHES)


def runner_failure(error: Exception, runner: str) -> str | None:
    r"""The sentence on a failure of Beam's own for a person; None for a failure that is not a known one.

    >>> runner_failure(ValueError("Pipeline has validations errors: \nMissing required option: project.\n"), "DataflowRunner")
    'DataflowRunner cannot run this: Missing required option: project.'
    >>> runner_failure(ValueError("too many values to unpack"), "DataflowRunner") is None
    True
    """
    if isinstance(error, grpc.FutureTimeoutError):
        return f"{runner}'s job server was started and does not answer; {_JOB_SERVER}."
    if isinstance(error, grpc.RpcError):
        state, details = (getattr(error, name, str)() for name in ("code", "details"))
        return f"{runner}'s job server broke off the connection ({getattr(state, 'name', state)}: {details})."
    for pattern, say in _KNOWN:
        match = re.search(pattern, str(error), re.DOTALL)
        if match:
            return say(runner, match)
    return None


_KNOWN: Final[tuple[tuple[str, Callable[[str, re.Match[str]], str]], ...]] = (
    (
        r"^Pipeline has validations errors:\s*(.+)",
        lambda runner, match: f"{runner} cannot run this: {' '.join(match[1].split())}",
    ),
    (
        r"^Unable to fetch remote job server jar at (?P<url>\S+?): (?P<reason>.+?)\. .*stage the jar at (?P<path>\S+)",
        lambda runner, match: (
            f"{runner} needs Beam's job server for it, and {match['url']} could not be fetched ({_short(match['reason'])}); "
            f"copy it to {match['path']}, or {_JOB_SERVER}."
        ),
    ),
    (
        r"^Unable to parse jar URL \"(?P<path>[^\"]*)\"",
        lambda runner, match: f"{runner}'s job server {match['path']} is neither a file nor a URL; correct it, or {_JOB_SERVER}.",
    ),
    (
        r"^Unable to fetch remote prism binary at (?P<url>\S+): (?P<reason>.+)$",
        lambda runner, match: (
            f"{runner} needs a program that could not be fetched from {match['url']} ({_short(match['reason'])}); fetch "
            "it elsewhere and "
            f"name it with --prism_location=FILE."
        ),
    ),
    (
        r"^Java must be installed|No such file or directory: 'java'",
        lambda runner, match: f"{runner} starts a job server that needs Java; install a Java 17, or {_JOB_SERVER}.",
    ),
    (
        r"^Service failed to start up with error (.*)",
        lambda runner, match: f"{runner}'s job server ended at its start (exit code {match[1]}); {_JOB_SERVER}.",
    ),
)


def _short(reason: str) -> str:
    inner = re.search(r"<urlopen error (?:\[Errno -?\d+\] )?([^>]*)>?", reason)
    return inner[1] if inner else reason


def _checked(options: PipelineOptions) -> str:
    asked = str(options.view_as(StandardOptions).runner or StandardOptions.DEFAULT_RUNNER)
    try:
        name = type(create_runner(asked)).__name__
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        sentence = str(error)
        is_sentence = sentence.startswith("Unexpected pipeline runner") or "please install" in sentence
        raise RunnerSetupError(sentence if is_sentence else f"--runner={asked} cannot be imported ({sentence}).") from None
    portable = options.view_as(PortableOptions)
    if name == "PortableRunner" and not portable.job_endpoint:
        raise RunnerSetupError("PortableRunner needs --job_endpoint=HOST:PORT, where a job server of Beam's listens.")
    if name == "DataflowRunner":
        _check_google(options.view_as(GoogleCloudOptions))
    flink_here = options.view_as(FlinkRunnerOptions).flink_master in ("[auto]", "[local]") and not portable.job_endpoint
    if name == "FlinkRunner" and portable.environment_type == "DOCKER" and flink_here:
        check_docker()
    return name


def _check_google(google_cloud: GoogleCloudOptions) -> None:
    try:
        import google.auth  # noqa: PLC0415, other runners work without Google's packages
        from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415
    except ImportError as error:
        raise RunnerSetupError(f"DataflowRunner needs Google's packages ({error}): pip install 'apache-beam[gcp]'.") from None
    # Beam asks for credentials again and again for more than a minute, and goes on without.
    try:
        google.auth.default()
    except DefaultCredentialsError:
        missing = [f"--{name}" for name in ("project", "region", "temp_location") if not getattr(google_cloud, name)]
        needed = "".join(f", and {', '.join(missing)}" if missing else "")
        raise RunnerSetupError(
            "DataflowRunner needs Google credentials, and there are none here: log in with 'gcloud auth application-default login', "
            f"or set GOOGLE_APPLICATION_CREDENTIALS{needed}."
        ) from None
