"""Runs a Beam job server as a child process: starts it, learns its port, and stops it without remains."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from beam_joins.pipelines.runners.class_archive import ClassArchive
from beam_joins.pipelines.runners.jars import is_writable, locked_jars, provide
from beam_joins.pipelines.runners.java import java_launcher
from beam_joins.pipelines.runners.loopback import loopback_jar
from beam_joins.pipelines.runners.run_log import tell
from beam_joins.pipelines.runners.runner import PID_FILE, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_START_SECONDS, _ARCHIVE_SECONDS, _PATIENCE_SECONDS = 120.0, 60.0, 5.0
_STARTED = re.compile(rb"JobService started on \S+:(\d+)")

# Measured: the second compiler and G1 cost more processor time than they save, even in a job of minutes.
_JVM = ("-XX:+UseParallelGC", "-Xmn256m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# gRPC for Java sends all connections there, and all of the server's are to this machine or its cluster.
_JAVAS_PROXY = "GRPC_PROXY_EXP"

# The kernel ends the JVM with its parent, even if the parent is killed; the JVM cannot ask for that itself.
_TIED = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class JobServer:
    """A job server's process; its output goes to the file `log`.

    `scratch` is a new directory, for staged artifacts and the runner's local files; `remove` removes it.
    """

    def __init__(self, options: ServerOptions, log: Path) -> None:
        """Make the directory."""
        self.options, self.log = options, log
        self.scratch = Path(tempfile.mkdtemp(prefix=f"beam-{options.runner.slug}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None
        self._from = 0

    def start(self, *, offline: bool = False) -> None:
        """Start the process, unless it runs already; `wait` then gives its endpoint.

        Jars that are missing are fetched. Raises RunnerSetupError when that fails, is not to be done
        (`offline`), or there is no Java.
        """
        if self._process is not None:
            return
        runner, options = self.options.runner, self.options
        java, kept = java_launcher(options.java), options.cache / runner.slug
        # in a folder for each runner: a jar's manifest names others beside it, which come along where they
        # are
        # Beam's come first, as Spark's older guava would win otherwise
        locked = locked_jars(runner.slug)
        beam = provide(locked, of=runner.name, cache=kept, repository=options.repository, progress=sys.stderr, offline=offline)
        class_path = [*beam, *runner.provided()]
        keeps = is_writable(kept)
        if options.master.cores is not None:  # executors of a cluster talk to each other
            class_path.insert(0, loopback_jar(beam, kept if keeps else self.scratch))
        if keeps:
            self._archive = ClassArchive(java, class_path, kept)
        jvm, program = runner.arguments(options, self.scratch)
        arguments = [
            *_JVM,
            *(self._archive.use() if self._archive else ()),
            *options.jvm,
            *jvm,
            f"-Djava.io.tmpdir={self.scratch}",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in runner.opened.split()),
            *("-cp", os.pathsep.join(map(str, class_path)), runner.main_class),
            *program,
            *("--artifacts-dir", str(self.scratch / "artifacts")),
            *("--job-host", "127.0.0.1", "--job-port", "0", "--artifact-port", "0", "--expansion-port", "0"),
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
        (self.scratch / PID_FILE).write_text(str(self._process.pid), "ascii")

    @property
    def exit_code(self) -> int | None:
        """The exit code of the JVM, or None while it runs."""
        return self._process.poll() if self._process else None

    def exit_code_within(self, seconds: float) -> int | None:
        """The exit code of the JVM if it ends within so many seconds, else None."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        return self.exit_code

    def wait(self) -> str:
        """Wait until the server serves and return its endpoint, `127.0.0.1:port`.

        Raises RunnerSetupError when it ends instead, or says nothing for two minutes.
        """
        until, name = time.monotonic() + _START_SECONDS, self.options.runner.name
        while time.monotonic() < until:
            ended = self.exit_code is not None
            log = self.log_text()
            if started := _STARTED.search(log):
                return f"127.0.0.1:{int(started[1])}"
            if ended:
                raise RunnerSetupError(f"{name}'s job server ended at its start ({_last_words(log)}); the log is {self.log}.")
            time.sleep(0.02)
        raise RunnerSetupError(f"{name}'s job server did not start within {_START_SECONDS:.0f} s; the log is {self.log}.")

    def log_text(self) -> bytes:
        """The content of the log so far."""
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read()

    def close(self, *, succeeded: bool = False, at_once: bool = False) -> None:
        """Ends the JVM: asks it, waits, then kills it, without waiting `at_once`; a second call does nothing.

        After success the first one writes its classes for faster starts, and has the time for it.
        """
        if self._process is None or self.exit_code is not None:
            return
        archive = self._archive if self._archive and self._archive.missing else None
        patience = 0.0 if at_once else _PATIENCE_SECONDS
        if archive and succeeded:
            tell(f"Keeping {self.options.runner.name}'s classes for faster starts, once ...")
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


def _last_words(log: bytes) -> str:
    lines = [line.strip() for line in log.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "Unrecognized" in line]
    return (telling or lines or ["it said nothing"])[0][:200]
