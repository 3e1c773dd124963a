"""Commands and programs go on with the folders that earlier versions have written."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads
from tests.kept_states import archived, restore
from tests.pipelines.make_command_states import COMMANDS, DAYS, EARLIER, PLACE, PROGRAMS, STATES, moved, run_program, write
from tests.pipelines.orders_run import Run


@pytest.mark.slow
@pytest.mark.parametrize(("states", "name"), archived(STATES, COMMANDS))
def test_a_command_goes_on_with_a_state_of_each_version(states: Path, name: str, beam_joins: Run, tmp_path: Path) -> None:
    goes_on(COMMANDS[name], states, name, beam_joins)


@pytest.mark.slow
@pytest.mark.parametrize("name", EARLIER)
def test_a_command_goes_on_with_a_state_whose_options_and_columns_had_other_names(name: str, beam_joins: Run, tmp_path: Path) -> None:
    goes_on(EARLIER[name], STATES / "earlier_names.zip", name, beam_joins)


@pytest.mark.slow
@pytest.mark.parametrize(("states", "name"), archived(STATES, PROGRAMS))
def test_a_program_goes_on_with_a_state_of_each_version(
    states: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first_day(states, name)
    write(1, tmp_path, DAYS[name])
    run_program(name, "state")
    went_on = rows()
    run_program(name, "once")
    assert went_on == rows() != []
    assert_plain(Path("state"))


@pytest.mark.slow
def test_another_meaning_of_an_option_that_had_another_name_is_refused(beam_joins: Run, tmp_path: Path) -> None:
    first_day(STATES / "earlier_names.zip", "operations")
    write(1, Path.cwd(), DAYS["operations"])
    options = [each.replace("status=gone", "status=gone,lost") for each in EARLIER["operations"]]
    ran = beam_joins(*options, "--state-dir=state")
    assert ran.code == 2
    assert "--left-apply-as-deletes is status=gone,lost, but status=gone in the runs before" in ran.err


def goes_on(command: Sequence[str], states: Path, name: str, beam_joins: Run) -> None:
    """The command has the rows of one run over both days after one with the state of the first."""
    first_day(states, name)
    write(1, Path.cwd(), DAYS[name])
    ran = beam_joins(*command, "--state-dir=state")
    assert ran.code == 0, ran.err
    assert "run 2 with state: " in ran.out
    went_on = rows()
    assert_plain(Path("state"))
    assert beam_joins(*command, "--state-dir=other").code == 0
    assert went_on == rows()
    assert went_on


def first_day(states: Path, name: str) -> None:
    """The files of the first day in this folder, and the state that an earlier version has made of them."""
    here = Path.cwd()
    restore(states, name, "state")
    moved(here / "state", PLACE, str(here))
    write(0, here, DAYS[name])


def assert_plain(state: Path) -> None:
    """No option in a manifest is shown by a private name, by the arguments of a function of the library, or by a sentence."""
    transforms = json.loads((state / "manifest.json").read_text())["transforms"]
    for each in transforms.values():
        for option, text in {**each["options"], **each.get("reader", {})}.items():
            assert not re.search(r"\b_\w|<locals>|partial\(|Reading\(|ReadPlan\(|(\w+ ){4}", str(text)), (option, text)


def rows() -> list[object]:
    """The rows of the result, without the spaces that lines of JSON may have."""
    (latest,) = Path().glob("now.*")
    if latest.suffix == ".parquet":
        return pq.read_table(latest).to_pylist()
    lines = latest.read_text().splitlines()
    return sorted(dumps_line(loads(line.encode())).decode() for line in lines) if latest.suffix == ".jsonl" else sorted(lines)
