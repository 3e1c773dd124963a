"""Run a bounded Beam job on this machine's cores, without Spark: :func:`direct_runner`."""

from beam_joins.pipelines.runners.direct import direct_runner
from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

__all__ = ["JobFailed", "RunnerSetupError", "direct_runner"]
