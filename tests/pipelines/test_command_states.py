"""Commands go on with the folders that earlier versions have written: each format has small ones of its time."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines.make_command_states import COMMANDS, PLACE, STATES, moved, write
from tests.pipelines.orders_run import Run

FOLDERS = [pytest.param(path, name, id=f"{path.name} {name}") for path in sorted(STATES.iterdir()) for name in COMMANDS]


@pytest.mark.slow
@pytest.mark.parametrize(("states", "name"), FOLDERS)
def test_a_command_goes_on_with_a_state_of_each_format(states: Path, name: str, beam_joins: Run, tmp_path: Path) -> None:
    here = Path.cwd()
    shutil.copytree(states / name, "state")
    moved(here / "state", PLACE, str(here))
    write(0, here)
    write(1, here)
    ran = beam_joins(*COMMANDS[name], "--state-dir=state")
    assert ran.code == 0, ran.err
    assert "run 2 with state: " in ran.out
    went_on = rows()
    assert beam_joins(*COMMANDS[name], "--state-dir=other").code == 0
    assert went_on == rows()
    assert len(went_on) >= 2


def rows() -> list[object]:
    """The rows of the result."""
    (latest,) = Path().glob("now.*")
    return pq.read_table(latest).to_pylist() if latest.suffix == ".parquet" else sorted(latest.read_text().splitlines())
