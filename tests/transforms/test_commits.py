"""Commits to the folder of --beam_joins_state that fail or are cut off when they are written down: whoever
opens the folder next finishes them.
"""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import CountTable, LatestTable, TableFromChangelog
from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.transforms.resumed_jobs import Lines, lines_of


def table(p, *rows):
    return p | beam.Create(rows).with_output_types(dict) | "table" >> TableFromChangelog(key="id", sequence_by="at", timestamp_by="at")


def latest(p, out, *rows):
    _ = table(p, *rows) | LatestTable() | beam.ParDo(Lines(out, timed=False))


def run(state, out, *rows, moves=()):
    with StateFolder(str(state)) as folder:
        with beam.Pipeline(runner=FnApiRunner()) as p:
            folder.attach(p)
            latest(p, out, *rows)
        folder.commit([(str(source), str(target)) for source, target in moves])


ONE, TWO, THREE = ({"id": n, "at": n} for n in (1, 2, 3))


def test_a_commit_whose_files_cannot_be_renamed_is_finished_with_all_that_the_run_remembers(tmp_path):
    state, part, blocked = tmp_path / "state", tmp_path / "part", tmp_path / "result"
    run(state, tmp_path / "1", ONE)
    part.write_text("results of run 2")
    (blocked / "in the way").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        run(state, tmp_path / "2", TWO, moves=[(part, blocked)])
    (blocked / "in the way").rmdir()
    blocked.rmdir()
    run(state, tmp_path / "3", THREE)
    assert blocked.read_text() == "results of run 2"
    assert lines_of(tmp_path / "3") == sorted(f"{(row['id'], row)!r} \n" for row in (ONE, TWO, THREE))


def test_a_run_that_is_interrupted_while_it_is_committed_counts(tmp_path, monkeypatch):
    def run_with(*rows):
        options = PipelineOptions([f"--beam_joins_state={tmp_path / 'state'}"])
        p = beam.Pipeline(runner=FnApiRunner(), options=options)
        latest(p, tmp_path / f"{rows[0]['id']}", *rows)
        return p.run()

    def interrupted(folder):
        raise KeyboardInterrupt

    run_with(ONE).wait_until_finish()
    with monkeypatch.context() as patched:
        patched.setattr(StateFolder, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_with(TWO).wait_until_finish()
    run_with(THREE).wait_until_finish()
    assert lines_of(tmp_path / "3") == sorted(f"{(row['id'], row)!r} \n" for row in (ONE, TWO, THREE))


def test_a_pipeline_that_was_built_before_a_commit_was_cut_off_finishes_it_and_is_refused(tmp_path):
    state = tmp_path / "state"

    def counts(p):
        _ = table(p, ONE) | CountTable(group_by="id")

    built = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={state}"]))
    counts(built)
    with StateFolder(str(state)) as folder:
        with beam.Pipeline(runner=FnApiRunner()) as p:
            folder.attach(p)
            counts(p)
        folder.prepare()
    with pytest.raises(StateRefused, match="another run has been committed"):
        built.run()
    with StateFolder(str(state)) as folder:
        assert folder.run == 2
