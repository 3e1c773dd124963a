"""The package in new environments, from the wheel alone: each Python that is there, with the pinned versions
and with the oldest Beam.

Each environment takes a minute or two, so these tests run with ``-m versions`` only.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.building import ROOT, interpreter, run

SETUP = (ROOT / "setup.py").read_text(encoding="utf-8")
DECLARED = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', SETUP)
OLDEST = re.findall(r"apache-beam\[gcp\]>=([\d.]+),<3; python_version (<|>=) '3\.13'", SETUP)
"""The oldest Beam for the Pythons before 3.13, and that for those from 3.13 on."""


class Versions(NamedTuple):
    """An interpreter, and what is asked of pip beside the wheel."""

    name: str
    python: str
    asked: tuple[str, ...]


def those_found() -> Iterator[Versions]:
    """The declared versions of Python that this machine has, each with pinned versions and with the oldest
    Beam for it.
    """
    for version in DECLARED:
        python = interpreter(version)
        if python is not None:
            yield Versions(f"Python {version}, pinned", python, ("--constraint", str(ROOT / "constraints.txt")))
            side = "<" if tuple(map(int, version.split("."))) < (3, 13) else ">="
            oldest = next(beam for beam, of in OLDEST if of == side)
            yield Versions(f"Python {version}, Beam {oldest}", python, (f"apache-beam[gcp]=={oldest}",))


@pytest.mark.versions
@pytest.mark.parametrize("versions", [pytest.param(each, id=each.name) for each in those_found()])
def test_it_installs_imports_and_joins(versions: Versions, wheel: Path, tmp_path: Path) -> None:
    subprocess.run([versions.python, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    # without any extra, and from outside of the repository
    done = run(python, "-m", "pip", "install", "--quiet", *versions.asked, wheel, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    helped = run(python.parent / "beam-joins", "--help", directory=tmp_path)
    assert helped.stdout.startswith("usage: beam-joins"), helped.stderr
    joined = run(python.parent / "beam-joins", "orders", "--output", "out.jsonl", "--runner=DirectRunner", directory=tmp_path)
    assert joined.returncode == 0, joined.stderr
    assert (tmp_path / "out.jsonl").stat().st_size > 0
    (tmp_path / "nested.jsonl").write_text('{"id":1,"v":{"a":1},"lsn":1}\n{"id":2,"v":[1],"lsn":2}\n')
    nested = ["table", "--input=nested.jsonl", "--timestamp-by=", "--apply-as-deletes=", "--latest=nested.csv", "--state-dir=state"]
    made = run(python.parent / "beam-joins", *nested, directory=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "nested.csv").read_text() == '"id","v"\n1,"{""a"":1}"\n2,"[1]"\n'
    done = run(python, "-m", "pip", "install", "--quiet", *versions.asked[:2], "pytest", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    examples = run(
        *(python, "-m", "pytest", "-p", "no:cacheprovider", "--doctest-modules"),
        *("--pyargs", "beam_joins.transforms", *(f"beam_joins.{room}" for room in ("elements", "functions", "keys"))),
        directory=tmp_path,
    )
    assert examples.returncode == 0, examples.stdout + examples.stderr
