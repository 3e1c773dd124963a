"""Beam's job server for Flink: a cluster of one JobManager and one TaskManager in its JVM, or a cluster
elsewhere.
"""

import re
from pathlib import Path
from typing import Final

from beam_joins.cores import usable_cores
from beam_joins.pipelines.runners.master import Master
from beam_joins.pipelines.runners.runner import Runner, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

CHOICES: Final = "[local], [auto] or HOST:PORT"
_CLUSTER = re.compile(r"(?:http://)?([^/:,\s]+):(\d+)/?")
_CONFIGURATION = "flink-conf.yaml"

_OPENED = (
    "java.base/java.lang java.base/java.lang.reflect java.base/java.io java.base/java.net java.base/java.nio java.base/java.text "
    "java.base/java.time java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/sun.nio.ch java.base/sun.net.util"
)

# The address at which Flink answers is read from the log, so those lines must be there; two lines a
# checkpoint need not be.
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.flink.runtime.checkpoint=warn",
)

_SETTINGS = {
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "jobmanager.bind-host": "localhost",
    "taskmanager.bind-host": "localhost",
}


def flink_master(url: str) -> Master:
    """Read what `--flink_master` names: `[auto]` and `[local]` are a cluster of our own with the cores that
    this process may use.

    Raises RunnerSetupError that lists the choices.

    >>> flink_master("jobs.test:8081").port, flink_master("[auto]").url
    (8081, '[local]')
    """
    if url in ("[auto]", "[local]"):
        return Master("[local]", cores=usable_cores())
    if cluster := _CLUSTER.fullmatch(url):
        return Master(f"{cluster[1]}:{cluster[2]}", host=cluster[1], port=int(cluster[2]))
    raise RunnerSetupError(f"--flink_master={url} is not one of {CHOICES}.")


def _arguments(options: ServerOptions, directory: Path) -> tuple[list[str], list[str]]:
    settings: dict[str, str] = {}
    if options.master.cores is not None:
        settings = {**_SETTINGS, "io.tmp.dirs": str(directory), "state.checkpoints.dir": (directory / "checkpoints").as_uri()}
    settings |= dict(setting.split("=", 1) for setting in options.settings)
    (directory / _CONFIGURATION).write_text("".join(f"{name}: {value}\n" for name, value in settings.items()), "utf-8")
    return list(_LOGGING), ["--flink-master", options.master.url, "--flink-conf-dir", str(directory)]


FLINK: Final = Runner(
    name="Flink",
    main_class="org.apache.beam.runners.flink.FlinkJobServerDriver",
    opened=_OPENED,
    master_option="--flink_master",
    memory_option="--flink_memory",
    log_option="--flink_log",
    provided=list,
    arguments=_arguments,
    version="1.19",
)
