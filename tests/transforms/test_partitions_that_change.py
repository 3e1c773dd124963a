"""The number of partitions may change from run to run: the state is distributed anew, and the results are the same."""

import itertools

import pytest

from beam_joins import StateFolder, StateRefused
from beam_joins.transforms.engine.resumed import state_folder
from tests.transforms.resumed_jobs import JOBS, history, lines_of, parts, run
from tests.transforms.test_resumed import CHEAP, NEEDS_AN_END

COUNTS = [3, 2, 7, 1, 4]
CUTS = [15, 25, 35, 50]


def in_runs(job, records, cuts, counts, tmp_path, options=()):
    for piece, count in zip(parts(records, cuts), counts, strict=True):
        of_run = [f"--beam_joins_partitions={count}", *options]
        run(job, piece, tmp_path / "pieces", state=tmp_path / "state", options=of_run)
        assert StateFolder.verify(str(tmp_path / "state")) >= 0
        assert StateFolder.summary(str(tmp_path / "state")).partitions == count


@pytest.mark.slow
@pytest.mark.parametrize("job", [pytest.param(job, marks=() if job in CHEAP else pytest.mark.sweep) for job in JOBS])
def test_runs_with_other_numbers_of_partitions_give_what_one_run_gives(job, tmp_path):
    records = history(7)
    run(job, records, tmp_path / "whole", state=tmp_path / "one" if job in NEEDS_AN_END else None)
    in_runs(job, records, CUTS, COUNTS, tmp_path)
    assert lines_of(tmp_path / "pieces") == lines_of(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("job", ["typed table", pytest.param("typed chain", marks=pytest.mark.sweep)])
def test_a_state_in_parts_is_distributed_with_its_parts(job, monkeypatch, tmp_path):
    monkeypatch.setattr("beam_joins.transforms.engine.turns.parts.TURN_FACTOR", (1 << 20) // 3_000)
    monkeypatch.setattr("beam_joins.transforms.engine.resumed.state_parts._SHARE", (1 << 20) // 6_000)
    records = history(11, 1_500, rows=400, references=[f"r{n}" for n in range(100)])
    run(job, records, tmp_path / "whole")
    in_runs(job, records, [700, 900, 1_400], [2, 1, 3, 2], tmp_path, ["--beam_joins_memory=1"])
    assert lines_of(tmp_path / "pieces") == lines_of(tmp_path / "whole")


def test_a_state_that_cannot_be_distributed_is_as_it_was(monkeypatch, tmp_path):
    first, second = parts(history(7), [30])
    run("typed table", first, tmp_path / "out", state=tmp_path / "state", options=["--beam_joins_partitions=3"])
    before = (tmp_path / "state" / "manifest.json").read_text()
    written = itertools.count()

    def full(files, name, content):
        if next(written) == 2:
            raise OSError(28, "No space left on device")
        return put(files, name, content)

    put = state_folder.StateFiles.put
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(state_folder.StateFiles, "put", full)
        run("typed table", second, tmp_path / "out", state=tmp_path / "state", options=["--beam_joins_partitions=5"])
    assert (tmp_path / "state" / "manifest.json").read_text() == before
    with StateFolder(str(tmp_path / "state")), pytest.raises(StateRefused, match="is in use by another run"):
        run("typed table", second, tmp_path / "out", state=tmp_path / "state", options=["--beam_joins_partitions=5"])
    run("typed table", second, tmp_path / "out", state=tmp_path / "state", options=["--beam_joins_partitions=5"])
    run("typed table", history(7), tmp_path / "whole")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "whole")
