"""How the joins of streams are judged where Kafka Streams' answer depends on when its records came, and ours does not."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tests.conformance.answer import Answer, Out
from tests.conformance.judge import Verdict
from tests.conformance.scenario import STEPS, Input, Scenario

IN_FLIGHT = "several records in flight, and what a stream's record sees of them is luck (finding 12)"


def judge_stream_table(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict | None:
    """A versioned table: as of the record's time, for the stream records that see the same table there and here; else by records."""
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

    difference = _first_difference(compared(recorded), compared(ours))
    reason = (
        "versioned: stream records joined before a late table record came, after history expired, or still waiting (findings 22, 23)"
    )
    return Verdict("multiset", difference, note=reason if kept_out else "")


def stream_position(topology: Mapping[str, Any], position: int) -> int:
    """The position of a stream record: with a grace it waits, and sees all changes of its own time (finding 23)."""
    return position // STEPS * STEPS + STEPS - 1 if topology.get("grace_ms") else position


def _seen_differently(scenario: Scenario) -> list[Input]:
    """The stream records for which Kafka has not, or no more, the row of their time when it joins them, or that it never joins."""
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
        position = stream_position(scenario.topology, scenario.position(record))
        newest = max((r for r in changes if scenario.position(r) <= position), key=scenario.position, default=None)
        if newest is None:
            continue
        refused = newest.ts < table_times[newest.number] - retention
        replaced = any(scenario.position(r) > scenario.position(newest) and r.number <= last for r in changes)
        forgotten = replaced and record.ts < table_times[last] - retention
        if newest.number > first or refused or forgotten:
            differently.append(record)
    return differently


class _Row(NamedTuple):
    record: Input
    left: bool
    closes: int


def judge_stream_stream(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict:
    """The multiset of results, where timestamps never go back; beyond it only what Kafka Streams still holds back in the end."""
    if scenario.has_records_in_flight:
        return Verdict(excluded=IN_FLIGHT)
    if scenario.goes_back:
        return Verdict(excluded="timestamps go back: Kafka Streams joins late records with what its stores still keep (finding 29)")
    before, after, grace = (scenario.topology[f"{name}_ms"] for name in ("before", "after", "grace"))
    rows = [
        _Row(r, r.topic == "left", r.ts + grace + (after if r.topic == "left" else before))
        for r in scenario.inputs
        if None not in (r.key, r.value)
    ]
    if _loses_far_edge(rows, before, after, grace):
        return Verdict(
            excluded="a pair at the far edge of a window with no width on the other side, which Kafka Streams loses (finding 30)"
        )
    theirs, our = Counter(_all(recorded)), Counter(_all(ours))
    now = max((row.record.ts for row in rows), default=0)
    matched = {r.number for row in rows for other in rows if _match(row, other, before, after) for r in (row.record, other.record)}
    kept = {"inner": (), "left": (True,), "outer": (True, False)}[scenario.topology["type"]]
    pending = Counter(_alone(row) for row in rows if row.record.number not in matched and row.left in kept)
    held = (our - theirs) & pending
    overdue = held - Counter(_alone(row) for row in rows if row.closes >= now)
    notes = ["records without a match whose window was still open in the end"] if held - overdue else []
    notes += ["records without a match that Kafka Streams was still to look at (finding 28)"] if overdue else []
    return Verdict("multiset", _first_difference(theirs, our - held), note="; ".join(notes))


def _match(left: _Row, right: _Row, before: int, after: int) -> bool:
    if not left.left or right.left or left.record.key != right.record.key:
        return False
    return left.record.ts - before <= right.record.ts <= left.record.ts + after


def _loses_far_edge(rows: Sequence[_Row], before: int, after: int, grace: int) -> bool:
    """True if a pair's earlier row has left its store, which keeps what is less than before + after + grace behind its own side."""
    for left in rows:
        for right in rows:
            if not _match(left, right, before, after):
                continue
            first, last = sorted((left, right), key=lambda row: row.record.number)
            newest = max(r.record.ts for r in rows if r.left == first.left and r.record.number < last.record.number)
            if newest - first.record.ts >= before + after + grace:
                return True
    return False


def _alone(row: _Row) -> Out:
    value = row.record.value
    return Out(row.record.key, f"({value},null)" if row.left else f"(null,{value})", row.record.ts)


def _running_max(scenario: Scenario, counts: Callable[[Input], bool]) -> list[int]:
    times = (record.ts if counts(record) else -1 for record in scenario.inputs)
    return list(accumulate(times, max))


def _is_of(out: Out, record: Input) -> bool:
    return (out.key, out.ts) == (record.key, record.ts) and str(out.value).startswith(f"({record.value},")


def _all(answer: Answer) -> list[Out]:
    return [out for outs in answer.outs for out in outs]


def _first_difference(theirs: Counter[Out], ours: Counter[Out]) -> str:
    for out in sorted((theirs - ours) | (ours - theirs), key=str):
        return f"Kafka Streams gave {out.key}:{out.value}@{out.ts} {theirs[out]} times, we gave it {ours[out]} times"
    return ""
