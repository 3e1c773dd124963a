"""The search for a contestant's best settings, and what is kept of it."""

import doctest
from importlib import import_module

import pytest

from benchmarks import settings
from benchmarks.contestants.command import parser, task
from benchmarks.harness import searched
from benchmarks.harness.lineup import CASES, CONTESTANTS, PYSPARK
from benchmarks.harness.process import ContestantFailed
from benchmarks.harness.searched import Searched, best_settings, keep
from benchmarks.settings import best, search


@pytest.mark.parametrize("module", [searched, settings], ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def test_a_value_that_is_hopeless_in_its_first_run_is_run_once_and_one_that_cannot_win_twice():
    asked = []

    def seconds(chosen):
        asked.append(dict(chosen))
        return {"": 10.0, "slow": 20.0, "same": 9.9, "fast": 8.0}[chosen.get("speed", "")]

    found = best({"speed": ("slow", "same", "fast")}, seconds, runs=3)
    assert (found.settings, found.default_seconds, found.seconds, found.tried) == ({"speed": "fast"}, 10.0, 8.0, 4)
    assert [sum(each.get("speed") == name for each in asked) for name in (None, "slow", "same", "fast")] == [3 + 3, 1, 2, 3 + 3]


def test_the_best_of_several_values_that_are_better_is_taken():
    def seconds(chosen):
        return {"": 10.0, "fast": 8.0, "faster": 7.0}[chosen.get("speed", "")]

    assert best({"speed": ("faster", "fast")}, seconds, runs=3).settings == {"speed": "faster"}


def test_settings_that_are_no_better_in_the_end_are_not_taken():
    taken = iter([10.0, 8.0] * 3 + [10.0, 10.0] * 3)
    assert best({"speed": ("fast",)}, lambda chosen: next(taken), runs=3) == ({}, 10.0, 10.0, 2)


def test_a_machine_that_becomes_slower_makes_no_setting_look_worse():
    slow = 1.0

    def seconds(chosen):
        nonlocal slow
        slow *= 1.03
        return slow * (8.0 if chosen else 10.0)

    assert best({"speed": ("fast",)}, seconds, runs=3).settings == {"speed": "fast"}


class OneRound:
    """Runs that fail, or take the seconds that a function says."""

    def __init__(self, seconds):
        self._seconds = seconds

    def once(self, case, contestant, scratch):
        class Done:
            seconds = self._seconds(contestant.arguments)

        return Done


def test_a_setting_with_which_a_contestant_fails_is_not_taken(tmp_path):
    def seconds(arguments):
        if "--set=heap=2g" in arguments:
            raise ContestantFailed("out of memory")
        return 5.0 if "--set=partitions=8" in arguments else 6.0

    found = search(OneRound(seconds), CASES["tables"], CONTESTANTS[PYSPARK], tmp_path)
    assert (found.settings, found.default_seconds, found.seconds) == ({"partitions": "8"}, 6.0, 5.0)


def test_a_contestant_that_fails_with_its_defaults_has_no_best_settings(tmp_path):
    def seconds(arguments):
        raise ContestantFailed("ended with code 1")

    with pytest.raises(ContestantFailed, match="ended with code 1"):
        search(OneRound(seconds), CASES["tables"], CONTESTANTS[PYSPARK], tmp_path)


def test_what_is_kept_replaces_what_was_found_before_of_the_same(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text("[]")
    keep([Searched("b", "x", {"n": "1"}, 3.0, 2.0, 4), Searched("a", "x", {}, 3.0, 3.0, 4)], file)
    keep([Searched("b", "x", {"n": "2"}, 3.0, 1.0, 4)], file)
    assert [(name, dict(each.settings)) for (name, _), each in searched.searched(file).items()] == [("a", {}), ("b", {"n": "2"})]


def test_the_settings_that_are_kept_and_searched_are_those_of_the_contestants():
    for title, case in searched.searched():
        settings = best_settings(title, case)
        assert CONTESTANTS[title].takes(CASES[case], small=False)
        assert all(value in CONTESTANTS[title].choices[name] for name, value in settings.items())
    assert best_settings(PYSPARK, "no case") == {}


@pytest.mark.parametrize("module", ["duckdb_sql", "pyspark_sql", "beam_joins"])
def test_a_contestant_takes_its_settings_alone(module, capsys, tmp_path):
    defaults = import_module(f"benchmarks.contestants.{module}").SETTINGS
    options = parser(module, settings=defaults)
    about = ["--work=tables", f"--data={tmp_path}", f"--out={tmp_path}"]
    name = next(iter(defaults))
    assert task(options.parse_args([*about, f"--set={name}=4"])).settings == {name: "4"}
    with pytest.raises(SystemExit):
        options.parse_args([*about, "--set=nothing=4"])
    assert "nothing=4" in capsys.readouterr().err
    assert all(set(each.choices) <= {*defaults} for each in CONTESTANTS.values() if each.module == module)
    assert options.format_help()
