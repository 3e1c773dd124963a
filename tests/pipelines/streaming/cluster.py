"""A Flink cluster that others have started: a JobManager and a TaskManager as processes of their own, from the jars of the lock file."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from beam_joins.pipelines.launcher.flink_server import FLINK

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


@contextmanager
def flink_cluster(java: Path, jars: list[Path], directory: Path) -> Iterator[str]:
    """The address of its REST interface, HOST:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        rest, rpc = one.getsockname()[1], other.getsockname()[1]
    (directory / "flink-conf.yaml").write_text(_CONFIGURATION.format(rest=rest, rpc=rpc, directory=directory))
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in FLINK.opened.split()]
    sizes = [part for name, value in _SIZES.items() for part in ("-D", f"{name}={value}")]
    class_path = os.pathsep.join(map(str, jars))
    with ExitStack() as stack:
        for heap, main_class in (_JOB_MANAGER, _TASK_MANAGER):
            log = stack.enter_context((directory / f"{main_class}.log").open("wb"))
            command = [java, heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened, "-cp", class_path, main_class]
            process = subprocess.Popen(
                [*map(str, command), "--configDir", str(directory), *sizes], stdout=log, stderr=subprocess.STDOUT, cwd=directory
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        _wait_for_slots(rest)
        yield f"localhost:{rest}"


def _wait_for_slots(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/overview", timeout=5) as answer:
            if json.load(answer)["slots-available"]:
                return
        time.sleep(0.2)
    raise AssertionError("the cluster did not start")
