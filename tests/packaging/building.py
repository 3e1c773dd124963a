"""The package built and installed as others do it: from a copy of its files, into environments of their own."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("beam_joins", "coders", "transforms", "pipelines")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def checkout(directory: Path) -> Path:
    """A copy of the repository's package files, links as links, for builds to leave their traces in."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, directory / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, directory / file)
    return directory


def run(*command: object, directory: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([str(part) for part in command], cwd=directory, env=environment, capture_output=True, text=True, check=False)


def built_wheel(source: Path) -> Path:
    """The wheel of a checkout."""
    built = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "wheels", ".", directory=source)
    assert built.returncode == 0, built.stderr
    return next((source / "wheels").glob("*.whl"))


def built_source_distribution(source: Path) -> Path:
    """The source distribution of a checkout."""
    built = run(sys.executable, "setup.py", "-q", "sdist", directory=source)
    assert built.returncode == 0, built.stderr
    return next((source / "dist").glob("*.tar.gz"))


def environment(place: Path, *package: object) -> Path:
    """The `bin` of a new environment with the package in it, and all dependencies from this one but not this
    checkout.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    site = next(place.glob("lib/python*/site-packages"))
    # a path in a .pth file is not searched for further .pth files, such as that of an editable install
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    python = place / "bin" / "python"
    done = run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", *package, directory=place)
    assert done.returncode == 0, done.stderr
    return python.parent


def interpreter(version: str) -> str | None:
    """The interpreter of a version on this machine: this one, on the path, or among pyenv's."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    actual = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))]
    works = (path for path in actual if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0)
    return next(works, None)
