"""Makes the folders that ``test_state_formats.py`` goes on with: ``python -m tests.transforms.make_states``.

Each is the state of a job after its first run, as the version of the package has written it that introduced the format.
"""

import shutil
from pathlib import Path
from typing import Final

from beam_joins.transforms.engine.resumed.manifest import FORMAT
from tests.transforms.resumed_jobs import history, parts, run

STATES: Final = Path(__file__).parent / "states"
JOBS: Final = ("typed chain", "one to many", "sums", "aggregated", "weeks with grace", "stream and table", "streams")
CUT: Final = 30


def records() -> list[tuple[str, dict[str, object]]]:
    """The history of the jobs, of which the states have the first part."""
    return history(5)


if __name__ == "__main__":
    for job in JOBS:
        folder = STATES / f"format_{FORMAT}" / job.replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        first, _ = parts(records(), [CUT])
        run(job, first, "/dev/null", state=folder, options=["--beam_joins_partitions=2"])
        (folder / "lock").unlink()
