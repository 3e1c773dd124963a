"""Programs that tests look for, and are skipped without; `python -m tests.prepare` installs them."""

import os
import shutil
from pathlib import Path

import pytest

PRISM_CACHE = Path("~/.apache_beam/cache/prism/bin").expanduser()
BOOT_CACHE = Path("~/.apache_beam/cache/boot").expanduser()
EMULATORS_CACHE = Path("~/.apache_beam/cache/store-emulators").expanduser()
AZURITE_CACHE = Path("~/.apache_beam/cache/azurite").expanduser()
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def prism() -> Path | None:
    """Beam's Prism: named by BEAM_PRISM, on the path, or where Beam or ``go install`` puts it."""
    places = (os.environ.get("BEAM_PRISM"), shutil.which("prism"), Path.home() / "go" / "bin" / "prism", PRISM_CACHE / "prism")
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def boot() -> Path | None:
    """The program of Beam's images, which starts Python workers."""
    return path if (path := BOOT_CACHE / "container").is_file() else None


def chromium() -> Path | None:
    return next((Path(path) for path in map(shutil.which, _BROWSERS) if path), None)


def postgres() -> Path | None:
    """Where PostgreSQL's programs lie, None if it or wal2json is not installed."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder.parent / "lib" / "wal2json.so").exists() and (folder / "initdb").exists():
            return folder
    return None


def emulators() -> Path | None:
    """An environment of its own with the emulators of stores, whose packages are not those of this one."""
    complete = all((EMULATORS_CACHE / "bin" / name).exists() for name in ("moto_server", "gcp-storage-emulator", "bqemulator"))
    return EMULATORS_CACHE if complete and any(EMULATORS_CACHE.glob("lib/*/site-packages/azure/storage/blob")) else None


def azurite() -> Path | None:
    """The emulator of Azure Blob Storage, a program for Node.js."""
    program = AZURITE_CACHE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return program if program.is_file() and shutil.which("node") else None


def needed(name: str, program: Path | None) -> Path:
    """The program, or the test is skipped."""
    if program is None:
        pytest.skip(f"{name} is missing: python -m tests.prepare")
    return program


def needed_prism() -> str:
    return str(needed("Prism", prism()))
