"""A history that is cut into runs, each of which goes on where the last one ended, gives what one run gives."""

import copy
import random

import apache_beam as beam
import pytest

from beam_joins.transforms.engine.resumed import state_parts
from beam_joins.transforms.engine.resumed.manifest import read_manifest
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from beam_joins.transforms.engine.turns import parts as engine_parts
from tests.transforms.resumed_jobs import JOBS, history, lines_of, parts, run, write

NEEDS_AN_END = {"streams, outer"}
"""In a run without state records without a match come out at its end; in one that goes on when they are
closed.
"""


FEW = ["--beam_joins_partitions=3"]


FORGETTING = {"streams", "streams, outer"}
"""Jobs that remember few rows, which are in several parts during a turn alone."""

CHEAP = {"typed table", "outer", "same key", "sums"}
"""Jobs whose states are of different kinds."""

DEAR = {"opaque chain", "growth", "weeks", "left", "anti", "changes", "aggregated", "streams"}
"""Jobs that show no more than another one, such as ``typed chain``, ``weeks with grace``, ``outer`` and ``reduced``."""


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [[20], pytest.param([6, 40], marks=pytest.mark.sweep)])
@pytest.mark.parametrize("job", [pytest.param(job, marks=pytest.mark.sweep) if job in DEAR else job for job in JOBS])
def test_a_history_cut_into_runs_gives_what_one_run_gives(job, cuts, tmp_path):
    records = history(7)
    run(job, records, tmp_path / "whole", state=tmp_path / "one" if job in NEEDS_AN_END else None, options=FEW)
    assert lines_of(tmp_path / "whole")
    for piece in parts(records, cuts):
        run(job, piece, tmp_path / "pieces", state=tmp_path / "state", options=FEW)
    assert lines_of(tmp_path / "pieces") == lines_of(tmp_path / "whole")


@pytest.fixture
def small_turns(monkeypatch):
    """A turn may take few bytes, of new rows and of the state."""
    monkeypatch.setattr(engine_parts, "TURN_FACTOR", (1 << 20) // 3_000)
    monkeypatch.setattr(state_parts, "_SHARE", (1 << 20) // 6_000)
    return ["--beam_joins_partitions=1", "--beam_joins_memory=1"]


@pytest.mark.slow
@pytest.mark.parametrize("job", [pytest.param(job, marks=() if job in CHEAP else pytest.mark.sweep) for job in JOBS])
def test_a_state_in_parts_gives_what_one_run_gives(job, small_turns, tmp_path):
    records = history(11, 1_500, rows=400, references=[f"r{n}" for n in range(100)])
    run(job, records, tmp_path / "whole", state=tmp_path / "one" if job in NEEDS_AN_END else None, options=FEW)
    counts = []
    for piece in parts(records, [700, 710, 711, 1_400]):
        run(job, piece, tmp_path / "pieces", state=tmp_path / "state", options=small_turns)
        manifest = read_manifest((tmp_path / "state" / "manifest.json").read_text(), "")
        counts.append(max(len(of["0"]) for each in manifest.stages.values() if (of := each.partitions)))
    assert lines_of(tmp_path / "pieces") == lines_of(tmp_path / "whole")
    assert counts == [1] * 5 if job in FORGETTING else 1 < counts[-1] < 100


def test_parts_without_rows_are_not_touched(small_turns, tmp_path):
    for records in (history(11, 1_500, rows=400), [("left", {"id": 7, "by": "a", "n": 1, "at": 2_000})]):
        before = set((tmp_path / "state").rglob("*.arrow"))
        run("typed table", records, tmp_path / "out", state=tmp_path / "state", options=small_turns)
    after = set((tmp_path / "state").rglob("*.arrow"))
    assert len(before & after) > 5
    assert len(after - before) < 3


def test_the_latest_rows_of_a_state_in_parts_are_each_there_once(small_turns, tmp_path):
    records = history(5, 400, rows=200)
    run("typed table", records, tmp_path / "whole", options=FEW, latest=True)
    for n, piece in enumerate(parts(records, [390])):
        run("typed table", piece, tmp_path / f"{n}", state=tmp_path / "state", options=small_turns, latest=True)
    assert lines_of(tmp_path / "1.latest") == lines_of(tmp_path / "whole.latest")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_cut_at_random_give_what_one_run_gives(seed, tmp_path):
    records, draw = history(seed), random.Random(seed)
    for job in draw.sample(sorted(JOBS), 3):
        run(job, records, tmp_path / job, state=tmp_path / f"{job} one" if job in NEEDS_AN_END else None, options=FEW)
        for piece in parts(records, sorted(draw.sample(range(60), draw.randrange(1, 4)))):
            run(job, piece, tmp_path / f"{job} pieces", state=tmp_path / f"{job} state", options=FEW)
        assert lines_of(tmp_path / f"{job} pieces") == lines_of(tmp_path / job)


@pytest.mark.spark
def test_a_history_cut_into_runs_gives_what_one_run_gives_on_spark(tmp_path, spark_options):
    records = history(7)
    run("typed chain", records, tmp_path / "whole", options=FEW)
    for piece in parts(records, [20, 40]):
        options = copy.deepcopy(spark_options)
        options.view_as(ReplayOptions).beam_joins_state = str(tmp_path / "state")
        options.view_as(ReplayOptions).beam_joins_partitions = 3
        with beam.Pipeline(options=options) as p:
            write("typed chain", p, piece, tmp_path / "pieces")
    assert lines_of(tmp_path / "pieces") == lines_of(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("job", ["inner", pytest.param("opaque chain", marks=pytest.mark.sweep), "sums"])
def test_the_latest_rows_after_a_run_are_those_of_all_runs_up_to_it(job, tmp_path):
    records = history(3)
    for cut in range(0, 60, 20):
        out, whole = tmp_path / f"{cut}", tmp_path / f"whole {cut}"
        piece = [each for each in records if cut <= each[1]["at"] < cut + 20]
        run(job, piece, out, state=tmp_path / "state", options=FEW, latest=True)
        run(job, [each for each in records if each[1]["at"] < cut + 20], whole, options=FEW, latest=True)
        assert lines_of(f"{out}.latest") == lines_of(f"{whole}.latest")
