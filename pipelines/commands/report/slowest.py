"""The slowest stage of a run and the reason for its time, in words."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from beam_joins.pipelines.results.figure import RESULT, ReferenceCounts

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.summary import StageFigures

RUN: Final = "run"
"""The phase in which the workers work."""


def slowest(stages: "Sequence[StageFigures]") -> "StageFigures | None":
    """The stage that workers spent most seconds in; None if no stage was timed."""
    return max((stage for stage in stages if stage.seconds > 0), key=lambda stage: stage.seconds, default=None)


def sentences(
    stages: "Sequence[StageFigures]", phases: Mapping[str, float], references: ReferenceCounts | None = None, rights: str = ""
) -> list[str]:
    """The slowest stage with its share of the time, why it takes it, and what the rest of the run was spent on.

    >>> from beam_joins.pipelines.commands.summary import StageFigures
    >>> read = StageFigures("read orders", "Read orders", 1_000_000, 1_000_000, 14.0, 250_000_000)
    >>> for sentence in sentences([read, StageFigures("join", "Join", 10_000, 500_000, 4.0)], {"start-up": 2.0, "run": 60.0}):
    ...     print(sentence)
    The slowest stage, read orders, took 14.0 of the 18.0 seconds that workers were timed in stages (78%): 71,429 rows per second.
    It parses records of 250 bytes on average and checks their columns.
    At least 42.0 of the 60.0 seconds of the run went to other work: moving rows between stages, starting workers.
    """
    stage, timed = slowest(stages), sum(each.seconds for each in stages)
    run, total = phases.get(RUN, 0.0), sum(phases.values())
    lines = []
    if stage is None:
        lines.append("No stage was timed: the runner reports no metrics.")
    else:
        lines.append(
            f"The slowest stage, {stage.name}, took {stage.seconds:,.1f} of the {timed:,.1f} seconds that workers were timed in "
            f"stages ({stage.seconds / timed:.0%}): {stage.rows_in / stage.seconds:,.0f} rows per second."
        )
        lines += _reason(stage, references, rights)
    if total and run < total / 2:
        lines.append(
            f"{total - run:,.1f} of {total:,.1f} seconds were start-up and finishing: they stay about the same for larger inputs."
        )
    elif stage is not None and timed < run / 2:
        lines.append(
            f"At least {run - timed:,.1f} of the {run:,.1f} seconds of the run went to other work: moving rows between "
            "stages, starting workers."
        )
    return lines


def _reason(stage: "StageFigures", references: ReferenceCounts | None, rights: str) -> list[str]:
    came, went = stage.rows_in, stage.rows_out
    if stage.name.startswith("read "):
        return [f"It parses records of {stage.bytes_in / came:,.0f} bytes on average and checks their columns."]
    if stage.name.startswith("table "):
        less = f", and leaves out {came - went:,} of {came:,} that change nothing" if went < came else ""
        return [f"It sorts the changes of each key by position{less}."]
    if stage.name.startswith("write "):
        return ["It encodes and sorts the records of the result."]
    if stage.name == "final table":
        return [f"It reduces {came:,} changes to {went:,} rows, the last of each key."]
    changes = sum(changes for _, changes in references.sizes.values()) if references else 0
    reason = f"It makes {went:,} changes of {came:,}"
    if references is None or not changes:
        return [f"{reason}."]
    busiest = sum(row[RESULT] for row in references.busiest) / changes
    return [
        f"{reason}: a change of one of the {rights} gives a change of each row that refers to it. "
        f"The {len(references.busiest)} busiest {rights} have {busiest:.0%} of the changes of the result."
    ]
