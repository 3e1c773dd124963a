"""Make `--runner=FlinkRunner` work for any Beam job, bounded or not, with nothing to install but with pip.

    from beam_joins.pipelines.flink import flink_job, flink_runner

    with flink_runner(PipelineOptions(["--runner=FlinkRunner", "--streaming",
    "--checkpointing_interval=10000"])) as options:
        pipeline = beam.Pipeline(options=options)
        ...
        result = pipeline.run()
        savepoint = flink_job(result, options).stop("savepoints")

Without `--flink_master` all runs on this machine, in one JVM with Flink's JobManager and TaskManager. With
`--flink_master=HOST:PORT` jobs go to a cluster of Flink 1.19, which is sent all jars.
"""

from contextlib import AbstractContextManager
from typing import Final

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions

from beam_joins.pipelines.runners.flink_checkpoints import Checkpoints
from beam_joins.pipelines.runners.flink_job import FlinkJob, FlinkJobError, flink_job, flink_version
from beam_joins.pipelines.runners.flink_options import FlinkOptions, flink_server
from beam_joins.pipelines.runners.flink_server import FLINK
from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.portable_run import Launch, launched
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

__all__ = ["ON_FLINK", "FlinkJob", "FlinkJobError", "FlinkOptions", "JobFailed", "RunnerSetupError", "flink_job", "flink_runner"]

ON_FLINK: Final = Launch(FLINK, FlinkRunnerOptions, FlinkOptions, flink_server, Checkpoints, flink_version)


def flink_runner(options: PipelineOptions) -> AbstractContextManager[PipelineOptions]:
    """Starts what `--runner=FlinkRunner` needs, yields the options that use it, and ends all of it.

    Options that name another runner, or that bring a job server of their own (`--job_endpoint`,
    `--flink_job_server_jar`, `--flink_submit_uber_jar`), are yielded unchanged. The options passed in are
    never changed. A cluster of our own ends with the context, and its jobs with it.

    Raises RunnerSetupError when Flink cannot start, and JobFailed in place of Beam's RuntimeError when the
    job fails.

    >>> with flink_runner(PipelineOptions(["--runner=DirectRunner"])) as options:
    ...     options.get_all_options()["runner"]
    'DirectRunner'
    """
    return launched(options, ON_FLINK)
