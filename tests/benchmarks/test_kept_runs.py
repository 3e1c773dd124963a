"""Runs of a benchmark that are kept in a file."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.harness import kept_runs
from benchmarks.harness.figures import Measured, Run
from benchmarks.harness.kept_runs import KeptRuns

QUIET, DISTURBED = Run(2.5, 3, 4, 0.01, 1.5), Run(9.5, 3, 4, 0.5, 1.5)


def measured(case="fk-uniform", *runs, trouble=""):
    return Measured(case, "DuckDB", 1000, starts=[QUIET, DISTURBED], runs={1000: list(runs)}, rows={1000: 7}, trouble=trouble)


def test_what_is_kept_is_there_again_without_disturbed_and_failed_runs(tmp_path):
    kept = KeptRuns(tmp_path / "runs.json")
    kept.keep([measured("a", QUIET, DISTURBED, QUIET), measured("b", QUIET, trouble="failed")])
    actual = KeptRuns(tmp_path / "runs.json").measured()
    assert actual == {("a", "DuckDB"): Measured("a", "DuckDB", 1000, [QUIET], {1000: [QUIET, QUIET]}, {1000: 7})}


@pytest.mark.parametrize("change", ["code", "machine", "size"])
def test_runs_of_other_code_or_machines_or_sizes_are_refused(tmp_path, change, monkeypatch):
    path = tmp_path / "runs.json"
    KeptRuns(path).keep([measured()])
    if change != "size":
        monkeypatch.setattr(kept_runs, change, lambda: "another")
    with pytest.raises(ValueError, match=f"were measured with another {change}: give another file, or remove this one"):
        KeptRuns(path, small=change == "size")


@pytest.mark.parametrize("text", ["", "[]", "{}", "no json"])
def test_a_file_without_runs_is_refused_in_one_sentence(tmp_path, text, capsys):
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(SystemExit):
        main(["--runs", str(tmp_path / "runs.json")])
    assert "has no runs of a benchmark" in capsys.readouterr().err


@pytest.mark.process
def test_an_interrupted_benchmark_goes_on_with_the_rounds_that_are_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(kept_runs, "BUSY", 1.0)
    runs = tmp_path / "runs.json"

    def benchmark(rounds):
        command = [
            "--small",
            "--works",
            "fk-uniform",
            "--contestants",
            "DuckDB",
            "--data",
            str(tmp_path / "data"),
            "--runs",
            str(runs),
        ]
        assert main([*command, "--rounds", str(rounds)]) == 0
        (of_case,) = json.loads(runs.read_text())["runs"]
        return of_case["runs"]["50000"], capsys.readouterr().err.count("50,000 rows of the left table")

    first, told = benchmark(1)
    assert (len(first), told) == (1, 1)
    every, told = benchmark(3)
    assert (len(every), told) == (3, 2)
    assert every[:1] == first
    assert benchmark(0) == (every, 0)


def test_only_what_is_kept_can_be_shown_without_a_round(capsys):
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])
    assert "--rounds is at least 1, or 0 with --runs" in capsys.readouterr().err
