"""The types that the package ships are those that a user's strict type checker sees, and holds the user's job to."""

import re
import shutil
import sys
from pathlib import Path

from tests.packaging.building import run

JOB = Path(__file__).parent / "typed_user"
WRONG = re.compile(r"  # wrong: ([a-z-]+)$")
ERROR = re.compile(r"^(\w+\.py):(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def test_a_strict_type_checker_accepts_a_job_and_finds_each_wrong_option(installed: Path, tmp_path: Path) -> None:
    for file in JOB.iterdir():
        if file.is_file() and file.name != "__init__.py":
            shutil.copy(file, tmp_path)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache")
    checked = run(*mypy, "job.py", "wrong.py", directory=tmp_path)
    wrong = (tmp_path / "wrong.py").read_text(encoding="utf-8").splitlines()
    expected = {("wrong.py", str(number), kind[1]) for number, line in enumerate(wrong, 1) if (kind := WRONG.search(line))}
    assert len(expected) > 10
    assert set(ERROR.findall(checked.stdout)) == expected, checked.stdout + checked.stderr
