"""A history that is cut into runs, each of which goes on where the last one ended, gives what one run gives."""

import pytest

from tests.transforms.resumed_jobs import JOBS, history, lines_of, parts, run

NEEDS_AN_END = {"streams, outer"}
"""In a run without state records without a match come out at its end; in one that goes on when they are closed."""


@pytest.mark.parametrize("job", JOBS)
def test_a_history_cut_into_runs_gives_what_one_run_gives(job, tmp_path):
    records = history(7)
    whole = tmp_path / "whole"
    run(job, records, whole, state=tmp_path / "one" if job in NEEDS_AN_END else None)
    assert lines_of(whole)
    for seed, cuts in enumerate([[30], [5, 6, 40], [0, 20]]):
        for piece in parts(records, cuts):
            run(job, piece, tmp_path / f"pieces {seed}", state=tmp_path / f"state {seed}")
        assert lines_of(tmp_path / f"pieces {seed}") == lines_of(whole)


@pytest.mark.parametrize("job", ["inner", "opaque chain", "sums"])
def test_the_latest_rows_after_a_run_are_those_of_all_runs_up_to_it(job, tmp_path):
    records = history(3)
    for n, cut in enumerate(range(0, 75, 15)):
        run(
            job,
            [each for each in records if cut <= each[1]["at"] < cut + 15],
            tmp_path / f"{n}",
            state=tmp_path / "state",
            latest=True,
        )
        run(job, [each for each in records if each[1]["at"] < cut + 15], tmp_path / f"whole {n}", latest=True)
        assert lines_of(tmp_path / f"{n}.latest") == lines_of(tmp_path / f"whole {n}.latest")
