"""Programs that tests need and that come from the system's packages: installed where CI=true or BEAM_JOINS_INSTALL=1; elsewhere tests are skipped where they are missing."""

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def needed(name: str, found: Callable[[], T | None], *packages: str) -> T:
    """What ``found`` finds, after the packages were installed if it was nothing before and that is wanted; else the test is skipped, or fails where CI=true."""
    in_ci = os.environ.get("CI") == "true"
    program, reason = found(), f"{name} is missing: BEAM_JOINS_INSTALL=1 installs it on Debian"
    if program is None and (in_ci or os.environ.get("BEAM_JOINS_INSTALL") == "1"):
        reason = _install(name, packages)
        program = found()
    if program is None:
        pytest.fail(reason) if in_ci else pytest.skip(reason)
    return program


def _install(name: str, packages: tuple[str, ...]) -> str:
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"{name} is missing: install it, on Debian with '{' '.join(command)}'"
    subprocess.run(["apt-get", "update", "--quiet"], check=False, capture_output=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    return f"{' '.join(command)} failed: {done.stderr[-300:]}"
