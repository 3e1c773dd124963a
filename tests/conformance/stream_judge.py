"""How the joins of streams are judged where Kafka Streams' answer depends on when its records came, and ours
does not.
"""

from collections import Counter
from collections.abc import Callable
from itertools import accumulate

from tests.conformance.answer import Answer, Out
from tests.conformance.judge import Verdict
from tests.conformance.scenario import Input, Scenario
from tests.conformance.stream_rules import looked_up

IN_FLIGHT = "several records in flight, and what a stream's record sees of them is luck (finding 12)"


def judge_stream_table(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict | None:
    """A versioned table: as of the record's time, for the stream records that see the same table there and
    here; else by records.
    """
    if scenario.has_records_in_flight:
        return Verdict(excluded=IN_FLIGHT)
    if len(recorded.outs) < len(scenario.inputs):
        return Verdict(excluded="Kafka Streams' task died of a null key in a left join with grace (finding 24)")
    if not scenario.retention:
        return None
    kept_out = _seen_differently(scenario)
    streamed = [record for record in scenario.inputs if record.topic == "left" and record.value is not None]
    if streamed and len(kept_out) == len(streamed):
        return Verdict(
            excluded="versioned: Kafka Streams joined every stream record before a late table record, or after its history expired"
        )

    def compared(answer: Answer) -> Counter[Out]:
        return Counter(out for out in _all(answer) if not any(_is_of(out, record) for record in kept_out))

    difference = first_difference(compared(recorded), compared(ours))
    reason = (
        "versioned: stream records joined before a late table record came, after history expired, or still waiting (findings 22, 23)"
    )
    return Verdict("multiset", difference, note=reason if kept_out else "")


def _seen_differently(scenario: Scenario) -> list[Input]:
    """The stream records for which Kafka has not, or no more, the row of their time when it joins them, or
    that it never joins.
    """
    grace, (retention,) = scenario.topology.get("grace_ms") or 0, scenario.retention.values()
    streamed = _running_max(scenario, lambda record: record.topic == "left")
    surely = _running_max(scenario, lambda record: record.topic == "left" and None not in (record.key, record.value))
    table_times = _running_max(scenario, lambda record: record.topic == "right" and record.key is not None)
    differently = []
    for record in scenario.inputs:
        if record.topic != "left" or None in (record.key, record.value):
            continue
        # A stream record that is dropped may move the time and yet not look at those that wait.
        joined = [
            next((i for i in range(record.number, len(times)) if times[i] >= record.ts + grace), None) for times in (streamed, surely)
        ]
        if None in joined:
            differently.append(record)
            continue
        first, last = joined
        changes = [r for r in scenario.inputs if r.topic == "right" and r.key == record.key]
        newest = looked_up(scenario, record, record.key)
        if newest is None:
            continue
        refused = newest.ts < table_times[newest.number] - retention
        replaced = any(scenario.position(r) > scenario.position(newest) and r.number <= last for r in changes)
        forgotten = replaced and record.ts < table_times[last] - retention
        if newest.number > first or refused or forgotten:
            differently.append(record)
    return differently


def _running_max(scenario: Scenario, counts: Callable[[Input], bool]) -> list[int]:
    times = (record.ts if counts(record) else -1 for record in scenario.inputs)
    return list(accumulate(times, max))


def _is_of(out: Out, record: Input) -> bool:
    return (out.key, out.ts) == (record.key, record.ts) and str(out.value).startswith(f"({record.value},")


def _all(answer: Answer) -> list[Out]:
    return [out for outs in answer.outs for out in outs]


def first_difference(theirs: Counter[Out], ours: Counter[Out]) -> str:
    """The first result that one multiset has more often than the other."""
    for out in sorted((theirs - ours) | (ours - theirs), key=str):
        return f"Kafka Streams gave {out.key}:{out.value}@{out.ts} {theirs[out]} times, we gave it {ours[out]} times"
    return ""
