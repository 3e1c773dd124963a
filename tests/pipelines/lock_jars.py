"""Write the lock files anew: resolve Beam's runners with Maven and record coordinates and SHA-256.

    python -m tests.pipelines.lock_jars [spark] [flink] [kafka] [yarn]

It needs `mvn` on the path. Users of the package only read the lock files; Kafka's and YARN's are for the tests alone.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from beam_joins.pipelines.runners import jars
from beam_joins.pipelines.runners.jars import Jar
from beam_joins.pipelines.runners.spark_server import spark_jars

BEAM = "2.62.0"
LAUNCHER = Path(jars.__file__).parent


class Lock(NamedTuple):
    """A lock file: what its first line says, the roots of its jars, those that are left out, and those that
    are provided.
    """

    place: Path
    title: str
    roots: Sequence[str]
    left_out: frozenset[str] = frozenset()
    provided: Callable[[], list[Path]] = list


LOCKS = {
    "spark": Lock(
        LAUNCHER,
        f"Beam's Spark runner {BEAM} without Spark",
        [f"org.apache.beam:{artifact}:{BEAM}" for artifact in ("beam-runners-spark-3", "beam-runners-java-job-service")],
        # Spark's own in a version as new or newer, or a placeholder that hides a class.
        left_out=frozenset({"slf4j-api", "listenablefuture"}),
        provided=spark_jars,
    ),
    "flink": Lock(
        LAUNCHER,
        f"Beam's Flink runner {BEAM} with Flink 1.19",
        [
            f"org.apache.beam:beam-runners-flink-1.19:{BEAM}",
            "org.apache.flink:flink-statebackend-rocksdb:1.19.0",
            "org.slf4j:slf4j-simple:1.7.30",
        ],
    ),
    # its web pages and its tokens need what is not among its dependencies
    "yarn": Lock(
        Path(__file__).parent,
        "Hadoop's YARN 3.3.4 without what PySpark has",
        ["org.apache.hadoop:hadoop-client-minicluster:3.3.4", "org.bouncycastle:bcpkix-jdk15on:1.70"],
        left_out=frozenset({"hadoop-client-api", "hadoop-client-runtime", "hamcrest-core", "jsr305", "junit", "slf4j-api"}),
        provided=spark_jars,
    ),
    "kafka": Lock(
        Path(__file__).parent / "streaming",
        "A Kafka broker and Kafka Streams 4.3.1",
        [f"org.apache.kafka:{artifact}:4.3.1" for artifact in ("kafka_2.13", "kafka-streams")],
    ),
}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lock</groupId> <artifactId>lock</artifactId> <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_RESOLVED = re.compile(r"^\s*([\w.-]+):([\w.-]+):jar:([\w.-]+):(?:compile|runtime):(\S+\.jar)")


def resolve(lock: Lock) -> list[Jar]:
    """All jars that the roots need at run time, sorted, without those that are provided."""
    with tempfile.TemporaryDirectory() as scratch:
        dependencies = "".join(_DEPENDENCY.format(*root.split(":")) for root in lock.roots)
        Path(scratch, "pom.xml").write_text(_POM.format(dependencies=dependencies), "utf-8")
        goal = [
            "dependency:list",
            "-DincludeScope=runtime",
            "-DoutputAbsoluteArtifactFilename=true",
            "-DoutputFile=out",
        ]
        subprocess.run(["mvn", "-q", "-B", *goal], cwd=scratch, check=True)
        lines = Path(scratch, "out").read_text("utf-8").splitlines()
    provided = dict(map(_name_and_version, lock.provided()))
    actual = []
    for group, artifact, version, path in (match.groups() for match in map(_RESOLVED.match, lines) if match):
        same_major = provided.get(artifact, ("",))[0] == _numbers(version)[0]
        if artifact in lock.left_out or (same_major and provided[artifact] >= _numbers(version)):
            continue
        actual.append(Jar(group, artifact, version, hashlib.sha256(Path(path).read_bytes()).hexdigest()))
    return sorted(actual)


def _name_and_version(path: Path) -> tuple[str, tuple[int, ...]]:
    actual = re.match(r"(.+?)-(\d[\w.-]*)$", path.stem)
    return (actual[1], _numbers(actual[2])) if actual else (path.stem, (-1,))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("-", maxsplit=1)[0])) or (-2,)


def main(names: Sequence[str]) -> None:
    """Write these lock files."""
    for name in names:
        lock = LOCKS[name]
        head = f"# {lock.title}. Written by: python -m tests.pipelines.lock_jars {name}\n"
        lines = [f"{jar.group}:{jar.artifact}:{jar.version} {jar.sha256}\n" for jar in resolve(lock)]
        (lock.place / f"{name}.lock").write_text(head + "".join(lines), "utf-8")
        print(f"{name}: {len(lines)} jars locked", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:] or list(LOCKS))
