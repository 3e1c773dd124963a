"""In continuous integration every test runs: one that is skipped has failed."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismRunner

from tests.postgres.server import PACKAGES, programs, server
from tests.prism import prism_binary
from tests.system_packages import needed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped where CI=true: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def prism() -> str:
    """Beam's Prism, as a program."""
    return prism_binary()


@pytest.fixture(scope="session", autouse=True)
def prism_is_used_by_name_only() -> Iterator[None]:
    """Beam's DirectRunner is Prism where it finds one, or has the means to build one; in tests it is FnApiRunner on every machine."""
    default_job_server = PrismRunner.default_job_server

    def named(self: PrismRunner, options: PipelineOptions) -> Any:
        if options.view_as(PrismRunnerOptions).prism_location is None:
            raise RuntimeError("tests name Prism's program")
        return default_job_server(self, options)

    PrismRunner.default_job_server = named
    yield
    PrismRunner.default_job_server = default_job_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with server(needed("PostgreSQL with wal2json", programs, *PACKAGES)) as conninfo:
        yield conninfo
