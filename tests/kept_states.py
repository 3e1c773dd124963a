"""Archives of states that versions of the package have written: ``format_7.zip`` by the version that introduced the format, and
``format_7_fc2db6cb.zip`` by the one of that commit.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def archived(states: Path, names: Iterable[str]) -> list[Any]:
    """An archive and the name of a state in it for each test: the first and the last format, and the other ones for sweeps."""
    tests = []
    for name in names:
        path = f"{name.replace(' ', '_')}/manifest.json"
        archives = [each for each in sorted(states.glob("format_*.zip"), key=_format) if path in zipfile.ZipFile(each).namelist()]
        ends = archives[0], next(each for each in reversed(archives) if each.stem.count("_") == 1)
        for each in archives:
            marks = [] if each in ends else [pytest.mark.sweep]
            tests.append(pytest.param(each, name, id=f"{each.stem} {name}", marks=marks))
    return tests


def _format(archive: Path) -> tuple[int, str]:
    return int(archive.stem.split("_")[1]), archive.stem


def restore(archive: Path, name: str, to: str | Path) -> None:
    """Write a state of an archive into a folder."""
    with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(archive) as states:
        states.extractall(unpacked)
        shutil.copytree(Path(unpacked) / name.replace(" ", "_"), to)


def archive(folder: Path, to: Path) -> None:
    """Make an archive of a folder of states, each without its lock."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as states:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "lock":
                states.write(path, path.relative_to(folder))
