"""The command ``python -m pipelines.orders`` as a user runs it: its defaults, these files."""

import sys
from collections.abc import Sequence

from beam_joins.pipelines.orders import main as orders
from benchmarks.contestants.beam_pipeline import SPARK, add_runner
from benchmarks.contestants.command import Task, parser, task
from benchmarks.works import SUFFIXES, WORKS

_OUTPUTS = {"changes": "--output", "latest": "--latest"}


def arguments(assigned: Task, runner: str) -> list[str]:
    """The command line of a task."""
    work = WORKS[assigned.work]
    files = [f"--{table}={assigned.input_files(table)}" for table in work.tables]
    outputs = [f"{_OUTPUTS[name]}={assigned.result(name) / f'result{SUFFIXES[work.writes]}'}" for name in work.results]
    return [*files, *outputs, *(SPARK if runner == "SparkRunner" else (f"--runner={runner}",))]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser("orders_command", tuple(name for name, work in WORKS.items() if work.kind == "shop"))
    add_runner(options)
    asked = options.parse_args(argv)
    return orders(arguments(task(asked), asked.runner))


if __name__ == "__main__":
    sys.exit(main())
