"""Beam's Spark job server as a child process: start it, learn its port, and leave nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from beam_joins.pipelines.launcher.class_archive import ClassArchive
from beam_joins.pipelines.launcher.jars import CACHE, is_writable, locked_jars, provide
from beam_joins.pipelines.launcher.java import java_launcher
from beam_joins.pipelines.launcher.master import Master
from beam_joins.pipelines.launcher.setup_error import SparkSetupError
from beam_joins.pipelines.launcher.spark_log import tell

_MAIN_CLASS = "org.apache.beam.runners.spark.SparkJobServerDriver"
_START_SECONDS, _ARCHIVE_SECONDS, _PATIENCE_SECONDS = 120.0, 60.0, 5.0
_STARTED = re.compile(rb"JobService started on \S+:(\d+)")

# Measured: the second compiler and G1 cost more processor time than they save, even in a job of minutes.
_JVM = ("-XX:+UseParallelGC", "-Xmn256m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dspark.ui.enabled=false")
_JVM_LOCAL = ("-Dspark.driver.host=127.0.0.1", "-Dspark.driver.bindAddress=127.0.0.1")

# What Spark opens for itself on Java 17 (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = (
    "java.base/java.lang java.base/java.lang.invoke java.base/java.lang.reflect java.base/java.io java.base/java.net "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action "
    "java.base/sun.util.calendar java.security.jgss/sun.security.krb5"
)

# gRPC for Java sends all connections there, and all of the server's are to this machine or its cluster.
_JAVAS_PROXY = "GRPC_PROXY_EXP"

# Before Spark has configured logging, Beam's server would not even say its port.
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_OUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""

# The kernel ends the JVM with its parent, even if the parent is killed; the JVM cannot ask for that itself.
_TIED = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerOptions(NamedTuple):
    """What a job server is started with: Spark's master, the JVM's `java` and options, and where the jars come from."""

    master: Master
    jvm: tuple[str, ...]
    java: str = "java"
    cache: Path = CACHE
    repository: str | None = None


class JobServer:
    """A job server that `start` starts and `close` ends; what it writes goes to the file `log`.

    `scratch` is a new directory, for staged artifacts and Spark's local files; `remove` removes it.
    """

    def __init__(self, options: ServerOptions, log: Path) -> None:
        """Make the directory."""
        self.options, self.log = options, log
        self.scratch = Path(tempfile.mkdtemp(prefix="beam-spark-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None
        self._from = 0

    def start(self, *, offline: bool = False) -> None:
        """Start the process, unless it runs already; `wait` then gives its endpoint.

        Jars that are missing are fetched. Raises SparkSetupError when that fails, is not to be done (`offline`), or there is no Java.
        """
        if self._process is not None:
            return
        master, jvm, asked, cache, repository = self.options
        java, kept = java_launcher(asked), cache / "spark"
        # Beam's come first, as Spark's older guava would win otherwise
        beam = provide(locked_jars(), cache=cache, repository=repository, progress=sys.stderr, offline=offline)
        class_path = [*beam, *spark_jars()]
        if is_writable(kept):
            self._archive = ClassArchive(java, class_path, kept)
        logging = self.scratch / "log4j2.properties"
        logging.write_text(_LOG4J, "utf-8")
        arguments = [
            *_JVM,
            *(_JVM_LOCAL if master.cores is not None else ()),
            *(self._archive.use() if self._archive else ()),
            *jvm,
            *(f"-Djava.io.tmpdir={self.scratch}", f"-Dspark.local.dir={self.scratch}", f"-Dlog4j2.configurationFile={logging}"),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED.split()),
            *("-cp", os.pathsep.join(map(str, class_path)), _MAIN_CLASS),
            *("--spark-master-url", master.url, "--artifacts-dir", str(self.scratch / "artifacts")),
            *("--job-port", "0", "--artifact-port", "0", "--expansion-port", "0"),
        ]
        file = self.scratch / "arguments"
        file.write_text(argument_file(arguments), "utf-8")
        command = [str(java), f"@{file}"]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]
        with self.log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.scratch,
                env={name: value for name, value in os.environ.items() if name != _JAVAS_PROXY},
                start_new_session=True,  # Ctrl-C is for the job, which then ends the server in order
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code of the JVM, or None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self) -> str:
        """Wait until the server serves and return its endpoint, `localhost:port`.

        Raises SparkSetupError when it ends instead, or says nothing for two minutes.
        """
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            ended = self.exit_code is not None
            with self.log.open("rb") as file:
                file.seek(self._from)
                said = file.read()
            if found := _STARTED.search(said):
                return f"localhost:{int(found[1])}"
            if ended:
                raise SparkSetupError(f"Spark's job server ended at its start ({_last_words(said)}); the log is {self.log}.")
            time.sleep(0.02)
        raise SparkSetupError(f"Spark's job server did not start within {_START_SECONDS:.0f} s; the log is {self.log}.")

    def close(self, *, succeeded: bool = False, at_once: bool = False) -> None:
        """End the JVM: ask, wait, then kill, without waiting `at_once`; calling it again does nothing.

        After success the first one writes its classes for faster starts, and has the time for it.
        """
        if self._process is None or self.exit_code is not None:
            return
        archive = self._archive if self._archive and self._archive.missing else None
        patience = 0.0 if at_once else _PATIENCE_SECONDS
        if archive and succeeded:
            tell("Keeping Spark's classes for faster starts, once ...")
            patience = _ARCHIVE_SECONDS
        self._process.terminate()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if archive:
            archive.keep() if succeeded else archive.discard()

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def argument_file(arguments: Sequence[str]) -> str:
    r"""The arguments as a file that Java's launcher reads: one a line, in quotes.

    >>> print(argument_file(["-cp", "my jars/a.jar"]))
    "-cp"
    "my jars/a.jar"
    """
    return "\n".join('"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in arguments)


def spark_jars() -> list[Path]:
    """Spark's own jars, as PySpark brings them. Raises SparkSetupError when PySpark is absent or not 3.5."""
    found = find_spec("pyspark")  # its import takes a while, and brings nothing else that is needed
    if found is None or not found.submodule_search_locations:
        raise SparkSetupError("PySpark is not installed; pip install 'pyspark>=3.5,<4'.")
    there = version("pyspark")
    if not there.startswith("3.5."):
        raise SparkSetupError(f"PySpark {there} is installed but Beam's runner is built for Spark 3.5; pip install 'pyspark>=3.5,<4'.")
    return sorted(Path(found.submodule_search_locations[0], "jars").glob("*.jar"))


def _last_words(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "Unrecognized" in line]
    return (telling or lines or ["it said nothing"])[0][:200]
