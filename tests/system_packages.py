"""What tests need beside Python packages: it is installed where BEAM_JOINS_INSTALL=1, as ``make test-all`` says;
elsewhere tests are skipped where it is missing.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
_PAUSES = (5, 20)
"""Seconds until packages are asked for again: mirrors fail now and then."""


def may_install() -> bool:
    return os.environ.get("BEAM_JOINS_INSTALL") == "1"


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """For what pytest's workers must not install twice at the same time."""
    with Path(tempfile.gettempdir(), f"beam-joins-tests-{os.getuid()}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def needed(name: str, actual: Callable[[], T | None], *packages: str) -> T:
    """What ``actual`` finds, after the packages were installed if it was nothing before and that may be; else
    the test is skipped.
    """
    program, reason = actual(), f"{name} is missing: BEAM_JOINS_INSTALL=1 installs it on Debian"
    if program is None and may_install():
        with one_at_a_time("apt"):
            program = actual()
            if program is None:
                reason = _install(name, packages)
                program = actual()
    if program is None:
        pytest.skip(reason)
    return program


def _install(name: str, packages: tuple[str, ...]) -> str:
    retries = ["-o", "Acquire::Retries=5"]
    command = ["apt-get", "install", *retries, "--yes", "--quiet", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"{name} is missing: install it, on Debian as root with '{' '.join(command)}'"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for pause in (*_PAUSES, 0):
        subprocess.run(["apt-get", "update", *retries, "--quiet"], check=False, capture_output=True)
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if done.returncode == 0:
            break
        time.sleep(pause)
    return f"{' '.join(command)} failed: {done.stderr[-300:]}"
