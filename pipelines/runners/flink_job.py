"""Queries and stops a job through Flink's REST interface: state, savepoints, cancellation."""

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.runners.portability.portable_runner import PipelineResult

from beam_joins.pipelines.runners.flink_options import FlinkOptions, location
from beam_joins.pipelines.runners.master import Master

ENDED: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})
_LISTENS = re.compile(rb"Rest endpoint listening at (\S+:\d+)")
_ANSWER_SECONDS, _APPEAR_SECONDS, _PAUSE_SECONDS = 10.0, 60.0, 0.1


class FlinkJobError(RuntimeError):
    """Raised when Flink refuses a request for a job; the message has Flink's answer."""


class FlinkJob:
    """One job of the Flink cluster whose REST interface listens at `address` (HOST:PORT); `id` is Flink's
    name for it.

    `cancel` of the result that Beam's Python SDK gives leaves the job running on Flink: end it here.
    """

    def __init__(self, address: str, id: str) -> None:
        self.address, self.id = address, id

    @property
    def state(self) -> str:
        """Flink's word for the job's state: `RUNNING`, `RESTARTING`, `FINISHED`, `CANCELED`, `FAILED` and
        some others.

        Flink answers with what it knew up to three seconds ago (`web.refresh-interval`), so a short
        `RESTARTING` may not be seen.
        """
        return str(ask(self.address, f"/jobs/{self.id}")["state"])

    def savepoint(self, directory: str | None = None) -> str:
        """Write a savepoint into a new directory below `directory` while the job runs on, and return its URL,
        for `--savepoint_path`.

        Without `directory` the cluster's own setting `state.savepoints.dir` counts. Raises FlinkJobError if
        it cannot be written.
        """
        return self._written("savepoints", {"cancel-job": False, **_target(directory)})

    def stop(self, directory: str | None = None) -> str:
        """Write a savepoint and end the job with it, so that another run continues where it ended; returns
        the savepoint's URL.

        Raises FlinkJobError, and the job runs on, if the savepoint cannot be written.
        """
        written = self._written("stop", {"drain": False, **_target(directory, "targetDirectory")})
        self._wait_for_end()
        return written

    def cancel(self) -> None:
        """End the job without a savepoint; returns when it has ended.

        A job that has ended already stays as it is.
        """
        if self.state not in ENDED:
            ask(self.address, f"/jobs/{self.id}?mode=cancel", method="PATCH")
            self._wait_for_end()

    def _written(self, operation: str, body: dict[str, object]) -> str:
        trigger = ask(self.address, f"/jobs/{self.id}/{operation}", body)["request-id"]
        while True:
            answer = ask(self.address, f"/jobs/{self.id}/savepoints/{trigger}")
            if answer["status"]["id"] == "COMPLETED":
                break
            time.sleep(_PAUSE_SECONDS)
        done = answer["operation"]
        if "location" not in done:
            cause = str(done.get("failure-cause", {}).get("stack-trace", "no reason given")).splitlines()[0]
            raise FlinkJobError(f"the savepoint of the job {self.id} failed: {cause}")
        return str(done["location"])

    def _wait_for_end(self) -> None:
        # a cluster of our own ends with its last job, and then nobody answers
        try:
            while self.state not in ENDED:
                time.sleep(_PAUSE_SECONDS)
        except (OSError, FlinkJobError):
            return


def flink_job(result: PipelineResult, options: PipelineOptions) -> FlinkJob:
    """The job on Flink that `pipeline.run()` has started with the options of :func:`runner`.

    Waits until Flink knows it, by the result's private ``_job_id`` (Beam 2.66 to 2.77). Raises FlinkJobError if it
    has ended before or does not appear within a minute.
    """
    name = str(result._job_id).rsplit("_", 1)[0]
    until = time.monotonic() + _APPEAR_SECONDS
    while time.monotonic() < until:
        for address in _addresses(options):
            try:
                jobs = ask(address, "/jobs/overview")["jobs"]
            except (OSError, FlinkJobError):
                continue
            for job in sorted(jobs, key=lambda job: int(job["start-time"]), reverse=True):
                if job["name"] == name:
                    return FlinkJob(address, str(job["jid"]))
        time.sleep(_PAUSE_SECONDS)
    raise FlinkJobError(f"Flink knows no job of the name {name}; it may have ended already.")


def flink_version(master: Master) -> str:
    """The version of the Flink at a cluster's address; empty if it does not tell."""
    try:
        return str(ask(f"{master.host}:{master.port}", "/overview")["flink-version"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException, FlinkJobError):
        return ""


def _addresses(options: PipelineOptions) -> Iterable[str]:
    master, log = options.view_as(FlinkRunnerOptions).flink_master, options.view_as(FlinkOptions).flink_log
    if not master.startswith("["):
        return [str(master).removeprefix("http://").rstrip("/")]
    # a cluster of our own takes any free port for each job, and says which in its log
    return [address.decode() for address in reversed(_LISTENS.findall(Path(log).read_bytes()))]


def _target(directory: str | None, name: str = "target-directory") -> dict[str, object]:
    return {name: location(directory)} if directory else {}


def ask(address: str, path: str, body: dict[str, object] | None = None, *, method: str | None = None) -> Any:
    """Sends a request to Flink's REST interface at HOST:PORT; raises FlinkJobError with Flink's answer if it
    refuses.
    """
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    # a cluster's addresses are of the own network, which proxies are not for
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        reason = error.read().decode("utf-8", "replace").strip()
        raise FlinkJobError(f"Flink refuses {path}: {' '.join(reason.split())[:300] or error.reason}") from None
