"""Hides packages from a program that has no use for them: Beam and Arrow import them wherever they are installed, which takes half of
the time of importing Beam.
"""

import logging
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

_OF_GOOGLE: Final = ("apitools", "google.api_core", "google.auth", "google.cloud", "oauth2client")
_NEED_GOOGLE: Final = re.compile("gs://|bigquery|dataflow", re.IGNORECASE)
_OPTIONS: Final = (".sql", ".toml")
"""The ends of the names of files that arguments name and that may name addresses."""


def hide_packages(arguments: Sequence[str]) -> None:
    """Have every later import of pandas in this process fail, as where it is not installed, and that of Google's packages unless the
    arguments, or the files of options that they name, have an address there; for a program's own process, before it imports Beam
    or Arrow.
    """
    hidden = ("pandas", *(() if any(map(_NEED_GOOGLE.search, _texts(arguments))) else _OF_GOOGLE))
    sys.meta_path.insert(0, _Hidden(hidden))
    logging.getLogger().addFilter(_says_something)


def _says_something(record: logging.LogRecord) -> bool:
    """Whether a message of Beam's is of use: that the packages of Google are not there is none where nobody needs them."""
    return not record.getMessage().startswith("apitools not found")


def _texts(arguments: Sequence[str]) -> list[str]:
    texts = list(arguments)
    for argument in arguments:
        path = Path(argument.rpartition("=")[2])
        if path.suffix in _OPTIONS and path.is_file():
            with suppress(OSError):  # whoever reads the options says so
                texts.append(path.read_text(encoding="utf-8", errors="replace"))
    return texts


class _Hidden(MetaPathFinder):
    """Finds that packages are not there."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is hidden from this program", name=fullname)
        return None
