"""The server is installed where CI=true, and by ``make test-postgres``; elsewhere tests that need it are skipped where it is missing."""

import os
from collections.abc import Iterator

import pytest

from tests.postgres.server import install, programs, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    wanted = os.environ.get("CI") == "true" or os.environ.get("BEAM_JOINS_INSTALL") == "1"
    reason = install() if programs() is None and wanted else None
    found = programs()
    if found is None:
        message = reason or "PostgreSQL with wal2json is missing: make test-postgres installs it on Debian"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    with server(found) as conninfo:
        yield conninfo
