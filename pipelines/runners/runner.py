"""The parameters of Beam's runners for Spark and Flink, each a job server made of locked jars."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from beam_joins.pipelines.runners.jars import CACHE
from beam_joins.pipelines.runners.master import Master

PID_FILE: Final = "pid"
"""In the directory of a job server the number of its process."""
HEAP: Final = "-XX:MaxRAMPercentage=50"
"""The JVM's memory if nothing else is asked for."""
START_POOL: Final = "python -m beam_joins.pipelines.runners.workers --service_port="
"""The command that starts a worker pool, but for the port."""
LOCAL: Final = "beam_joins.LocalRunner"
"""The runner of this package, as Beam's options name it."""


class Runner(NamedTuple):
    """The parameters of one of Beam's runners: the jars of its job server, and the names of its options.

    `name` is Spark or Flink; its lock file and its files for temporary data are named after it. `provided`
    gives the jars that are installed already. `arguments` gives the JVM's options and the program's for one
    server, and writes what they name into the directory. `idle_seconds` is how long a Python worker keeps
    what it has made of a stage when nothing is asked of it; without it as long as Beam does. `spare_workers`
    is how many more Python workers than cores it has. `version` is the version that Beam's runner is built for, and `refused`
    what the log says where a cluster is of another one.
    """

    name: str
    main_class: str
    opened: str
    master_option: str
    memory_option: str
    log_option: str
    provided: Callable[[], list[Path]]
    arguments: Callable[["ServerOptions", Path], tuple[list[str], list[str]]]
    idle_seconds: int | None = None
    spare_workers: int = 0
    version: str = ""
    refused: bytes | None = None

    @property
    def slug(self) -> str:
        """The name in file names."""
        return self.name.lower()

    def is_named(self, runner: str | None) -> bool:
        """Whether Beam takes the value of ``--runner`` for this one."""
        return (runner or "").rsplit(".", 1)[-1].lower() in (self.slug, f"{self.slug}runner")


class ServerOptions(NamedTuple):
    """The options with which a job server is started: settings are KEY=VALUE of the runner, `log` is the log file if
    one is requested.
    """

    runner: Runner
    master: Master
    jvm: tuple[str, ...]
    settings: tuple[str, ...] = ()
    java: str = "java"
    cache: Path = CACHE
    repository: str | None = None
    log: str | None = None
