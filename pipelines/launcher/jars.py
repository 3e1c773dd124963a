"""Beam's Spark runner as jars: a lock file, and Beam's own jar cache, verified.

    python -m beam_joins.pipelines.launcher.jars

fetches what is missing, so that later starts need no network. Spark itself is the one inside PySpark.
"""

import errno
import hashlib
import logging
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TextIO

from apache_beam.utils.subprocess_server import JavaJarServer

from beam_joins.pipelines.launcher.setup_error import SparkSetupError

_THREADS = 16
_SILENCE_SECONDS = 30.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS)
_ALL_MB = 100
_ELSEWHERE = "name another directory with --jar_cache_dir"


@dataclass(frozen=True, order=True)
class Jar:
    """One line of the lock file: Maven coordinates and the SHA-256 of the jar.

    >>> Jar.parse("args4j:args4j:2.33 91ddeaba0b24adce72291c618c00bbdce1c884755f6c4dba9c5c46e871c69ed6").file_name
    'args4j-2.33.jar'
    """

    group: str
    artifact: str
    version: str
    sha256: str

    @classmethod
    def parse(cls, line: str) -> "Jar":
        """Read `group:artifact:version sha256`; a line of another shape is a ValueError."""
        try:
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
        except ValueError:
            raise ValueError(f"not a line of the form 'group:artifact:version sha256': {line!r}") from None
        return cls(group, artifact, version, sha256)

    @property
    def file_name(self) -> str:
        """The name of the jar in Beam's cache."""
        return str(JavaJarServer.jar_name(self.artifact, self.version))

    def url(self, repository: str | None = None) -> str:
        """Where Beam's helper would look for the jar; `repository` is a Maven repository's root."""
        root = repository or JavaJarServer.MAVEN_CENTRAL_REPOSITORY
        return str(JavaJarServer.path_to_maven_jar(self.artifact, self.group, self.version, root.rstrip("/")))


