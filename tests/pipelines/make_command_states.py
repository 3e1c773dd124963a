"""Makes the folders that ``test_command_states.py`` goes on with: ``python -m tests.pipelines.make_command_states``.

Each is the state of a command after its first day, as the version of the package has written it that introduced the format.
Paths of files in it begin with :data:`PLACE`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_hexdigest

from beam_joins.transforms.engine.resumed.manifest import FORMAT

STATES: Final = Path(__file__).parent / "states"
PLACE: Final = "/the/place/of/the/inputs"
DAYS: Final = (
    {
        "orders/1.csv": "id,customer,amount,updated_at\n1,a,5,2026-01-01T00:00:00Z\n2,b,7.5,2026-01-01T00:00:01Z\n",
        "customers/1.csv": "id,name,updated_at\na,Ann,2026-01-01T00:00:00Z\n",
    },
    {
        "orders/2.csv": "id,customer,amount,updated_at\n2,a,8,2026-01-02T00:00:00Z\n3,b,1,2026-01-02T00:00:00Z\n",
        "customers/2.csv": "id,name,updated_at\nb,Bob,2026-01-02T00:00:00Z\n",
    },
)
"""The files of two days."""
_JOIN: Final = ["join", "--left=orders", "--right=customers", "--left-key=id", "--foreign-key=customer", "--left-sequence-by="]
_ORDERED: Final = ["--right-sequence-by=", "--left-apply-as-deletes=", "--right-apply-as-deletes="]
COMMANDS: Final = {
    "lines": [*_JOIN, *_ORDERED, "--how=left", "--select=left.id, left.amount, right.name", "--changes=changes", "--latest=now.jsonl"],
    "typed": [*_JOIN, *_ORDERED, "--how=inner", "--select=left.*, right.name", "--latest=now.parquet"],
    "table": ["table", "--input=orders", "--key=id", "--sequence-by=", "--apply-as-deletes=", "--changes=changes", "--latest=now.csv"],
}


def write(day: int, folder: Path) -> None:
    """Write the files of a day."""
    for name, text in DAYS[day].items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_800_000_000 + day, 1_800_000_000 + day))


def moved(state: Path, one: str, other: str) -> None:
    """Have the paths in a manifest begin otherwise."""
    path = state / "manifest.json"
    content = json.loads(path.read_text().replace(one, other))
    del content["xxh3"]
    path.write_text(json.dumps({**content, "xxh3": xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode())}, indent=1))


def run(command: Sequence[str], folder: Path) -> None:
    """Run a command with its state in a folder."""
    subprocess.run([sys.executable, "-m", "beam_joins.pipelines", *command, "--state-dir=state"], cwd=folder, check=True)


if __name__ == "__main__":
    for name, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made).resolve()
            write(0, folder)
            run(command, folder)
            moved(folder / "state", str(folder), PLACE)
            (folder / "state" / "lock").unlink()
            shutil.rmtree(STATES / f"format_{FORMAT}" / name, ignore_errors=True)
            shutil.copytree(folder / "state", STATES / f"format_{FORMAT}" / name)
