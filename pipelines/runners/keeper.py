"""The process that forks a warm Python worker for each request of the runner.

The keeper itself is a fork of the job's process, or a fresh interpreter that runs `main`. Relies on, in Beam 2.66 to
2.77: ``sdk_worker_main.create_harness`` and the constant of ``sdk_worker`` that `end_idle_processors` replaces.
"""

import gc
import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from apache_beam.internal import cloudpickle_pickler
from apache_beam.runners.worker import sdk_worker, sdk_worker_main

from beam_joins.pipelines.runners.child_processes import (
    GRACE_SECONDS,
    begin_work,
    end,
    end_with_parent,
    keep_memory,
    put_into_main,
    redirect,
    work_and_exit,
)
from beam_joins.pipelines.runners.runner import PID_FILE

JVM_SECONDS = 30.0
Worker = tuple[str, str]
"""The name of a worker, and the connection of the executor that has asked for it: each executor counts its workers from one."""

# What a fresh interpreter runs: first of all it looks for modules where the job's process does.
FRESH = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from beam_joins.pipelines.runners import keeper; keeper.main()"


def main() -> None:
    """Runs the keeper for the process at the other end of the pipe whose number is the first argument."""
    pipe: Connection = Connection(int(sys.argv[1]))
    options, log, orphan, idle_seconds, classes = cloudpickle_pickler.loads(pipe.recv_bytes())
    put_into_main(classes)
    keep(pipe, None, options, log, orphan, idle_seconds)


def keep(
    pipe: Connection,
    inherited: Connection | None,
    options: dict[str, Any],
    log: Path | None,
    orphan: Path | None,
    idle_seconds: int | None,
) -> None:
    """Answers requests until the pipe closes, and ends all workers then.

    `inherited` is a fork's copy of the other end. `orphan` is removed when the pipe closes before the request
    to end. `idle_seconds` is that of the `Runner`.
    """
    if inherited is not None:
        inherited.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    redirect(log)
    keep_memory()
    if idle_seconds is not None:
        end_idle_processors(idle_seconds)
    gc.freeze()  # a worker's collector would copy every page that it shares with the others
    workers, lost = dict[Worker, int](), set[Worker]()
    while True:
        try:
            verb, worker_id, asking, control = pipe.recv()
        except (EOFError, OSError):
            break
        answer, worker = "", (worker_id, asking)
        if verb == "start":
            lost |= _reap(workers)  # in a pool that serves many jobs an executor may be killed, and stops none of its workers
            answer = _fork(workers, worker, control, options)
        elif verb == "stop":
            end([workers.pop(worker)] if worker in workers else [], GRACE_SECONDS)
            lost.discard(worker)
        elif verb == "lost":
            lost |= _reap(workers)
            answer = " ".join(name for name, _ in lost)
        else:
            orphan = None
            end(list(workers.values()), 0)
            workers.clear()
        pipe.send(answer)
    end(list(workers.values()), 0)
    if orphan is not None:
        remove_orphan(orphan)


def remove_orphan(directory: Path, *, patience: float = JVM_SECONDS) -> None:
    """Remove the directory of a job server when its JVM has ended, which ends with the job; a JVM that does not
    end within so many seconds is killed.
    """
    until = time.monotonic() + patience
    while (jvm := _jvm_in(directory)) is not None:
        if time.monotonic() > until:
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(directory, ignore_errors=True)


def _jvm_in(directory: Path) -> int | None:
    """The number of the process that the job server's directory names, if it works in there."""
    try:
        pid = int((directory / PID_FILE).read_text("ascii"))
        return pid if os.path.samefile(f"/proc/{pid}/cwd", directory) else None
    except (OSError, ValueError):
        return None


def end_idle_processors(seconds: int) -> None:
    """Makes the workers end bundle processors that have been idle for so many seconds; Beam keeps them for a
    minute.

    Each holds the buffer that its output was written into, 8 to 16 MB: in a minute 60 partitions came to 600
    MB.
    """
    sdk_worker.DEFAULT_BUNDLE_PROCESSOR_CACHE_SHUTDOWN_THRESHOLD_S = seconds


def _reap(workers: dict[Worker, int]) -> set[Worker]:
    """Forget the workers that have ended; gives those that have not ended by themselves with code 0."""
    lost = set[Worker]()
    for worker, pid in list(workers.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del workers[worker]
            lost |= {worker} if status else set()
    return lost


def _fork(workers: dict[Worker, int], worker: Worker, control: str, options: dict[str, Any]) -> str:
    sys.stdout.flush()
    keeper = os.getpid()
    try:
        workers[worker] = os.fork()
    except OSError as error:
        return f"no more worker processes: {error}"
    if workers[worker] == 0:
        _work(worker[0], control, options, keeper)
    return ""


def _work(worker_id: str, control: str, options: dict[str, Any], keeper: int) -> None:
    def work() -> None:
        end_with_parent(keeper)
        begin_work()
        # as Beam's own worker begins, without the logging service: its messages are for the log
        environment = {
            "WORKER_ID": worker_id,
            "PIPELINE_OPTIONS": json.dumps({"options": options}, default=str),
            "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "{control}"',
        }
        sdk_worker_main.create_harness(environment)[1].run()

    work_and_exit(work)
