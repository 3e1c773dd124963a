"""One jar that stands for a class path: Beam's Spark job server in front, the Spark that PySpark brings behind it."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from beam_joins.pipelines.launcher.setup_error import SparkSetupError

MAIN_CLASS = "org.apache.beam.runners.spark.SparkJobServerDriver"

# What Spark opens for itself on Java 17 (org.apache.spark.launcher.JavaModuleOptions).
ADD_OPENS = (
    "java.base/java.lang java.base/java.lang.invoke java.base/java.lang.reflect java.base/java.io java.base/java.net "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action "
    "java.base/sun.util.calendar java.security.jgss/sun.security.krb5"
)

_LINE_BYTES = 72


def manifest(class_path: Sequence[Path], directory: Path) -> bytes:
    """The manifest of a jar that starts the job server with `class_path`, wrapped as the jar format demands.

    A line holds at most 72 bytes without its line end, and a continuation starts with one space. Entries are relative
    to the `directory` of the jar: a class data archive takes no classes from file URLs.
    """
    headers = {
        "Manifest-Version": "1.0",
        "Main-Class": MAIN_CLASS,
        "Add-Opens": ADD_OPENS,
        "Class-Path": " ".join(quote(os.path.relpath(path, directory)) for path in class_path),
    }
    return b"".join(_wrapped(f"{name}: {value}".encode()) for name, value in headers.items()) + b"\r\n"


def _wrapped(line: bytes) -> bytes:
    first, rest = line[:_LINE_BYTES], line[_LINE_BYTES:]
    width = _LINE_BYTES - 1
    pieces = [first] + [b" " + rest[start : start + width] for start in range(0, len(rest), width)]
    return b"\r\n".join(pieces) + b"\r\n"


def spark_jars() -> list[Path]:
    """Spark's own jars, as PySpark brings them. Raises SparkSetupError when PySpark is absent or not 3.5."""
    try:
        import pyspark  # noqa: PLC0415, needed for Spark only
    except ImportError:
        raise SparkSetupError("PySpark is not installed; pip install 'pyspark>=3.5,<4'.") from None
    if not pyspark.__version__.startswith("3.5."):
        raise SparkSetupError(
            f"PySpark {pyspark.__version__} is installed but Beam's runner is built for Spark 3.5; pip install 'pyspark>=3.5,<4'."
        )
    return sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))


def pathing_jar(beam: Sequence[Path], spark: Sequence[Path], directory: Path) -> Path:
    """Write a jar that holds only a manifest, with Beam's jars before Spark's, and return its path.

    Beam's come first because Spark's older guava would win otherwise. The name depends on the content, so that different installations do not
    disturb each other.
    """
    directory.mkdir(parents=True, exist_ok=True)
    content = manifest([*beam, *spark], directory.absolute())
    jar = directory / f"beam-spark-job-server-{hashlib.sha256(content).hexdigest()[:16]}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory(prefix=".pathing-", dir=directory) as scratch:
            draft = Path(scratch) / jar.name
            with zipfile.ZipFile(draft, "w") as archive:
                archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), content)
            os.replace(draft, jar)
    return jar
