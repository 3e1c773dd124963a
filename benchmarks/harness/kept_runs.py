"""Runs kept in a file as they are measured: a benchmark that was interrupted goes on, and runs that others
slowed down are repeated.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.figures import BUSY, Measured, Run
from benchmarks.harness.process import ROOT
from benchmarks.harness.report import machine

_MEASURED: Final = (
    "beam_joins",
    "coders",
    "transforms",
    "pipelines",
    "benchmarks/contestants",
    "benchmarks/data",
    "benchmarks/works.py",
)


class KeptRuns:
    """The runs in a file, of one machine, one state of the code and one size.

    Raises ``ValueError`` for a file with runs of others, or without runs.
    """

    def __init__(self, path: Path, *, small: bool = False) -> None:
        self._path = path
        self._of = {"machine": machine(), "code": code(), "size": "small" if small else "full"}
        if not path.exists():
            self._found: dict[str, Any] = {"of": self._of, "runs": []}
            return
        try:
            self._found = json.loads(path.read_text(encoding="utf-8"))
            kept_of = self._found["of"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} has no runs of a benchmark ({error!r}): give another file") from None
        if kept_of != self._of:
            other = " and ".join(name for name, value in self._of.items() if kept_of.get(name) != value)
            raise ValueError(f"the runs in {path} were measured with another {other}: give another file, or remove this one")

    def measured(self) -> dict[tuple[str, str], Measured]:
        """What was measured, without runs that shared the machine with something else, and without failures:
        both are to be repeated.
        """
        every = (_measured(**each) for each in self._found["runs"])
        return {(each.case, each.contestant): each for each in every if not each.trouble}

    def keep(self, measured: Iterable[Measured]) -> None:
        """Put what has been measured so far in place of what the file has."""
        written = self._path.with_name(f"{self._path.name}.new")
        written.write_text(
            json.dumps({"of": self._of, "runs": [asdict(each) for each in measured]}, indent=1) + "\n", encoding="utf-8"
        )
        written.replace(self._path)


def code() -> str:
    """A checksum of the source of all that is measured."""
    digest = hashlib.sha256()
    for name in _MEASURED:
        for path in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]:
            digest.update(os.fsencode(path.relative_to(ROOT)) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _measured(starts: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]], rows: dict[str, int], **rest: Any) -> Measured:
    by_size = {int(size): _quiet(each) for size, each in runs.items()}
    return Measured(starts=_quiet(starts), runs=by_size, rows={int(size): count for size, count in rows.items()}, **rest)


def _quiet(runs: list[dict[str, Any]]) -> list[Run]:
    return [run for run in (Run(**each) for each in runs) if run.others <= BUSY]
