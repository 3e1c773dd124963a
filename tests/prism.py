"""Beam's Prism runner, a program written in Go: where it is, or how it comes to be here."""

import functools
import os
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

_PACKAGE = "github.com/apache/beam/sdks/v2/go/cmd/prism"
_CACHE = Path("~/.apache_beam/cache/prism/bin").expanduser()


@functools.cache
def prism_binary() -> str:
    """The program: named by BEAM_PRISM, on the path, or where Beam or ``go install`` puts it.

    Where it is missing it is built if CI=true, and else the test is skipped.
    """
    places = [os.environ.get("BEAM_PRISM"), shutil.which("prism"), Path.home() / "go" / "bin" / "prism", _CACHE / "prism"]
    for place in places:
        if place and Path(place).is_file():
            return str(place)
    install = f"go install {_PACKAGE}@v{version('apache-beam')}"
    if os.environ.get("CI") != "true" or shutil.which("go") is None:
        pytest.skip(f"Beam's Prism is missing: {install}")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as built:
        subprocess.run(install.split(), check=True, env={**os.environ, "GOBIN": built}, capture_output=True, text=True)
        os.replace(Path(built) / "prism", _CACHE / "prism")
    return str(_CACHE / "prism")
