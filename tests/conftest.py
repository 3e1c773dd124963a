"""What kinds of tests there are, and what all of them share: examples, a Beam that remembers, servers."""

import gc
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismRunner
from hypothesis import HealthCheck, settings

from beam_joins.pipelines.runners.java import find_java
from beam_joins.transforms.engine.files import reachability
from beam_joins.transforms.engine.stages import partitions
from tests import needs, object_store, programs
from tests.beam_that_remembers import beam_that_remembers
from tests.postgres.server import server
from tests.quick_asserts import quick_asserts

# the machine may be busy: no example has a deadline
_ALWAYS: Any = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("gate", derandomize=True, database=None, max_examples=50, **_ALWAYS)
settings.register_profile("random", derandomize=False, database=None, max_examples=300, **_ALWAYS)
settings.load_profile("gate")
partitions.GROWING_WORTHWHILE_BYTES = 1  # one partition would hide rows in a wrong one
quick_asserts()
needs.forbid_programs()


def pytest_configure(config: pytest.Config) -> None:
    config.option.markexpr = config.option.markexpr or "quick or gate and not sweep"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background job; the programs that tests start inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(needs)  # its hooks are for doctests as well
    for name, meaning in needs.NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in _others_than_each_value(items):
        item.add_marker(pytest.mark.sweep)
    for item in items:
        needs.mark(item)


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
    for listed in item.iter_markers("parametrize"):
        names = listed.args[0].split(",") if isinstance(listed.args[0], str) else listed.args[0]
        together = tuple(id(parameters.pop(name.strip(), None)) for name in names)
        values.add((str(listed.args[0]), hash(together)))
    return values | {(name, id(value)) for name, value in parameters.items()}


def pytest_collection_finish() -> None:
    """Collections need not look at what is loaded by now, or come every thousand objects: a pipeline makes
    many, and few of them stay.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture
def java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark by itself, without our launcher, starts the Java that the launcher would."""
    monkeypatch.setenv("JAVA_HOME", str(find_java().resolve().parents[1]))


@pytest.fixture
def store() -> object_store.Store:
    """An empty store of objects, ``bucket://in``, ``out`` and ``state``."""
    object_store.STORE.__init__()  # type: ignore[misc]
    reachability._reached.clear()
    return object_store.STORE


@pytest.fixture(scope="session")
def prism() -> str:
    """Beam's Prism, as a program."""
    return programs.needed_prism()


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
    with server(programs.needed("PostgreSQL with wal2json", programs.postgres())) as conninfo:
        yield conninfo
