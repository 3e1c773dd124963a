"""Clusters on loopback whose processes are those of Spark and Hadoop: Spark's own, from PySpark's jars, and YARN."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from beam_joins.pipelines.runners.jars import Jar, provide
from beam_joins.pipelines.runners.java import find_java
from beam_joins.pipelines.runners.spark_server import SPARK, spark_jars

_START_SECONDS = 60.0
_HERE = ("--host", "127.0.0.1", "--webui-port", "0")
_YARN = "org.apache.hadoop.yarn.server"
_SITES = {
    "core-site": {"fs.defaultFS": "file:///"},
    "capacity-scheduler": {
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    },
    "yarn-site": {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.bind-host": "127.0.0.1",
        "yarn.nodemanager.resource.memory-mb": "4096",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
    },
}


def home() -> dict[str, str]:
    """The environment of Spark's own programs."""
    java, spark = find_java().resolve().parents[1], spark_jars()[0].parents[1]
    return {"SPARK_HOME": str(spark), "SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java)}


class Processes:
    """Processes with their logs in a directory, which are gone when the context ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *command: object, environment: Mapping[str, str] = {}) -> Path:
        """Start a program; the path of its log."""
        log = self.directory / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                list(map(str, command)), stdout=output, stderr=output, cwd=self.directory, env={**os.environ, **environment}
            )
        self.started.append(process)
        return log

    def java(self, name: str, jars: Sequence[Path], main_class: str, *arguments: str) -> Path:
        """Start a small JVM."""
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in SPARK.opened.split()]
        jvm = [find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=info", *opened]
        return self.start(name, *jvm, "-cp", os.pathsep.join(map(str, jars)), main_class, *arguments, environment=home())

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


class SparkCluster(NamedTuple):
    """Its master, as Spark names it, and the processes of its workers."""

    url: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def spark_cluster(directory: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """A cluster whose workers have a gigabyte each, the first of them two cores and the others one; all of
    its processes are gone afterwards.
    """
    with ExitStack() as stack:
        stack.callback(_remove_jars, directory)  # each executor has a copy of all of them
        processes, deploy = stack.enter_context(Processes(directory)), "org.apache.spark.deploy"
        master = processes.java("master", spark_jars(), f"{deploy}.master.Master", *_HERE, "--port", "0")
        url = said(master, r"Starting Spark master at (spark://\S+)")
        for n in range(workers):
            sizes = ("--cores", "1" if n else "2", "--memory", "1g", "--work-dir", str(directory / f"work-{n}"))
            log = processes.java(f"worker-{n}", spark_jars(), f"{deploy}.worker.Worker", *_HERE, *sizes, url)
            said(log, "Successfully (registered) with master")
        yield SparkCluster(url, processes.started[1:])


def _remove_jars(directory: Path) -> None:
    for jar in directory.glob("work-*/*/*/*.jar"):
        jar.unlink()


def yarn_jars() -> list[Path]:
    """The jars of Hadoop's small cluster that PySpark does not have. Raises RunnerSetupError if one cannot be fetched."""
    lines = Path(__file__).with_name("yarn.lock").read_text("utf-8").splitlines()
    return provide([Jar.parse(line) for line in lines if not line.startswith("#")], of="YARN")


@contextmanager
def yarn_cluster(directory: Path) -> Iterator[Path]:
    """YARN with one node of four gigabytes; the directory of its configuration."""
    configuration = directory / "configuration"
    configuration.mkdir()
    servers = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
    ports = free_ports(len(servers))
    manager = {f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in zip(servers, ports, strict=True)}
    node = {f"yarn.nodemanager.{name}": "127.0.0.1:0" for name in ("address", "localizer.address", "webapp.address")}
    folders = {f"yarn.nodemanager.{name}-dirs": str(directory / name) for name in ("local", "log")}
    for name, values in (_SITES | {"yarn-site": _SITES["yarn-site"] | manager | node | folders}).items():
        properties = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        (configuration / f"{name}.xml").write_text(f"<configuration>{properties}</configuration>", "utf-8")
    jars = [configuration, *yarn_jars(), *spark_jars()]
    with Processes(directory) as processes:
        said(processes.java("manager", jars, f"{_YARN}.resourcemanager.ResourceManager"), "Transitioned to (active) state")
        said(processes.java("node", jars, f"{_YARN}.nodemanager.NodeManager"), r"Registered with ResourceManager as (\S+)")
        yield configuration


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens at."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in bound]


def said(log: Path, pattern: str, seconds: float = _START_SECONDS) -> str:
    """The first group of a pattern, once a log has it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if message := re.search(pattern, log.read_text()):
            return message[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())
