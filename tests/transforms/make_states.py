"""Makes the archive that ``test_state_formats.py`` goes on with: ``python -m tests.transforms.make_states``.

It has the states of jobs after their first run.
"""

import tempfile
from pathlib import Path
from typing import Final

from beam_joins.transforms.engine.resumed.manifest import FORMAT
from tests.kept_states import archive
from tests.transforms.resumed_jobs import history, parts, run

STATES: Final = Path(__file__).parent / "states"
JOBS: Final = ("typed chain", "one to many", "sums", "aggregated", "weeks with grace", "stream and table", "streams")
CUT: Final = 30


def records() -> list[tuple[str, dict[str, object]]]:
    """The history of the jobs, of which the states have the first part."""
    return history(5)


if __name__ == "__main__":
    made = Path(tempfile.mkdtemp())
    for job in JOBS:
        first, _ = parts(records(), [CUT])
        run(job, first, "/dev/null", state=made / job.replace(" ", "_"), options=["--beam_joins_partitions=2"])
    archive(made, STATES / f"format_{FORMAT}.zip")
