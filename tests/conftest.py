"""In continuous integration every test runs: one that is skipped has failed."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.utils.shared import Shared

from tests.postgres.server import install, programs, server
from tests.prism import prism_binary


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped where CI=true: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def prism() -> str:
    """Beam's Prism, as a program."""
    # a process has one server, and a pipeline before that did not name the program may have made it
    PrismRunner.shared_handle = Shared()
    return prism_binary()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server: installed where CI=true, and by ``make test-postgres``; elsewhere tests are skipped where it is missing."""
    wanted = os.environ.get("CI") == "true" or os.environ.get("BEAM_JOINS_INSTALL") == "1"
    reason = install() if programs() is None and wanted else None
    found = programs()
    if found is None:
        message = reason or "PostgreSQL with wal2json is missing: make test-postgres installs it on Debian"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    with server(found) as conninfo:
        yield conninfo
