"""How the join of two streams is judged: results that Kafka Streams' clocks and stores make different are set
right first, each for a reason.

Kafka Streams' answer and the rule (:mod:`tests.conformance.stream_rules`) are held against each other, result
by result. Only there may they differ:

* it joins a record that is late here with what its stores still keep, or gives it without a match (finding
  29): here it goes to ``late``;
* a pair's earlier record has left its store, which counts from the newest record of its side, of any key
  (findings 29, 30);
* the time of all keys has closed a record's window, and it is given without a match before a match comes that
  is not late here (29);
* a record without a match is still held back in the end (findings 27, 28), or has been joined with a late
  one.

What is expected of us is Kafka Streams' answer with those results set right: a multiset in which nothing is
optional.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from tests.conformance.answer import Answer, Out
from tests.conformance.judge import Verdict
from tests.conformance.scenario import Input, Scenario
from tests.conformance.stream_judge import IN_FLIGHT, first_difference
from tests.conformance.stream_rules import Match, in_window, late, stream_stream_join, unmatched, usable

LATE = "results of records that are late here, which Kafka Streams joins with what its stores still keep (finding 29)"
LOST = "pairs that Kafka Streams loses, since its store has forgotten the earlier record (findings 29, 30)"
EARLY = "records that Kafka Streams gives without a match before one comes that is not late here (finding 29)"
OPEN = "records without a match whose window was still open in the end"
OVERDUE = "records without a match that Kafka Streams was still to look at (finding 28)"
TAKEN = "records without a match but late ones, with which Kafka Streams has joined them (finding 29)"


class Differing:
    """Which results of a scenario may differ, and why."""

    def __init__(self, scenario: Scenario) -> None:
        topology = scenario.topology
        self._inputs = scenario.inputs
        self._records = usable(scenario)
        self._spans: dict[str, int] = {"left": topology["after_ms"], "right": topology["before_ms"]}
        self._grace: int = topology["grace_ms"]
        self._kept: int = topology["before_ms"] + topology["after_ms"] + self._grace
        self._late = late(scenario)
        self._matches = list(in_window(scenario))

    def missing(self, theirs: Counter[Out]) -> Iterator[tuple[Out, str]]:
        """Results of the rule that Kafka Streams may not have, with the reason."""
        for match in self._matches:
            if not self._late & set(match) and self._lost(match):
                yield match.out, LOST
        now = max((record.ts for record in self._records), default=0)
        for record in self._records:
            if record in self._late:
                continue
            if any(theirs[match.out] for match in self._of(record) if self._late & set(match)):
                yield unmatched(record), TAKEN
            elif not any(theirs[match.out] for match in self._of(record)):
                closes = record.ts + self._spans[record.topic] + self._grace
                yield unmatched(record), OPEN if closes >= now else OVERDUE

    def further(self) -> Iterator[tuple[Out, str]]:
        """Results that Kafka Streams may have and the rule has not, with the reason."""
        for match in self._matches:
            if self._late & set(match):
                yield match.out, LATE
        for record in self._records:
            if record in self._late:
                yield unmatched(record), LATE
            elif self._closed_early(record):
                yield unmatched(record), EARLY

    def _of(self, record: Input) -> list[Match]:
        return [match for match in self._matches if record in match]

    def _lost(self, match: Match) -> bool:
        first, last = match.first, match.last
        own_side = [r.ts for r in self._records if r.topic == first.topic and r.number < last.number]
        return max(own_side) - first.ts >= self._kept

    def _closed_early(self, record: Input) -> bool:
        """True if the time of all keys has passed the record's window before the first match came that Kafka
        Streams can have joined.
        """
        joined = [match.last.number for match in self._of(record) if not self._lost(match)]
        before = [r.ts for r in self._inputs if r.number <= min(joined, default=len(self._inputs))]
        return max(before, default=0) > record.ts + self._spans[record.topic]


def judge_stream_stream(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict:
    """The multiset of results that is expected of us."""
    if scenario.has_records_in_flight:
        return Verdict(excluded=IN_FLIGHT)
    should_be, reasons = expected(scenario, recorded)
    our = Counter(out for outs in ours.outs for out in outs)
    return Verdict("multiset", first_difference(should_be, our), set_right=reasons)


def expected(scenario: Scenario, recorded: Answer) -> tuple[Counter[Out], Mapping[str, int]]:
    """Kafka Streams' results with those set right that may differ, and how many were, by the reason."""
    theirs = Counter(out for outs in recorded.outs for out in outs)
    rule = Counter(out for outs in stream_stream_join(scenario) for out in outs)
    differing = Differing(scenario)
    reasons: Counter[str] = Counter()
    added = _allowed(rule - theirs, lambda: differing.missing(theirs), reasons)
    removed = _allowed(theirs - rule, differing.further, reasons)
    return theirs + added - removed, reasons


def _allowed(differing: Counter[Out], reasoned: Callable[[], Iterator[tuple[Out, str]]], reasons: Counter[str]) -> Counter[Out]:
    allowed: Counter[Out] = Counter()
    for out, reason in reasoned() if differing else ():
        if allowed[out] < differing[out]:
            allowed[out] += 1
            reasons[reason] += 1
    return allowed
