"""Environments of their own for contestants whose dependencies clash with the project's: made on first use,
from pinned versions.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark
from apache_beam.utils.subprocess_server import JavaJarServer

from beam_joins.pipelines.runners.java import find_java
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

PINS: Final = Path(__file__).parents[1] / "environments"
"""A file NAME.txt of pinned packages for each environment."""
MEASURED: Final = {"flink": "apache-flink", "pathway": "pathway"}
"""The package that is measured, by environment."""

_PARQUET_JAR: Final = ("flink-sql-parquet", "org.apache.flink", "2.3.0")
_PARQUET_SHA256: Final = "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd"
_LIBRARIES_OF_PARQUET: Final = ("hadoop-client-api", "hadoop-client-runtime", "zstd-jni", "snappy-java")


class Unavailable(RuntimeError):
    """An environment cannot be made here; the message is one sentence."""


@dataclass(frozen=True)
class Environment:
    """The interpreter that runs a contestant, and what it finds among its environment variables."""

    python: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict)


def provide(name: str, directory: Path) -> Environment:
    """The environment of this name, ``""`` for the one of this process; kept under ``directory`` once it is
    made.

    Raises:
        Unavailable: its packages, its jars or a fitting Java are not to be had.
    """
    if not name:
        return Environment()
    folder = directory / "environments" / name
    pins = (PINS / f"{name}.txt").read_text(encoding="utf-8")
    installed = folder / "installed.txt"
    try:
        if not installed.exists() or installed.read_text(encoding="utf-8") != pins:
            _install(name, folder)
            installed.write_text(pins, encoding="utf-8")
        variables = _flink_variables(folder) if name == "flink" else {"PATHWAY_THREADS": "2"}
    except (OSError, RuntimeError, RunnerSetupError) as error:
        raise Unavailable(f"{MEASURED[name]} cannot be installed here: {' '.join(str(error).split())}") from error
    return Environment(str(folder / "bin" / "python"), variables)


def versions() -> str:
    """What the environments hold.

    >>> versions()
    'apache-flink 2.3.0, pathway 0.33.0'
    """
    pinned = []
    for name, package in MEASURED.items():
        pins = dict(line.split("==") for line in (PINS / f"{name}.txt").read_text(encoding="utf-8").splitlines())
        pinned.append(f"{package} {pins[package]}")
    return ", ".join(pinned)


def _install(name: str, folder: Path) -> None:
    _call(sys.executable, "-m", "venv", "--clear", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _call(*pip, "--requirement", str(PINS / f"{name}.txt"))


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"{command[0]} ended with code {done.returncode}")


def _flink_variables(folder: Path) -> dict[str, str]:
    """Java, and the jars that Flink needs beside its own for Parquet; it takes Hadoop's and the codecs' from
    PySpark.
    """
    jar = Path(JavaJarServer.local_jar(JavaJarServer.path_to_maven_jar(*_PARQUET_JAR), str(folder / "jars")))
    if hashlib.sha256(jar.read_bytes()).hexdigest() != _PARQUET_SHA256:
        jar.unlink()
        raise RuntimeError(f"{jar.name} is not the file that it should be")
    libraries = Path(pyspark.__file__).parent / "jars"
    jars = [jar, *(next(libraries.glob(f"{library}-*.jar")) for library in _LIBRARIES_OF_PARQUET)]
    java = os.fspath(find_java().resolve().parent.parent)
    return {"JAVA_HOME": java, "JAVA_TOOL_OPTIONS": "-Xmx4g", "FLINK_JARS": ";".join(path.as_uri() for path in jars)}
