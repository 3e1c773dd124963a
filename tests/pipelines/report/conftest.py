"""A browser: it is installed where CI=true, and by BEAM_JOINS_INSTALL=1; elsewhere tests that need it are skipped where it is missing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

INSTALL = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def install() -> str | None:
    """Install it from the system's packages; gives the reason where that cannot be."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"Chromium is missing: install it, on Debian with '{' '.join(INSTALL)}'"
    subprocess.run(["apt-get", "update", "--quiet"], check=False, capture_output=True)
    done = subprocess.run(
        INSTALL, check=False, capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    )
    return None if program() else f"{' '.join(INSTALL)} failed: {done.stderr[-300:]}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    wanted = os.environ.get("CI") == "true" or os.environ.get("BEAM_JOINS_INSTALL") == "1"
    reason = install() if program() is None and wanted else None
    found = program()
    if found is None:
        message = reason or "Chromium is missing: BEAM_JOINS_INSTALL=1 installs it on Debian"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
