"""Starts Spark's JVM while Python imports Beam, if the command line determines how the JVM starts."""

import atexit
from collections.abc import Sequence

from beam_joins.pipelines.runners.job_server import JobServer
from beam_joins.pipelines.runners.run_log import new_log_file
from beam_joins.pipelines.runners.runner import HEAP, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_server import SPARK, spark_master

# How options begin that say something else about the JVM, or name another job server.
_TELLING = ("--spark", "--driver_memory", "--job_", "--jar_cache", "--maven", "--environment")

_started: list[JobServer] = []


def start_early(runner: str | None, flags: Sequence[str]) -> None:
    """Starts a job server for `take`, if Spark is requested with defaults only and its jars are in the cache.

    It ends with this process, or with the next early start, if nobody takes it.
    """
    discard()
    if not SPARK.is_named(runner) or any(flag.startswith(_TELLING) for flag in flags):
        return
    server = JobServer(ServerOptions(SPARK, spark_master("local[*]"), (HEAP,)), new_log_file(SPARK.slug))
    _started.append(server)
    try:
        server.start(offline=True)
    except RunnerSetupError:
        discard()  # the run will say so


def take(options: ServerOptions) -> JobServer | None:
    """Hands over the server that was started early.

    One that was started with other options, or has ended, is discarded.
    """
    if _started and _started[0].options == options and _started[0].exit_code is None:
        return _started.pop()
    discard()
    return None


@atexit.register
def discard() -> None:
    """Ends the server that was started early if nobody has taken it."""
    while _started:
        server = _started.pop()
        server.close(at_once=True)
        server.remove()
        server.log.unlink(missing_ok=True)
