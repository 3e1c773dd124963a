"""Archives of states that versions of the package have written: ``format_7.zip`` by the version that introduced the format, and
``format_7_fc2db6cb.zip`` by the one of that commit.
"""

import itertools
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def archived(states: Path, names: Iterable[str]) -> list[Any]:
    """An archive and the name of a state in it for each test; those of later versions of a format are for sweeps."""
    return [
        pytest.param(path, name, id=f"{path.stem} {name}", marks=[pytest.mark.sweep] if path.stem.count("_") > 1 else [])
        for path, name in itertools.product(sorted(states.glob("format_*.zip")), names)
        if f"{name.replace(' ', '_')}/manifest.json" in zipfile.ZipFile(path).namelist()
    ]


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
