"""The command in a directory of a test's own."""

from pathlib import Path

import pytest

from beam_joins.pipelines.commands import programs
from tests.pipelines.orders_run import Run, run_of


@pytest.fixture
def beam_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command beam-joins, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return run_of(programs.main, capsys)
