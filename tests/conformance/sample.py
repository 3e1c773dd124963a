"""A sample of scenarios that has some of every op and kind."""

from collections import defaultdict
from collections.abc import Sequence

from tests.conformance.operators import label
from tests.conformance.registry import OPERATORS
from tests.conformance.scenario import Scenario


def sample(scenarios: Sequence[Scenario], size: int) -> list[Scenario]:
    """``size`` scenarios of known ops, the same every time: spread evenly over the kinds, and over the
    scenarios of each.
    """
    kinds: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        if scenario.op in OPERATORS:
            kinds[label(OPERATORS[scenario.op], scenario.topology)].append(scenario)
    taken: dict[str, int] = dict.fromkeys(kinds, 0)
    left = min(size, sum(map(len, kinds.values())))
    while left:
        for kind in sorted(kinds):
            if left and taken[kind] < len(kinds[kind]):
                taken[kind] += 1
                left -= 1
    chosen = {id(kinds[kind][i * len(kinds[kind]) // n]) for kind, n in taken.items() for i in range(n)}
    return [scenario for scenario in scenarios if id(scenario) in chosen]
