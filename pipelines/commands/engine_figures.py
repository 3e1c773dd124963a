"""Reads the engine's metrics after a run (``docs/metrics.md``), and adds them up by labelled step."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from apache_beam.metrics import MetricsFilter

from beam_joins.transforms.connect.metrics import (
    ABSENT_DELETES,
    BLOCK_BYTES,
    BLOCK_ROWS,
    NAMESPACE,
    ROWS_IN,
    ROWS_OUT,
    STATE_BYTES,
    STATE_ROWS,
    SUPERSEDED_ROWS,
    TURN_MICROS,
    UNMATCHED,
)
from beam_joins.transforms.connect.runs import step_named


class StepFigures(NamedTuple):
    """Of a step: rows that it got and gave, those without a partner, the seconds that its kernels worked, of all
    workers together, deletes of absent rows, and rows that a later one of their transaction supersedes.
    """

    rows_in: int = 0
    rows_out: int = 0
    unmatched: int = 0
    seconds: float = 0.0
    absent_deletes: int = 0
    superseded_rows: int = 0


class EngineFigures(NamedTuple):
    r"""The figures of a run: its steps by name, the blocks that were sent, and the size of the state.

    >>> steps = {"Join": StepFigures(1200, 900, 2, 0.25)}
    >>> figures = EngineFigures(steps, blocks=2, block_rows=1200, block_bytes=9000, largest_block=5000)
    >>> print("\n".join(figures.lines()))
      join                     1,200  rows in, 900 out, 2 without a partner; 0.2 s
      blocks                       2  of 600 rows and 4,500 bytes in the mean, 5,000 at most
    """

    steps: Mapping[str, StepFigures]
    blocks: int = 0
    block_rows: int = 0
    block_bytes: int = 0
    largest_block: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    @classmethod
    def of(cls, result: Any, steps: Sequence[str]) -> Self | None:
        """The figures of a run that has ended, by these outermost steps of its pipeline; ``None`` if its
        runner reports none.
        """
        try:
            queried = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
        except NotImplementedError:
            return None
        sums: dict[tuple[str, str], int] = {}
        largest = blocks = 0
        for each in (*queried["counters"], *queried["distributions"]):
            step, name, value = step_named(each.key.step, steps), each.key.metric.name, each.result
            if name == BLOCK_BYTES.name:
                largest, blocks = max(largest, value.max), blocks + value.count
            sums[step, name] = sums.get((step, name), 0) + (value if isinstance(value, int) else value.sum)
        if not sums:
            return None

        def total(name: str) -> int:
            return sum(value for (_, metric), value in sums.items() if metric == name)

        def of_step(step: str) -> StepFigures:
            counters = (ROWS_IN, ROWS_OUT, UNMATCHED, TURN_MICROS, ABSENT_DELETES, SUPERSEDED_ROWS)
            came, gave, alone, micros, absent, superseded = (sums.get((step, metric.name), 0) for metric in counters)
            return StepFigures(came, gave, alone, micros / 1e6, absent, superseded)

        by_step = {step: of_step(step) for step in sorted({step for step, name in sums if name == TURN_MICROS.name})}
        rows, size, kept, kept_bytes = (total(metric.name) for metric in (BLOCK_ROWS, BLOCK_BYTES, STATE_ROWS, STATE_BYTES))
        return cls(by_step, blocks, rows, size, largest, kept, kept_bytes)

    def lines(self) -> list[str]:
        """Lines for a summary."""
        lines = []
        for name, step in self.steps.items():
            alone = f", {step.unmatched:,} without a partner" if step.unmatched else ""
            lines.append(f"  {name.lower():<19} {step.rows_in:>10,}  rows in, {step.rows_out:,} out{alone}; {step.seconds:,.1f} s")
        if self.blocks:
            mean = f"{self.block_rows / self.blocks:,.0f} rows and {self.block_bytes / self.blocks:,.0f} bytes in the mean"
            lines.append(f"  {'blocks':<19} {self.blocks:>10,}  of {mean}, {self.largest_block:,} at most")
        if self.state_bytes:
            lines.append(f"  {'remembered':<19} {self.state_rows:>10,}  rows, {self.state_bytes:,} bytes")
        return lines
