"""Make `--runner=SparkRunner` work for any Beam job, with Spark from PySpark and nothing to install but with
pip.

    from beam_joins.pipelines.spark import spark_runner

    with spark_runner(PipelineOptions()) as options:
        with beam.Pipeline(options=options) as p:
            ...

With `--spark_master_url=local[*]` all runs on this machine. With `spark://HOST:PORT` the driver runs here and
the executors on the cluster; they are sent all jars, and need worker pools with the same Python packages, see
README.
"""

from contextlib import AbstractContextManager
from typing import Final

from apache_beam.options.pipeline_options import PipelineOptions, SparkRunnerOptions

from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.portable_run import Launch, launched
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_options import SparkOptions, spark_server
from beam_joins.pipelines.runners.spark_server import SPARK

__all__ = ["ON_SPARK", "JobFailed", "RunnerSetupError", "SparkOptions", "spark_runner"]

ON_SPARK: Final = Launch(SPARK, SparkRunnerOptions, SparkOptions, spark_server)


def spark_runner(options: PipelineOptions) -> AbstractContextManager[PipelineOptions]:
    """Starts what `--runner=SparkRunner` needs, yields the options that use it, and ends all of it.

    Options that name another runner, or that bring a job server of their own (`--job_endpoint`,
    `--spark_job_server_jar`, `--spark_submit_uber_jar`), are yielded unchanged. The options passed in are
    never changed. Connections to this machine take no proxy. After success nothing stays in the directory for
    temporary files; after a failure Spark's log does.

    Raises RunnerSetupError when Spark cannot start, or when a job server of `--job_endpoint` does not answer
    within five seconds, and JobFailed in place of Beam's RuntimeError when the job fails; all have messages
    for a terminal. Ctrl-C and SIGTERM end everything, too.

    >>> with spark_runner(PipelineOptions(["--runner=DirectRunner"])) as options:
    ...     options.get_all_options()["runner"]
    'DirectRunner'
    """
    return launched(options, ON_SPARK)
