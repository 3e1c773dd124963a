"""A job on Flink, its options, and what it raises: :func:`beam_joins.runner` starts Flink."""

from beam_joins.pipelines.runners.flink_job import FlinkJob, FlinkJobError, flink_job
from beam_joins.pipelines.runners.flink_options import FlinkOptions
from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

__all__ = ["FlinkJob", "FlinkJobError", "FlinkOptions", "JobFailed", "RunnerSetupError", "flink_job"]