def locked_jars() -> list[Jar]:
    """The jars of Beam's Spark runner as committed in `jars.lock`."""
    text = resources.files("beam_joins.pipelines.launcher").joinpath("jars.lock").read_text("utf-8")
    return [Jar.parse(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def provide(
    jars: Sequence[Jar],
    *,
    cache: Path | None = None,
    repository: str | None = None,
    fetch: Callable[[str, str], str] = JavaJarServer.local_jar,
    progress: TextIO | None = sys.stderr,
) -> list[Path]:
    """Return the paths of `jars` in the cache, each with the SHA-256 that the lock file names.

    A jar that is missing, or whose bytes are not the locked ones, is fetched with `fetch(url, directory)` into a
    directory of its own, and moves into the cache only after its SHA-256 is right; so the cache never holds a half
    jar. Nothing is fetched when all are there.

    Raises SparkSetupError when a jar cannot be fetched, is not the locked one even after fetching, or cannot be kept.
    """
    directory = Path(cache or JavaJarServer.JAR_CACHE)
    paths = [directory / jar.file_name for jar in jars]
    with ThreadPoolExecutor(_THREADS) as threads:
        intact = list(threads.map(_is_intact, jars, paths))
    wanted = [jar for jar, good in zip(jars, intact, strict=True) if not good]
    if wanted:
        try:
            _fetch_all(wanted, directory, repository, fetch, progress)
        except OSError as error:
            raise SparkSetupError(_cannot_keep(directory, error)) from None
    return paths


def is_writable(directory: Path) -> bool:
    """Whether files can be made in the directory, which is itself made if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _cannot_keep(directory: Path, error: OSError) -> str:
    if error.errno in _FULL:
        return f"There is no room for the jars of Beam's Spark runner in {directory}; free {_ALL_MB} MB there, or {_ELSEWHERE}."
    return f"The jars of Beam's Spark runner cannot be written into {directory} ({error.strerror or error}); {_ELSEWHERE}."


def _is_intact(jar: Jar, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _fetch_all(jars: Sequence[Jar], cache: Path, repository: str | None, fetch: Callable[[str, str], str], out: TextIO | None) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    corrupted = [jar.file_name for jar in jars if (cache / jar.file_name).exists()]
    report = _Progress(len(jars), cache, out)
    if corrupted:
        report.say(f"{len(corrupted)} cached jar(s) do not have the locked SHA-256, fetching again: {corrupted[0]}")
    with (
        _quiet_and_impatient(),
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as scratch,
        ThreadPoolExecutor(_THREADS) as threads,
    ):
        waiting = [threads.submit(_fetch_one, jar, cache, Path(scratch), repository, fetch) for jar in jars]
        try:
            for done in as_completed(waiting):
                report.fetched(done.result())
        finally:
            threads.shutdown(cancel_futures=True)
            report.end()


def _fetch_one(jar: Jar, cache: Path, scratch: Path, repository: str | None, fetch: Callable[[str, str], str]) -> int:
    place = cache / jar.file_name
    try:
        fetched = Path(fetch(jar.url(repository), str(scratch)))
    except (RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            raise
        state = "is corrupted" if place.exists() else "is not there"
        raise SparkSetupError(
            f"The jar {place} {state} and could not be fetched ({_reason(error)}); connect to the network once, or copy "
            f"the directory {cache} from a machine where it is filled."
        ) from None
    if not _is_intact(jar, fetched):
        raise SparkSetupError(
            f"The jar {jar.file_name} as fetched does not have the SHA-256 {jar.sha256} of the lock file, so it was "
            f"thrown away; try again, or look at what stands between this machine and the Maven repository."
        )
    size = fetched.stat().st_size
    os.replace(fetched, place)
    return size


def _reason(error: Exception) -> str:
    # Beam packs the URL error of two repositories into one text; the part in angle brackets is the cause.
    text = str(error)
    start = text.find("<urlopen error ")
    return text[start + 15 : text.find(">", start)] if start >= 0 else text.split(". ", maxsplit=1)[0][:200]


@contextmanager
def _quiet_and_impatient() -> Iterator[None]:
    # Beam warns once per jar about public repositories, and its fetch has no time limit of its own.
    logger = logging.getLogger(JavaJarServer.__module__)
    level, timeout = logger.level, socket.getdefaulttimeout()
    logger.setLevel(logging.ERROR)
    if timeout is None:
        socket.setdefaulttimeout(_SILENCE_SECONDS)
    try:
        yield
    finally:
        logger.setLevel(level)
        socket.setdefaulttimeout(timeout)


class _Progress:
    """One line on a terminal that grows; a first and a last line elsewhere."""

    def __init__(self, jars: int, cache: Path, out: TextIO | None) -> None:
        self._jars, self._cache, self._out = jars, cache, out
        self._done, self._bytes, self._start = 0, 0, time.monotonic()
        self._lock = threading.Lock()
        if not self._terminal():
            self.say(f"fetching {jars} jars of Beam's Spark runner into {cache}")

    def _terminal(self) -> bool:
        return self._out is not None and self._out.isatty()

    def say(self, line: str) -> None:
        if self._out is not None:
            print(line, file=self._out, flush=True)

    def fetched(self, size: int) -> None:
        with self._lock:
            self._done, self._bytes = self._done + 1, self._bytes + size
        if self._terminal() and self._out is not None:
            line = f"\rfetching Beam's Spark runner: {self._done} of {self._jars} jars, {self._bytes / 1e6:.0f} MB"
            self._out.write(line)
            self._out.flush()

    def end(self) -> None:
        seconds = time.monotonic() - self._start
        start = "\r" if self._terminal() else ""
        self.say(f"{start}fetched {self._done} of {self._jars} jars, {self._bytes / 1e6:.0f} MB in {seconds:.0f} s")


def main() -> None:
    """Fetch the jars that are missing, and print where they are."""
    try:
        there = provide(locked_jars())
    except SparkSetupError as failure:
        sys.exit(f"{failure}")
    print(f"{len(there)} jars of Beam's Spark runner are in {there[0].parent}")


if __name__ == "__main__":
    main()
