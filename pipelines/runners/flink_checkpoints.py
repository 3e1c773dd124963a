"""Checkpoints of a run on Flink: where they are, and how a failed job resumes from the newest one."""

import re
import shutil
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions

from beam_joins.pipelines.runners.flink_job import FlinkJobError, ask
from beam_joins.pipelines.runners.flink_options import FlinkOptions, location
from beam_joins.pipelines.runners.flink_server import flink_master

_DIRECTORY_SETTING = "state.checkpoints.dir="
_FAILED = re.compile(r"Pipeline (\S+)_[0-9a-f-]{36} failed in state")
_JOB_IN_LOG = re.compile(rb"Job (\S+) \(([0-9a-f]{32})\) switched from state")


class Checkpoints:
    """Keeps the checkpoints of one run until it has succeeded, and finds the newest one of a failed job.

    Without `--flink_checkpoints` a cluster of our own writes them into a new directory beside the run's log,
    which is removed when the run succeeds, or in any case with `--checkpoint_retention=delete`. A directory
    that the user has named is never removed.
    """

    def __init__(self, options: PipelineOptions) -> None:
        """Make the directory, if one is needed, and name it in `options`."""
        asked = options.view_as(FlinkOptions)
        master = flink_master(str(options.view_as(FlinkRunnerOptions).flink_master))
        self._cluster = None if master.cores is not None else master.url
        self._savepoint = location(asked.savepoint_path) if asked.savepoint_path else None
        self._made: Path | None = None
        self._kept = asked.checkpointing_interval is not None and asked.checkpoint_retention != "delete"
        named = any(setting.startswith(_DIRECTORY_SETTING) for setting in asked.flink_conf or ())
        if self._kept and self._cluster is None and not asked.flink_checkpoints and not named:
            self._made = Path(tempfile.mkdtemp(prefix=time.strftime("beam-flink-%Y%m%d-%H%M%S-"), suffix="-checkpoints"))
            asked.flink_checkpoints = str(self._made)
        self._directory = _local(asked.flink_checkpoints)

    @property
    def notice(self) -> str:
        """A line with the place of the checkpoints, unless the user has named it."""
        return f"Flink's checkpoints: {self._made} (kept if the job fails, or with --flink_checkpoints)" if self._made else ""

    def how_to_go_on(self, message: str, log: bytes) -> str:
        """The advice to resume a failed job from its newest checkpoint; `log` is Flink's log of this run."""
        if not self._kept:
            return ""
        failed = _FAILED.search(message)
        name = failed[1] if failed else None
        newest = self._asked_for(name) if self._cluster is not None else self._newest_of(name, log)
        if newest is not None:
            return f" The newest checkpoint is {newest}: the job goes on from it when it is run with --savepoint_path={newest}"
        if self._savepoint is not None:
            return f" No checkpoint was completed: the job goes on when it is run with --savepoint_path={self._savepoint} again"
        return " No checkpoint was completed, so the job begins anew when it is run again"

    def end(self, *, succeeded: bool) -> None:
        """Remove the directory that was made, after success; without a checkpoint in it after a failure, too."""
        if self._made is not None and (succeeded or not any(self._made.glob("*/chk-*/_metadata"))):
            shutil.rmtree(self._made, ignore_errors=True)

    def _newest_of(self, name: str | None, log: bytes) -> str | None:
        """The newest one in the directory of the jobs of this name that Flink has logged, of all jobs of the
        run without a name.
        """
        if self._directory is None:
            return None
        jobs = {number.decode() for job, number in _JOB_IN_LOG.findall(log) if name is None or job.decode() == name}
        written = [path for number in jobs for path in self._directory.glob(f"{number}/chk-*/_metadata")]
        return max(written, key=lambda path: path.stat().st_mtime).parent.as_uri() if written else None

    def _asked_for(self, name: str | None) -> str | None:
        """The newest checkpoint of the last job of this name on the cluster."""
        assert self._cluster is not None
        try:
            jobs = [job for job in ask(self._cluster, "/jobs/overview")["jobs"] if job["name"] == name]
            if not jobs:
                return None
            last = max(jobs, key=lambda job: int(job["start-time"]))
            completed = ask(self._cluster, f"/jobs/{last['jid']}/checkpoints")["latest"]["completed"]
        except (OSError, FlinkJobError):
            return None
        return str(completed["external_path"]) if completed else None


def _local(directory: str | None) -> Path | None:
    """A directory of this machine, None for one elsewhere."""
    if not directory:
        return None
    parts = urlsplit(location(directory))
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
