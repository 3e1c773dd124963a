"""A folder that an earlier version has written goes on in this one."""

import pytest

from beam_joins import StateFolder
from tests.kept_states import archived, restore
from tests.transforms.make_states import CUT, JOBS, STATES, records
from tests.transforms.resumed_jobs import lines_of, parts, run


@pytest.mark.slow
@pytest.mark.parametrize(("states", "job"), archived(STATES, JOBS))
def test_a_state_of_each_version_goes_on_as_one_run_over_everything(states, job, tmp_path):
    restore(states, job, tmp_path / "state")
    assert StateFolder.verify(str(tmp_path / "state")) > 0
    assert all(each.rows >= each.files for each in StateFolder.summary(str(tmp_path / "state")).transforms)
    first, second = parts(records(), [CUT])
    run(job, first, tmp_path / "first", state=tmp_path / "other", options=["--beam_joins_partitions=2"])
    run(job, second, tmp_path / "second", state=tmp_path / "state")
    run(job, records(), tmp_path / "whole", state=tmp_path / "once", options=["--beam_joins_partitions=2"])
    assert sorted(lines_of(tmp_path / "first") + lines_of(tmp_path / "second")) == lines_of(tmp_path / "whole")
