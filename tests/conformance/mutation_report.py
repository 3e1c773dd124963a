"""How many wrong answers the judges notice, and by what."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tests.conformance.answer import Answer
from tests.conformance.judge import judge
from tests.conformance.mutations import KINDS, mutations
from tests.conformance.operators import label
from tests.conformance.registry import OPERATORS
from tests.conformance.scenario import Scenario

Noticed = Literal["recorded", "rule", "not"]


class MutationReport:
    """Counts by what a scenario is judged by, by op, and by kind of mistake."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[str, Counter[Noticed]]] = defaultdict(lambda: defaultdict(Counter))
        self.unnoticed: list[str] = []
        self.skipped: list[str] = []

    def add(self, scenario: Scenario, recorded: Answer | None, ours: Answer, seed: int) -> None:
        """Make every mistake in an answer and have it judged; an answer that already differs is left out."""
        operator = OPERATORS[scenario.op]
        right = judge(operator, scenario, recorded, ours)
        if right.difference:
            self.skipped.append(scenario.name)
            return
        of = ("excluded" if right.excluded else right.basis, label(operator, scenario.topology))
        for kind, wrong in mutations(scenario, ours, seed):
            verdict = judge(operator, scenario, recorded, wrong)
            noticed: Noticed = "not" if not verdict.difference else "rule" if verdict.by_rule else "recorded"
            self._counts[of][kind][noticed] += 1
            if noticed == "not":
                self.unnoticed.append(f"{scenario.name}: {kind}")

    def table(self) -> Iterator[str]:
        """By basis and kind, as Markdown: how many mistakes the recorded answers show, of how many; the rules
        show the others.
        """
        yield f"| judged by | {' | '.join(KINDS)} |"
        yield f"|---|{'---|' * len(KINDS)}"
        for basis in sorted({basis for basis, _ in self._counts}):
            total: dict[str, Counter[Noticed]] = defaultdict(Counter)
            for (of, _), kinds in self._counts.items():
                for kind, counts in kinds.items() if of == basis else ():
                    total[kind].update(counts)
            yield f"| {basis} | {' | '.join(_share(total[kind]) for kind in KINDS)} |"

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        for (basis, op), kinds in sorted(self._counts.items(), key=lambda item: (item[0][1], item[0][0])):
            every = sum(kinds.values(), Counter[Noticed]())
            noticed = every.total() - every["not"]
            parts = ", ".join(f"{kind} {_share(kinds[kind])}" for kind in KINDS if kinds[kind])
            yield f"{op} by {basis}: {noticed} of {every.total()} noticed; by the recorded answer {parts}"
        yield from self.table()
        yield from (f"not noticed: {each}" for each in self.unnoticed)
        if self.skipped:
            yield f"not mutated, as the answer differs already: {len(self.skipped)} ({', '.join(self.skipped)})"


def mutation_report(
    scenarios: Sequence[Scenario], recorded: Mapping[str, Answer], ours: Sequence[Answer], seed: int
) -> MutationReport:
    """The report on our answers to scenarios of known ops."""
    report = MutationReport()
    for scenario, answer in zip(scenarios, ours, strict=True):
        report.add(scenario, recorded.get(scenario.name), answer, seed)
    return report


def _share(counts: Counter[Noticed]) -> str:
    return f"{counts['recorded']} of {counts.total()}" if counts else "-"
