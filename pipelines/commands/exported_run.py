"""A run as the files of ``--metrics-file`` and ``--lineage-file`` describe it."""

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from beam_joins.pipelines.base.progress import Progress

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.job import Job
    from beam_joins.pipelines.commands.summary import Summary
    from beam_joins.pipelines.results.output_files import Output

_MAXRSS_BYTES: Final = 1 if sys.platform == "darwin" else 1024


class Outcome(StrEnum):
    """How a run has ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


def processor_seconds() -> float:
    """The processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(kw_only=True)
class ExportedRun:
    """A run: its times and its use of the machine; its job once it is built; its summary if it has succeeded, or a
    sentence on its failure.

    ``number`` and ``latest`` are the number of the run and the largest event time of all runs (microseconds), with
    ``--state-dir``.
    """

    progress: Progress
    begin: datetime = field(default_factory=lambda: datetime.now(UTC))
    processor_begin: float = 0.0
    end: datetime | None = None
    outcome: Outcome = Outcome.SUCCEEDED
    failure: str = ""
    job: "Job | None" = None
    outputs: "Sequence[Output]" = ()
    number: int | None = None
    summary: "Summary | None" = None
    latest: int | None = None

    @property
    def seconds(self) -> float:
        """The duration of the phases so far."""
        return sum(self.progress.seconds.values())

    @property
    def processor_seconds(self) -> float:
        """The processor time of this process since the run began (the first begins with the process), and of its children
        that have ended since then.
        """
        return processor_seconds() - self.processor_begin

    @staticmethod
    def peak_bytes() -> dict[str, int]:
        """The largest memory so far of this process, and of the largest of its children that have ended."""
        who = {"command": resource.RUSAGE_SELF, "largest_worker": resource.RUSAGE_CHILDREN}
        return {name: resource.getrusage(each).ru_maxrss * _MAXRSS_BYTES for name, each in who.items()}
