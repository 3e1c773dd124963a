"""What tests need outside of their own process; those that need nothing are quick.

`make test` runs the quick tests and, of the others, those marked ``gate``. A quick test starts no program:
one that does fails and says so.
"""

import multiprocessing.process
import multiprocessing.util
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

NEEDS = {
    "process": "starts programs, kills or interrupts them",
    "build": "builds or checks packages with pip, mypy or mkdocs",
    "browser": "looks at a page in Chromium",
    "spark": "runs a job on Spark",
    "flink": "runs a job on Flink",
    "kafka": "starts a Kafka broker",
    "prism": "runs a job on Prism",
    "postgres": "asks a PostgreSQL",
    "s3": "writes into an emulator of S3",
    "gcs": "writes into an emulator of Google Cloud Storage",
    "azure": "writes into an emulator of Azure Blob Storage",
    "bigquery": "writes into an emulator of BigQuery",
    "faults": "kills processes of runs, fills disks",
    "versions": "installs other versions of Python packages",
}
"""The markers of these tests."""

_OF_FIXTURES = {
    "broker": "kafka",
    "browser": "browser",
    "flink": "flink",
    "installed": "build",
    "postgres": "postgres",
    "prism": "prism",
    "spark_options": "spark",
    "wheel": "build",
}
_SECONDS_OF_A_SERVER, _SECONDS_OF_A_SWEEP = 300, 1_800
_of_a_quick_test = False


def mark(item: pytest.Item) -> None:
    """Say what a test needs by its fixtures, whether it is quick, and how long it may take."""
    for fixture in set(_OF_FIXTURES).intersection(getattr(item, "fixturenames", ())):
        item.add_marker(_OF_FIXTURES[fixture])
    sweep, needs = item.get_closest_marker("sweep"), {each.name for each in item.iter_markers()}.intersection(NEEDS)
    if not item.get_closest_marker("timeout") and (sweep or needs):
        item.add_marker(pytest.mark.timeout(_SECONDS_OF_A_SWEEP if sweep or "faults" in needs else _SECONDS_OF_A_SERVER))
    if needs - {"process"}:
        item.add_marker(pytest.mark.xdist_group("servers"))  # one at a time
    if not sweep and not needs:
        item.add_marker("quick")


def is_in_the_gate(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("quick", "gate"))


def forbid_programs() -> None:
    """From now on a quick test that starts a program fails, and has one core, so that runs start none by themselves."""
    affinity = os.sched_getaffinity
    os.sched_getaffinity = lambda pid: {0} if _of_a_quick_test else affinity(pid)
    for module, name in (
        (subprocess.Popen, "__init__"),
        (multiprocessing.util, "spawnv_passfds"),
        (multiprocessing.process.BaseProcess, "start"),
        (os, "fork"),
        (os, "posix_spawn"),
    ):
        setattr(module, name, _unless_quick(getattr(module, name)))


def _unless_quick(start: Callable[..., Any]) -> Callable[..., Any]:
    def started(*arguments: Any, **options: Any) -> Any:
        if _of_a_quick_test:
            pytest.fail("a quick test starts a program: mark it with what it needs (tests/needs.py)")
        return start(*arguments, **options)

    return started


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test begins, which may start programs or not."""
    global _of_a_quick_test  # noqa: PLW0603  the functions that start programs are the process's
    _of_a_quick_test = item.get_closest_marker("quick") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """A test of the gate that is skipped has failed."""
    report = yield
    if report.skipped and is_in_the_gate(item) and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"a test of make test is skipped: {report.longrepr}"
    return report
