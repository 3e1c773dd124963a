"""A Flink cluster that others have started: a JobManager and a TaskManager as processes of their own, from
the jars of the lock file.
"""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from beam_joins.pipelines.runners.flink_server import FLINK

_START_SECONDS = 60.0
_CONFIGURATION = """\
jobmanager.rpc.address: localhost
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: localhost
taskmanager.host: localhost
taskmanager.bind-host: localhost
rest.address: localhost
rest.bind-address: localhost
rest.port: {rest}
taskmanager.numberOfTaskSlots: 2
io.tmp.dirs: {directory}
state.checkpoints.dir: file://{directory}/checkpoints
heartbeat.interval: 1000
heartbeat.timeout: 10000
"""
_JOB_MANAGER = ("-Xmx512m", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint")
_TASK_MANAGER = ("-Xmx1g", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner")
_SIZES = {
    "jobmanager.memory.process.size": "1200m",
    "taskmanager.cpu.cores": "2.0",
    "taskmanager.memory.task.heap.size": "700m",
    "taskmanager.memory.task.off-heap.size": "128m",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.managed.size": "128m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
}


class FlinkCluster:
    """A JobManager and a TaskManager; `address` is that of its REST interface, HOST:PORT."""

    def __init__(self, java: Path, jars: list[Path], directory: Path, stack: ExitStack) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            rest, rpc = one.getsockname()[1], other.getsockname()[1]
        (directory / "flink-conf.yaml").write_text(_CONFIGURATION.format(rest=rest, rpc=rpc, directory=directory))
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in FLINK.opened.split()]
        class_path = os.pathsep.join(map(str, jars))
        self._java = [str(java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened, "-cp", class_path]
        self._directory = directory
        self._stack = stack
        self._rest = rest
        self.address = f"localhost:{rest}"
        self._started(*_JOB_MANAGER)
        self._task_manager = self._started(*_TASK_MANAGER)
        self._wait_for_slots()

    def lose_the_task_manager(self) -> None:
        """Kill it; another one takes its place."""
        self._task_manager.kill()
        self._task_manager.wait()
        self._task_manager = self._started(*_TASK_MANAGER)

    def _started(self, heap: str, main_class: str) -> subprocess.Popen[bytes]:
        sizes = [part for name, value in _SIZES.items() for part in ("-D", f"{name}={value}")]
        command = [*self._java, heap, main_class, "--configDir", str(self._directory), *sizes]
        with (self._directory / f"{main_class}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _wait_for_slots(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._rest}/overview", timeout=5) as answer:
                if json.load(answer)["slots-available"]:
                    return
            time.sleep(0.2)
        raise AssertionError("the cluster did not start")


@contextmanager
def flink_cluster(java: Path, jars: list[Path], directory: Path) -> Iterator[FlinkCluster]:
    """A cluster that ends with the context."""
    with ExitStack() as stack:
        yield FlinkCluster(java, jars, directory, stack)
