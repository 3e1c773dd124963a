"""What docs/trust.md says of ports, temporary files, pickles and programs."""

import ast
import os
import pickle
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.coders.coder_impl import CallbackCoderImpl, FastPrimitivesCoderImpl

from beam_joins.errors import StateRefused
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.faults.machine import Started
from tests.pipelines.history import BOTH, arrive, cut
from tests.pipelines.orders_run import Run
from tests.pipelines.writers import WRITERS

HOUSE = Path(__file__).parents[2]
MODULES = sorted(path for room in ("beam_joins", "coders", "transforms", "pipelines") for path in (HOUSE / room).rglob("*.py"))
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
OF_PARENTS = {
    "pipelines/runners/keeper.py": 1,
    "pipelines/runners/local/pipeline_graph.py": 1,
    "pipelines/runners/local/worker_processes.py": 1,
    "pipelines/runners/child_processes.py": 1,
}
"""The modules of processes that unpickle what their own parent sends, and how often."""


def calls(path: Path) -> Iterator[str]:
    """What a module calls, as it is written."""
    return (ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def callers(*names: str) -> set[str]:
    return {str(path.relative_to(HOUSE)) for path in MODULES if any(call.split(".")[-1] in names for call in calls(path))}


def test_only_processes_of_a_job_unpickle_what_their_own_parent_sends_and_one_function_what_is_accepted() -> None:
    pickles = {
        str(path.relative_to(HOUSE))
        for path in MODULES
        if any(
            call in ("pickle.loads", "pickle.load", "pickler.loads", "cloudpickle_pickler.loads", "dill.loads", "marshal.loads")
            for call in calls(path)
        )
    }
    assert pickles == {*OF_PARENTS, "coders/pickles.py"}
    assert {str(path.relative_to(HOUSE)) for path in MODULES if "FastPrimitivesCoder(" in path.read_text()} == set()
    for module, times in OF_PARENTS.items():
        text = (HOUSE / module).read_text()
        assert text.count("pickler.loads(") == times
        # the last two are of what the others hand on
        received = ("loads(pipe.recv_bytes()", "loads(pipes[0].recv_bytes()", "loads(pickled))", "loads(graph, ")
        assert sum(text.count(each) for each in received) == times


def test_the_stages_of_a_command_read_no_pickles(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(encoded: bytes) -> Any:
        raise AssertionError(pickle.loads(encoded))

    impl = FastPrimitivesCoderImpl(CallbackCoderImpl(pickle.dumps, refused))
    monkeypatch.setattr(FastPrimitivesCoder, "_create_impl", lambda coder: impl)
    arrive(1, cut(small, 1)[0])
    ran = run(*BOTH)
    assert ran.code == 0, ran.err


def test_nothing_is_given_to_a_shell_or_evaluated() -> None:
    assert callers("exec", "system", "popen", "getoutput", "getstatusoutput") == set()
    assert callers("eval") == {"pipelines/yaml/expression.py"}, "expressions of a YAML pipeline, which is its author's code"
    assert [path for path in MODULES if "shell=True" in path.read_text()] == []


def test_only_jars_are_downloaded() -> None:
    assert callers("urlopen", "urlretrieve", "local_jar") == set()
    users = {str(path.relative_to(HOUSE)) for path in MODULES if "JavaJarServer.local_jar" in path.read_text()}
    assert users == {"pipelines/runners/jars.py"}


def test_a_folder_of_a_state_that_anybody_may_write_into_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StateRefused, match="chmod o-w"):
        StateFolder(str(tmp_path))
    tmp_path.chmod(0o755)
    StateFolder(str(tmp_path)).close()


def listening(run: Started) -> set[str]:
    """The addresses at which processes of a run listen now."""
    actual = set()
    for process in run.processes():
        try:
            connections: list[Any] = process.net_connections("inet")
        except psutil.Error:
            continue
        actual |= {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
    return actual


@pytest.mark.spark
def test_a_run_on_spark_listens_on_loopback_only_and_its_temporary_files_are_its_users_alone(
    own_directory: Path, small: SampleFiles
) -> None:
    for number, piece in enumerate(cut(small, 2)):
        arrive(number, piece)
    before = os.umask(0o022)
    try:
        run = Started(WRITERS["with a state"], ["--runner=SparkRunner"])
    finally:
        os.umask(before)
    addresses: set[str] = set()
    modes: dict[str, int] = {}
    while run.driver.poll() is None:
        addresses |= listening(run)
        for path in (Path("state"), *Path("tmp").glob("*")):
            if path.name not in (".out", ".err") and path.exists():
                modes[path.name] = stat.S_IMODE(path.lstat().st_mode)
        time.sleep(0.1)
    assert run.end().code == 0
    assert addresses
    assert addresses <= LOOPBACK
    assert modes
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
