"""A standalone cluster of Spark: a master and workers as processes of their own, on loopback, from PySpark's
jars.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from beam_joins.pipelines.runners.java import find_java
from beam_joins.pipelines.runners.spark_server import SPARK, spark_jars

_START_SECONDS = 60.0
_HERE = ("--host", "127.0.0.1", "--webui-port", "0")


class SparkCluster(NamedTuple):
    """Its master, as Spark names it, and the processes of its workers."""

    url: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def spark_cluster(directory: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """A cluster whose workers have a gigabyte each, the first of them two cores and the others one; all of
    its processes are gone afterwards.
    """
    processes = []

    def start(name: str, main_class: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in SPARK.opened.split()]
        jvm = [
            str(find_java()),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *opened,
            "-cp",
            os.pathsep.join(map(str, spark_jars())),
        ]
        home = {"SPARK_HOME": str(spark_jars()[0].parents[1]), "SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment = {**os.environ, **home, "JAVA_HOME": str(find_java().resolve().parents[1])}
        with log.open("wb") as output:
            command = [*jvm, main_class, *_HERE, *arguments]
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory, env=environment)
        processes.append(process)
        return log

    try:
        url = _said(start("master", "org.apache.spark.deploy.master.Master", "--port", "0"), r"Starting Spark master at (spark://\S+)")
        for n in range(workers):
            sizes = ("--cores", "1" if n else "2", "--memory", "1g", "--work-dir", str(directory / f"work-{n}"))
            log = start(f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *sizes, url)
            _said(log, "Successfully (registered) with master")
        yield SparkCluster(url, processes[1:])
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
        for jar in directory.glob("work-*/*/*/*.jar"):  # each executor has a copy of all of them
            jar.unlink()


def _said(log: Path, pattern: str) -> str:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if message := re.search(pattern, log.read_text()):
            return message[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())
