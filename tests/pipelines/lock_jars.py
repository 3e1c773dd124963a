"""Write `jars.lock` anew: resolve Beam's Spark runner with Maven and record coordinates and SHA-256.

    python -m tests.pipelines.lock_jars

It needs `mvn` on the path. Users of the package only read the lock file.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from beam_joins.pipelines.launcher import jars
from beam_joins.pipelines.launcher.jars import Jar
from beam_joins.pipelines.launcher.job_server import spark_jars

BEAM_VERSION = "2.62.0"
ROOTS = ("beam-runners-spark-3", "beam-runners-java-job-service")

# Spark's own in a version as new or newer, or a placeholder that hides a class.
LEFT_OUT = {"slf4j-api", "listenablefuture"}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lock</groupId> <artifactId>lock</artifactId> <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>org.apache.beam</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_RESOLVED = re.compile(r"^\s*([\w.-]+):([\w.-]+):jar:([\w.-]+):(?:compile|runtime):(\S+\.jar)")


def resolve() -> list[Jar]:
    """All jars that the two roots need at run time, sorted, without those that Spark provides."""
    with tempfile.TemporaryDirectory() as scratch:
        dependencies = "".join(_DEPENDENCY.format(root, BEAM_VERSION) for root in ROOTS)
        Path(scratch, "pom.xml").write_text(_POM.format(dependencies=dependencies), "utf-8")
        goal = [
            "dependency:list",
            "-DincludeScope=runtime",
            "-DoutputAbsoluteArtifactFilename=true",
            "-DoutputFile=out",
        ]
        subprocess.run(["mvn", "-q", "-B", *goal], cwd=scratch, check=True)
        lines = Path(scratch, "out").read_text("utf-8").splitlines()
    provided = dict(map(_name_and_version, spark_jars()))
    found = []
    for group, artifact, version, path in (match.groups() for match in map(_RESOLVED.match, lines) if match):
        same_major = provided.get(artifact, ("",))[0] == _numbers(version)[0]
        if artifact in LEFT_OUT or (same_major and provided[artifact] >= _numbers(version)):
            continue
        found.append(Jar(group, artifact, version, hashlib.sha256(Path(path).read_bytes()).hexdigest()))
    return sorted(found)


def _name_and_version(path: Path) -> tuple[str, tuple[int, ...]]:
    found = re.match(r"(.+?)-(\d[\w.-]*)$", path.stem)
    return (found[1], _numbers(found[2])) if found else (path.stem, (-1,))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("-", maxsplit=1)[0])) or (-2,)


def main() -> None:
    """Write the lock file beside the module that reads it."""
    head = f"# Beam's Spark runner {BEAM_VERSION} without Spark. Written by: python -m tests.pipelines.lock_jars\n"
    lines = [f"{jar.group}:{jar.artifact}:{jar.version} {jar.sha256}\n" for jar in resolve()]
    Path(jars.__file__).with_name("jars.lock").write_text(head + "".join(lines), "utf-8")
    print(f"{len(lines)} jars locked", file=sys.stderr)


if __name__ == "__main__":
    main()
