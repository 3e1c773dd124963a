"""Hides pandas from a program that has no use for it: Beam and Arrow import it wherever it is installed, which takes a third of the
time that the program needs to start.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "pandas"


def hide_pandas() -> None:
    """Have every later import of pandas in this process fail, as where it is not installed; for a program's own process, before it
    imports Beam or Arrow.
    """
    sys.meta_path.insert(0, _Hidden())


class _Hidden(MetaPathFinder):
    """Finds that pandas is not there."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname == _NAME:
            raise ModuleNotFoundError(f"{_NAME} is hidden from this program", name=_NAME)
        return None
