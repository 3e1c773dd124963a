"""A run of a writer as processes of its own: what belongs to it, how it ends, and what it leaves."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import psutil
import pyarrow.parquet as pq

from tests.pipelines.orders_run import ENVIRONMENT, read_lines
from tests.pipelines.writers import Writer

_MARK: Final = "BEAM_JOINS_TEST_RUN"
_TRIAL: Final = re.compile("[a-z0-9_]{8}")
_PATIENCE: Final = 60.0
_LONGEST: Final = 120.0


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """What it said, without where its log is, and that it keeps the JVM's classes."""
        return [line for line in self.err.splitlines() if not line.startswith(("Spark's log: ", "Keeping Spark's classes", "WARNING"))]


class Started:
    """A writer, started in the working directory; its temporary files are below ``tmp`` there."""

    def __init__(self, writer: Writer, arguments: Sequence[object] = (), *, through: Sequence[str] = (), **more: str) -> None:
        self._mark = uuid4().hex
        Path("tmp").mkdir(exist_ok=True)
        environment = {**ENVIRONMENT, "TMPDIR": os.path.abspath("tmp"), _MARK: self._mark, **more}
        command = [*through, sys.executable, "-m", writer.module, *map(str, [*writer.arguments, *arguments])]
        with open("tmp/.out", "w") as out, open("tmp/.err", "w") as err:
            self.driver = subprocess.Popen(command, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)

    def processes(self) -> list[psutil.Process]:
        """All that belong to the run, whoever their parents are by now."""
        return [process for process, _, _ in self._processes()]

    def java(self) -> psutil.Process | None:
        """The JVM: job server, driver and executors of Spark."""
        return next((process for process, name, _ in self._processes() if name == "java"), None)

    def workers(self) -> list[psutil.Process]:
        """Python workers: what the keeper, a child of the driver, has forked."""
        mine = [(process, parent) for process, name, parent in self._processes() if name != "java"]
        keepers = {process.pid for process, parent in mine if parent == self.driver.pid}
        return [process for process, parent in mine if parent in keepers]

    def _processes(self) -> list[tuple[psutil.Process, str, int]]:
        """Each with its name and the number of its parent."""
        actual = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    actual.append((process, process.name(), process.ppid()))
            except psutil.Error:
                continue
        return actual

    def is_writing(self) -> bool:
        """Whether the pipeline is at its results."""
        return any(Path("out").glob("**/.beam_joins-*/*"))

    def once(self, present: Callable[[], object]) -> bool:
        """Wait until something is there; false if the run has ended before."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self.driver.poll() is None:
            if present():
                return True
            time.sleep(0.02)
        return False

    def end(self) -> Ended:
        """Wait for its end, and require that no process is left then."""
        try:
            code = self.driver.wait(_LONGEST)
            until = time.monotonic() + _PATIENCE
            while (left := self.processes()) and time.monotonic() < until:
                time.sleep(0.1)
            assert not left, [process.cmdline()[:4] for process in left]
        finally:
            for process in self.processes():
                process.kill()
        return Ended(code, Path("tmp/.out").read_text(), Path("tmp/.err").read_text())


def temporary_files() -> list[str]:
    """What runs have left below ``tmp``, but logs of failures."""
    paths = (path for path in Path("tmp").rglob("*") if path.name not in (".out", ".err") and path.suffix != ".log")
    return sorted(str(path) for path in paths if not _is_trial(path))


def _is_trial(path: Path) -> bool:
    """Whether a file is that by which ``tempfile`` finds out that it can write into ``tmp``: a kill leaves it there."""
    return path.parent == Path("tmp") and _TRIAL.fullmatch(path.name) is not None and path.read_bytes() in (b"", b"blat")


def results() -> dict[str, object]:
    """The results, those of runs that stand alone as their records in any order; what is hidden is none."""
    actual: dict[str, object] = {}
    for path in sorted(Path("out").rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.parts):
            rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else read_lines(path)
            actual[str(path)] = sorted(map(str, rows))
    return actual


def hidden() -> list[str]:
    """Claims and staging directories that are still there."""
    return sorted(str(path) for path in Path("out").rglob(".*")) if Path("out").exists() else []
