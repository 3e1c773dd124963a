"""Make ``--runner=SparkRunner`` work for any Beam job: :func:`spark_runner`."""

from beam_joins.pipelines.runners.spark import JobFailed, RunnerSetupError, SparkOptions, spark_runner

__all__ = ["JobFailed", "RunnerSetupError", "SparkOptions", "spark_runner"]
