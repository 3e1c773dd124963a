"""The counts of a comparison and how they are printed."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.conformance.judge import Verdict


class Report:
    """Verdicts by op and kind: one line each, then every difference, every exclusion with its reason, and
    what was not run.
    """

    def __init__(self) -> None:
        self._verdicts: dict[str, list[tuple[str, Verdict]]] = defaultdict(list)
        self._unknown: Counter[str] = Counter()

    def add(self, label: str, name: str, verdict: Verdict) -> None:
        """Count a scenario."""
        self._verdicts[label].append((name, verdict))

    def not_run(self, op: str) -> None:
        """Count a scenario of an op that the tool does not know."""
        self._unknown[op] += 1

    @property
    def differing(self) -> list[str]:
        """The names of the scenarios that differ."""
        return [name for verdicts in self._verdicts.values() for name, verdict in verdicts if verdict.difference]

    @property
    def excluded(self) -> list[str]:
        """The names of the scenarios that were not compared."""
        return [name for verdicts in self._verdicts.values() for name, verdict in verdicts if verdict.excluded]

    def _set_right(self) -> Iterator[str]:
        results: Counter[str] = Counter()
        names = defaultdict(list)
        for verdicts in self._verdicts.values():
            for name, verdict in verdicts:
                results.update(verdict.set_right)
                for reason in verdict.set_right:
                    names[reason].append(name)
        for reason, count in sorted(results.items()):
            yield f"set right: {reason}: {count} results of {len(names[reason])} scenarios ({', '.join(names[reason])})"

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        for label, verdicts in sorted(self._verdicts.items()):
            judged = [verdict for _, verdict in verdicts if not verdict.excluded]
            passed = [verdict for verdict in judged if not verdict.difference]
            by = ", ".join(f"{n} by {basis}" for basis, n in Counter(verdict.basis for verdict in judged).items())
            excluded = f", {len(verdicts) - len(judged)} excluded" if len(judged) < len(verdicts) else ""
            yield f"{label} {len(passed)} of {len(judged)}{excluded}" + (f" ({by})" if by else "")
        everything = [(name, verdict) for _, verdicts in sorted(self._verdicts.items()) for name, verdict in verdicts]
        for name, verdict in everything:
            if verdict.difference:
                yield f"differs: {name}: {verdict.difference}"
        yield from _grouped("excluded", [(verdict.excluded, name) for name, verdict in everything if verdict.excluded])
        yield from _grouped("noted", [(verdict.note, name) for name, verdict in everything if verdict.note])
        yield from self._set_right()
        for op, count in sorted(self._unknown.items()):
            yield f"not run: op unknown: {op} ({count})"


def _grouped(what: str, reasons: list[tuple[str, str]]) -> Iterator[str]:
    names = defaultdict(list)
    for reason, name in reasons:
        names[reason].append(name)
    for reason, those in sorted(names.items()):
        yield f"{what}: {reason}: {len(those)} ({', '.join(those)})"
