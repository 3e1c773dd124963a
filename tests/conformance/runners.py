"""Scenarios through the project's operators: through the kernels, through the cores of the reference, or
through pipelines on a runner.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from tests.conformance.answer import Answer
from tests.conformance.kernels import cuts_of
from tests.conformance.registry import OPERATORS
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values

Runner = Literal["core", "reference", "DirectRunner", "SparkRunner"]


def answers(
    scenarios: Sequence[Scenario], runner: Runner, options: Sequence[str] = (), values: Values = "typed", runs: int = 1
) -> Iterator[Answer]:
    """Our answers to scenarios of known ops, in their order; ``options`` are the runner's.

    Kernels take each history in ``runs`` runs.
    """
    if runner == "core":
        for scenario in scenarios:
            yield OPERATORS[scenario.op].kernels(scenario, values, cuts_of(scenario, runs)).answer(scenario)
    elif runner == "reference":
        for scenario in scenarios:
            yield OPERATORS[scenario.op].reference(scenario).answer(scenario)
    elif scenarios:
        # Beam is loaded only where it runs
        from tests.conformance.pipelines.run import collected

        for scenario, run in zip(scenarios, collected(scenarios, runner, options, values), strict=True):
            yield run.answer(scenario)
