"""Make ``--runner=FlinkRunner`` work for any Beam job, bounded or not: :func:`flink_runner`."""

from beam_joins.pipelines.runners.flink import (
    FlinkJob,
    FlinkJobError,
    FlinkOptions,
    JobFailed,
    RunnerSetupError,
    flink_job,
    flink_runner,
)

__all__ = ["FlinkJob", "FlinkJobError", "FlinkOptions", "JobFailed", "RunnerSetupError", "flink_job", "flink_runner"]
