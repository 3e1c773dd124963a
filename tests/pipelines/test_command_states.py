"""Commands go on with the folders that earlier versions have written."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.kept_states import archived, restore
from tests.pipelines.make_command_states import COMMANDS, DAYS, DAYS_OF_EARLIER, EARLIER, PLACE, STATES, Days, moved, write
from tests.pipelines.orders_run import Run


@pytest.mark.slow
@pytest.mark.parametrize(("states", "name"), archived(STATES, COMMANDS))
def test_a_command_goes_on_with_a_state_of_each_version(states: Path, name: str, beam_joins: Run, tmp_path: Path) -> None:
    goes_on(COMMANDS[name], states, name, DAYS, beam_joins)


@pytest.mark.slow
@pytest.mark.parametrize("name", EARLIER)
def test_a_command_goes_on_with_a_state_whose_options_and_columns_had_other_names(name: str, beam_joins: Run, tmp_path: Path) -> None:
    goes_on(EARLIER[name], STATES / "earlier_names.zip", name, DAYS_OF_EARLIER[name], beam_joins)


@pytest.mark.slow
def test_another_meaning_of_an_option_that_had_another_name_is_refused(beam_joins: Run, tmp_path: Path) -> None:
    here = Path.cwd()
    restore(STATES / "earlier_names.zip", "operations", "state")
    moved(here / "state", PLACE, str(here))
    for day in (0, 1):
        write(day, here, DAYS_OF_EARLIER["operations"])
    options = [each.replace("status=gone", "status=gone,lost") for each in EARLIER["operations"]]
    ran = beam_joins(*options, "--state-dir=state")
    assert ran.code == 2
    assert "--left-apply-as-deletes is status=gone,lost, but status=gone in the runs before" in ran.err


def goes_on(command: Sequence[str], states: Path, name: str, days: Days, beam_joins: Run) -> None:
    """The command has the rows of one run over both days after one with the state of the first."""
    here = Path.cwd()
    restore(states, name, "state")
    moved(here / "state", PLACE, str(here))
    write(0, here, days)
    write(1, here, days)
    ran = beam_joins(*command, "--state-dir=state")
    assert ran.code == 0, ran.err
    assert "run 2 with state: " in ran.out
    went_on = rows()
    assert beam_joins(*command, "--state-dir=other").code == 0
    assert went_on == rows()
    assert went_on


def rows() -> list[object]:
    """The rows of the result."""
    (latest,) = Path().glob("now.*")
    return pq.read_table(latest).to_pylist() if latest.suffix == ".parquet" else sorted(latest.read_text().splitlines())
