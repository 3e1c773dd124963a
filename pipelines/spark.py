"""What `--runner=SparkRunner` raises, and its options: :func:`beam_joins.runner` starts it."""

from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_options import SparkOptions

__all__ = ["JobFailed", "RunnerSetupError", "SparkOptions"]
