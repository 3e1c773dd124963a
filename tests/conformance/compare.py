"""Scenarios through a runner, and the report of the comparison with their recorded answers."""

from collections.abc import Mapping, Sequence

from tests.conformance.answer import Answer
from tests.conformance.judge import judge
from tests.conformance.operators import label
from tests.conformance.registry import OPERATORS
from tests.conformance.report import Report
from tests.conformance.runners import Runner, answers
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values


def compare(
    scenarios: Sequence[Scenario],
    recorded: Mapping[str, Answer],
    runner: Runner,
    options: Sequence[str] = (),
    values: Values = "typed",
    runs: int = 1,
) -> tuple[list[Answer], Report]:
    """Our answers to the scenarios of known ops, and how they compare."""
    report = Report()
    runnable = [scenario for scenario in scenarios if scenario.op in OPERATORS]
    ours = list(answers(runnable, runner, options, values, runs))
    for scenario, answer in zip(runnable, ours, strict=True):
        operator = OPERATORS[scenario.op]
        report.add(label(operator, scenario.topology), scenario.name, judge(operator, scenario, recorded.get(scenario.name), answer))
    for scenario in scenarios:
        if scenario.op not in OPERATORS:
            report.not_run(scenario.op)
    return ours, report
