"""Downloads and verifies the jars of Beam's runners by lock files, into Beam's jar cache.

    python -m beam_joins.pipelines.runners.jars [spark] [flink]

fetches what is missing, so that later starts need no network. Spark itself is the one inside PySpark; Flink
is among its jars.
"""

import errno
import hashlib
import io
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TextIO

from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

CACHE = Path("~/.apache_beam/cache/jars").expanduser()
"""Where Beam keeps jars."""

RUNNERS = ("spark", "flink")
"""The runners that have a lock file."""

_THREADS = 16
_SILENCE_SECONDS = 30.0
_PAUSES = (1.0, 4.0)
_PASSING = ("Temporary failure", "timed out", "Connection reset", "HTTP Error 429", "HTTP Error 502", "HTTP Error 503")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS)
_ELSEWHERE = "name another directory with --jar_cache_dir"


class Jar(NamedTuple):
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
        parts = line.replace(":", " ").split()
        if len(parts) != 4:
            raise ValueError(f"not a line of the form 'group:artifact:version sha256': {line!r}")
        return cls(*parts)

    @property
    def file_name(self) -> str:
        """The name of the jar in Beam's cache."""
        return f"{self.artifact}-{self.version}.jar"

    def is_at(self, path: Path) -> bool:
        """Whether the file has the SHA-256 of the lock file."""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False


def locked_jars(runner: str = "spark") -> list[Jar]:
    """The jars of Beam's runner as committed in its lock file."""
    text = resources.files("beam_joins.pipelines.runners").joinpath(f"{runner}.lock").read_text("utf-8")
    return [Jar.parse(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def provide(
    jars: Sequence[Jar],
    *,
    of: str = "Spark",
    cache: Path = CACHE,
    repository: str | None = None,
    fetch: Callable[[str, str], str] | None = None,
    progress: TextIO | None = None,
    offline: bool = False,
) -> list[Path]:
    """Return the paths of `jars` in the cache, each with the SHA-256 that the lock file names.

    A jar that is missing, or whose bytes are not the locked ones, is fetched with `fetch(url, directory)`, by
    default Beam's own, into a directory of its own, and moves into the cache only after its SHA-256 is right;
    so the cache never holds a half jar. Nothing is fetched when all are there.

    Raises RunnerSetupError when a jar cannot be fetched, is not the locked one even after fetching, or cannot
    be kept; and when one is missing while `offline`.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        intact = list(threads.map(lambda jar: jar.is_at(cache / jar.file_name), jars))
    wanted = [jar for jar, good in zip(jars, intact, strict=True) if not good]
    if wanted and offline:
        raise RunnerSetupError(f"{len(wanted)} jars of Beam's {of} runner are not in {cache}.")
    if wanted:
        try:
            _fetch_all(wanted, of, cache, repository, fetch, progress or io.StringIO())
        except OSError as error:
            if error.errno in _FULL:
                reason = f"There is no room for the jars of Beam's {of} runner in {cache}; free 200 MB there, or {_ELSEWHERE}."
            else:
                problem = error.strerror or error
                reason = f"The jars of Beam's {of} runner cannot be written into {cache} ({problem}); {_ELSEWHERE}."
            raise RunnerSetupError(reason) from None
    return [cache / jar.file_name for jar in jars]


def is_writable(directory: Path) -> bool:
    """Whether files can be created in the directory, which is created if it does not exist."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _fetch_all(
    jars: Sequence[Jar], of: str, cache: Path, repository: str | None, fetch: Callable[[str, str], str] | None, out: TextIO
) -> None:
    from apache_beam.utils.subprocess_server import JavaJarServer  # noqa: PLC0415, most starts fetch nothing

    root = (repository or JavaJarServer.MAVEN_CENTRAL_REPOSITORY).rstrip("/")
    urls = [JavaJarServer.path_to_maven_jar(jar.artifact, jar.group, jar.version, root) for jar in jars]
    cache.mkdir(parents=True, exist_ok=True)
    print(f"Fetching {len(jars)} jars of Beam's {of} runner into {cache}, once ...", file=out, flush=True)
    sizes: list[int] = []
    with (
        Progress(out).phase("fetching", lambda: f"{len(sizes)} of {len(jars)} jars, {sum(sizes) / 1e6:.0f} MB"),
        _quiet_and_impatient(),
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as scratch,
        ThreadPoolExecutor(_THREADS) as threads,
    ):
        one = fetch or JavaJarServer.local_jar
        waiting = [threads.submit(_fetch_one, jar, cache, partial(one, url, scratch)) for jar, url in zip(jars, urls, strict=True)]
        try:
            sizes.extend(done.result() for done in as_completed(waiting))
        finally:
            threads.shutdown(cancel_futures=True)


def _fetch_one(jar: Jar, cache: Path, fetch: Callable[[], str]) -> int:
    place = cache / jar.file_name
    for pause in (*_PAUSES, None):
        try:
            fetched = Path(fetch())
            break
        except (RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno in _UNWRITABLE:
                raise
            failure = error
        if jar.is_at(place):  # another process has fetched it
            return place.stat().st_size
        if pause is None or not any(sign in str(failure) for sign in _PASSING):
            state = "is corrupted" if place.exists() else "is not there"
            raise RunnerSetupError(
                f"The jar {place} {state} and could not be fetched ({_reason(failure)}); connect to the network once, or copy "
                f"the directory {cache} from a machine where it is filled."
            )
        time.sleep(pause)
    if not jar.is_at(fetched):
        raise RunnerSetupError(
            f"The jar {jar.file_name} as fetched does not have the SHA-256 {jar.sha256} of the lock file, so it was "
            f"thrown away; try again, or look at what stands between this machine and the Maven repository."
        )
    os.replace(fetched, place)
    return place.stat().st_size


def _reason(error: Exception) -> str:
    # Beam packs the URL error of two repositories into one text; the part in angle brackets is the cause.
    text = str(error)
    start = text.find("<urlopen error ")
    return text[start + 15 : text.find(">", start)] if start >= 0 else text.split(". ", maxsplit=1)[0][:200]


@contextmanager
def _quiet_and_impatient() -> Iterator[None]:
    # Beam warns once per jar about public repositories, and its fetch has no time limit of its own.
    logger = logging.getLogger("apache_beam.utils.subprocess_server")
    level, timeout = logger.level, socket.getdefaulttimeout()
    logger.setLevel(logging.ERROR)
    socket.setdefaulttimeout(timeout or _SILENCE_SECONDS)
    try:
        yield
    finally:
        logger.setLevel(level)
        socket.setdefaulttimeout(timeout)


def main(runners: Sequence[str] = ("spark",)) -> None:
    """Downloads the missing jars of these runners, and prints where they are."""
    for runner in runners:
        if runner not in RUNNERS:
            sys.exit(f"{runner} is not one of {' and '.join(RUNNERS)}.")
        try:
            files = provide(locked_jars(runner), of=runner.capitalize(), cache=CACHE / runner, progress=sys.stderr)
        except RunnerSetupError as failure:
            sys.exit(f"{failure}")
        print(f"{len(files)} jars of Beam's {runner.capitalize()} runner are in {files[0].parent}")


if __name__ == "__main__":
    main(sys.argv[1:] or RUNNERS[:1])
