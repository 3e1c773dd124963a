"""The types that the package ships are those that a user's strict type checker sees, and holds the user's job
to.
"""

import re
import shutil
import sys
from pathlib import Path

from tests.packaging.building import run

JOB = Path(__file__).parent / "typed_user"
FILES = sorted(path for path in JOB.glob("*.py") if path.name != "__init__.py")
WRONG = re.compile(r"  # wrong: ([a-z-]+)$")
ERROR = re.compile(r"^(\w+\.py):(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def test_a_strict_type_checker_accepts_jobs_and_finds_each_wrong_option_and_output(installed: Path, tmp_path: Path) -> None:
    for file in (JOB / "mypy.ini", *FILES):
        shutil.copy(file, tmp_path)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache")
    checked = run(*mypy, *(file.name for file in FILES), directory=tmp_path)
    expected = {
        (file.name, str(number), kind[1])
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (kind := WRONG.search(line))
    }
    assert len(expected) > 20
    assert set(ERROR.findall(checked.stdout)) == expected, checked.stdout + checked.stderr
