"""Beam's Spark job server as a child process: start it, learn its port, and leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from beam_joins.pipelines.launcher.setup_error import SparkSetupError

_START_SECONDS = 120.0
_STOP_SECONDS = 15.0
_STARTED = re.compile(rb"JobService started on \S+:(\d+)")

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


class JobServer:
    """A running job server; `close` ends it.

    `jar` is the pathing jar, `master` what Spark's `--master` takes, `scratch` an existing directory for staged
    artifacts and Spark's local files, `log` the file that gets all output. `jvm` are further options of the JVM.
    """

    def __init__(self, *, java: Path, jar: Path, master: str, scratch: Path, log: Path, jvm: Sequence[str]) -> None:
        """Start the process; `wait` then gives its endpoint."""
        self._log = log
        (scratch / "log4j2.properties").write_text(_LOG4J, "utf-8")
        command = [
            str(java),
            *jvm,
            f"-Djava.io.tmpdir={scratch}",
            f"-Dspark.local.dir={scratch}",
            f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'}",
            *("-jar", str(jar), "--spark-master-url", master, "--artifacts-dir", str(scratch / "artifacts")),
            *("--job-port", "0", "--artifact-port", "0", "--expansion-port", "0"),
        ]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]
        with log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env={name: value for name, value in os.environ.items() if name != _JAVAS_PROXY},
                start_new_session=True,  # Ctrl-C is for the job, which then ends the server in order
            )

    @property
    def pid(self) -> int:
        """The process id of the JVM."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the JVM, or None while it runs."""
        return self._process.poll()

    def wait(self) -> str:
        """Wait until the server serves and return its endpoint, `localhost:port`.

        Raises SparkSetupError when it ends instead, or says nothing for two minutes.
        """
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            ended = self.exit_code is not None
            said = self._said()
            found = _STARTED.search(said)
            if found:
                return f"localhost:{int(found[1])}"
            if ended:
                raise SparkSetupError(f"Spark's job server ended at its start ({_last_words(said)}); the log is {self._log}.")
            time.sleep(0.02)
        raise SparkSetupError(f"Spark's job server did not start within {_START_SECONDS:.0f} s; the log is {self._log}.")

    def _said(self) -> bytes:
        with self._log.open("rb") as file:
            file.seek(self._from)
            return file.read()

    def close(self, patience: float = _STOP_SECONDS) -> None:
        """End the JVM: ask, wait for `patience` seconds, then kill. Calling it again does nothing."""
        if self.exit_code is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def _last_words(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "Unrecognized" in line]
    return (telling or lines or ["it said nothing"])[0][:200]
