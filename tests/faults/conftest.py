"""These tests run alone, with ``-m faults``: they fill disks and kill processes that other tests would need."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_joins.pipelines.commands.sample.sample_files import write_sample
from tests.faults.machine import Started, hidden, results, temporary_files
from tests.pipelines.history import arrive, cut
from tests.pipelines.writers import WRITERS

_OF_PIPELINES = "tmp/beam-pipeline-temp"
"""Beam makes a folder with this name for each pipeline, and removes it when ``run`` returns: a kill before leaves it, empty."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, dict[str, object]]]]:
    """A directory with inputs, and what each writer writes."""
    directory, patched = tmp_path_factory.mktemp("undisturbed"), pytest.MonkeyPatch()
    patched.chdir(directory)
    for number, piece in enumerate(cut(write_sample(directory / "sample", orders=2_000, customers=300, seed=5), 2), 1):
        arrive(number, piece)
    expected = {}
    for name, writer in WRITERS.items():
        assert writer.run() == 0
        expected[name] = results()
        shutil.rmtree("out")
    shutil.rmtree("state")
    yield directory, expected
    patched.undo()


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Any) -> Path:
    """The working directory of the test, with the inputs alone."""
    shutil.copytree(undisturbed[0] / "in", tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(inputs: Path) -> Iterator[Callable[..., Started]]:
    """Starts a writer; whatever the test does, its processes are gone afterwards."""
    started: list[Started] = []

    def starting(name: str, *arguments: Any, **options: Any) -> Started:
        started.append(Started(WRITERS[name], arguments, **options))
        return started[-1]

    yield starting
    for each in started:
        for process in each.processes():
            process.kill()


@pytest.fixture
def require_whole_or_nothing(
    undisturbed: Any, inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Require that results are those of an undisturbed run or none, and that the next run gives them and
    leaves nothing else. Where the driver was ``killed`` the next run removes its blocks.
    """

    def require(name: str, *, killed: bool = False) -> None:
        expected = undisturbed[1][name]
        assert results() in ({}, expected)
        left = temporary_files()
        of_beam = [path for path in left if killed and path.startswith(_OF_PIPELINES) and not any(Path(path).iterdir())]
        assert [path for path in left if path not in of_beam and not (killed and path.startswith("tmp/beam_joins-blocks-"))] == []
        monkeypatch.setattr(tempfile, "tempdir", str(inputs / "tmp"))
        assert WRITERS[name].run() == 0, capsys.readouterr().err
        assert temporary_files() == of_beam
        assert results() == expected
        assert hidden() == []

    return require


@pytest.fixture
def clear(inputs: Path) -> Callable[[], None]:
    """Removes what runs have made."""

    def clearing() -> None:
        for name in ("out", "state", "tmp"):
            shutil.rmtree(name, ignore_errors=True)

    return clearing
