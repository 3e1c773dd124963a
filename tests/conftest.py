"""Sweeps run where they are asked for; in continuous integration a test that is skipped has failed."""

import gc
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismRunner
from hypothesis import settings
from xdist.scheduler.loadfile import LoadFileScheduling

from beam_joins.pipelines.runners.java import find_java
from tests.beam_that_remembers import beam_that_remembers
from tests.postgres.server import PACKAGES, programs, server
from tests.prism import prism_binary
from tests.quick_asserts import quick_asserts
from tests.system_packages import needed

IN_CI = os.environ.get("CI") == "true"
_SERVERS = {"spark", "flink"}
_WITH_BROKER = ("streaming/test_kafka", "streaming/test_bounded_sources", "streaming/test_restarts")
settings.register_profile("properties", deadline=None, print_blob=True, max_examples=300)
settings.register_profile("others", deadline=None, print_blob=True)
settings.load_profile("others")
quick_asserts()


@pytest.hookimpl(trylast=True)  # others say what is a sweep
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sweeps are for ``-m sweep``; files whose tests start servers come first, then the larger ones: no
    worker has a long one at the end.
    """
    for item in _others_than_each_value(items):
        item.add_marker(pytest.mark.sweep)
    if "sweep" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("sweep")])
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]
    sizes = Counter(item.path for item in items)
    others = Counter(item.path for item in items if not _SERVERS & {mark.name for mark in item.iter_markers()})
    items.sort(key=lambda item: (others[item.path] > 0, -sizes[item.path], str(item.path)))


def _others_than_each_value(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Of the combinations of a test's parameters, those without which each value still occurs."""
    tests: defaultdict[str, list[tuple[set[tuple[str, int]], pytest.Item]]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("each_value") and not item.get_closest_marker("sweep"):
            tests[item.nodeid.partition("[")[0]].append((_values(item), item))
    for variants in tests.values():
        missing, used = set[tuple[str, int]]().union(*(values for values, _ in variants)), Counter[tuple[str, int]]()
        while missing:
            best = max(variants, key=lambda variant: (len(variant[0] & missing), -sum(used[value] for value in variant[0])))
            variants.remove(best)
            missing -= best[0]
            used.update(best[0])
        yield from (item for _, item in variants)


def _values(item: pytest.Function) -> set[tuple[str, int]]:
    """Names and values of the parameters; those that are listed together are one value."""
    parameters, values = dict(item.callspec.params), set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        together = tuple(id(parameters.pop(name.strip(), None)) for name in names)
        values.add((str(mark.args[0]), hash(together)))
    return values | {(name, id(value)) for name, value in parameters.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests on the one Spark of a session, and those of the one broker, are each of one worker."""
    return _ByServer(config, log) if config.option.dist == "loadfile" else None


class _ByServer(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        if "[spark" in nodeid:
            return "spark"
        return "broker" if any(name in nodeid for name in _WITH_BROKER) else str(super()._split_scope(nodeid))


def pytest_collection_finish() -> None:
    """Collections need not look at what is loaded by now, or come every thousand objects: a pipeline makes
    many, and few of them stay.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped where CI=true: {report.longrepr}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Properties of the transforms' meaning are tried with more examples than others; the machine may be
    busy, so none has a deadline.
    """
    settings.load_profile("properties" if "properties" in item.path.parts else "others")


@pytest.fixture
def java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark by itself, without our launcher, starts the Java that the launcher would."""
    monkeypatch.setenv("JAVA_HOME", str(find_java().resolve().parents[1]))


@pytest.fixture(scope="session")
def prism() -> str:
    """Beam's Prism, as a program."""
    return prism_binary()


@pytest.fixture(scope="session", autouse=True)
def quick_pipelines() -> Iterator[None]:
    with beam_that_remembers():
        yield


@pytest.fixture(scope="session", autouse=True)
def prism_is_used_by_name_only() -> Iterator[None]:
    """Beam's DirectRunner is Prism where it finds one, or has the means to build one; in tests it is
    FnApiRunner on every machine.
    """
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
