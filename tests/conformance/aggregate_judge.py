"""How aggregates are judged where Kafka Streams' answer is not the aggregate of its table, or comes when its
window closes.

* Versioned tables with late records: Kafka's aggregate does not see them (finding 34), ours does at their
  position. In the end both are of the same rows, so what counts is which values are in an aggregate, not by
  which additions and subtractions they got there.
* Windows: one clock for all keys there, here each key's own, so that partitions do not matter. A row that got
  a record for which the two differ is kept out; it is noted.
* Hopping windows that begin before 1970: there are none there.
* The old value of a window's first count is 0 there (finding 32), here there is none.
* With ``suppress`` or ``emit_on_close`` a row comes out once, when its window closes: it must be our row at
  that moment, with its time.
* With Kafka's default retention its store has lost the closed windows in the end, and some never come out
  (finding 36): what does come out is compared.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from beam_joins import Window
from tests.conformance.answer import Answer, Out
from tests.conformance.judge import Verdict, steps_differ
from tests.conformance.operators import Topology
from tests.conformance.scenario import Scenario

NO_MEMBERS: Counter[str] = Counter()
_TERM = re.compile(r"([+-])([^+-]*)")


def judge_aggregate(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict | None:
    """A versioned table with late records by the members of its groups in the end; else by the rules."""
    late = scenario.retention and scenario.goes_back
    if not late or scenario.newest_expired() or recorded.final_table is None:
        return None
    theirs, our = recorded.final_table, ours.final_table or {}
    for group in sorted(theirs.keys() | our.keys()):
        expected, got = members(theirs.get(group)), members(our.get(group))
        if expected != got:
            return Verdict("final table", f"in the final table, group {group!r} should have {dict(expected)}, but has {dict(got)}")
    return Verdict(
        "final table", note="versioned: compared by the members of each group, for Kafka Streams does not see late records (34)"
    )


def members(aggregate: str | None) -> Counter[str]:
    """What is in an aggregate, ``1-1+2`` or ``+1-1+2``, or how many rows in a count.

    >>> members("1-1+2") == members("+2"), members("3-3") == members("0") == members(None)
    (True, True)
    """
    if aggregate is None or aggregate == "0":
        return NO_MEMBERS
    terms = _TERM.findall(aggregate if aggregate.startswith(("+", "-")) else f"+{aggregate}")
    inside: Counter[str] = Counter()
    for sign, value in terms:
        inside[value] += 1 if sign == "+" else -1
    return Counter({value: times for value, times in inside.items() if times})


def windows_of(topology: Topology, micros: int) -> list[Window]:
    """The windows of a topology that a time falls into, computed from its parameters alone."""
    size, advance = topology["size_ms"] * 1000, topology.get("advance_ms", topology["size_ms"]) * 1000
    first = micros // advance * advance
    return [Window(start, start + size) for start in range(first, micros - size, -advance)]


def judge_windowed(scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict | None:
    """By the rules, row by row, without the rows whose clock differs; or by the rows at the moment when Kafka
    gives them.
    """
    if scenario.has_records_in_flight:
        return None
    apart = rows_of_another_clock(scenario)

    def compared(row: str | None) -> bool:
        assert row is not None
        return row not in apart and not row.rpartition("@")[2].startswith("-")

    theirs, our = (_only(answer, compared) for answer in (recorded, ours))
    forgets = bool(scenario.topology.get("default_retention"))
    if forgets:
        theirs = theirs._replace(final_table=None)
    if theirs.pairs is not None:
        without_zero = [[pair._replace(old=old_value(scenario.topology, pair.old)) for pair in pairs] for pairs in theirs.pairs]
        theirs = theirs._replace(pairs=without_zero)
    closes = bool(scenario.topology.get("suppress") or scenario.topology.get("emit_on_close"))
    if closes:
        difference = _not_our_rows(theirs, our)
        our = our._replace(outs=theirs.outs)
    else:
        difference = ""
    difference = difference or steps_differ(scenario, theirs, our)
    notes = []
    if apart:
        notes.append(
            "rows with records that only another key's time made late for Kafka Streams are kept out: here each key has its own clock"
        )
    if forgets:
        notes.append("no final table: Kafka Streams' store forgets closed windows and loses some before they come out (finding 36)")
    return Verdict("closed windows" if closes else "records", difference, note="; ".join(notes))


def rows_of_another_clock(scenario: Scenario) -> set[str]:
    """The rows that got a record late by the clock of all keys and not by its own key's, or the other way
    round.
    """
    clocks: dict[Any, int] = {}
    grace = scenario.topology["grace_ms"] * 1000
    rows = set()
    for record in scenario.inputs:
        if record.key is None:
            continue
        time = record.ts * 1000
        of_key, every = (record.topic, record.key), record.topic
        for clock in (of_key, every):
            clocks[clock] = max(clocks.get(clock, time), time)
        for start, end in windows_of(scenario.topology, time):
            if (end <= clocks[of_key] - grace) != (end <= clocks[every] - grace):
                rows.add(f"{record.key}@{start // 1000}-{end // 1000}")
    return rows


def old_value(topology: Topology, old: str | None) -> str | None:
    """A recorded old value with no count in the place of 0; ``None`` if the join has no row for what is left.

    >>> join = {"op": "windowed_table_join", "type": "left"}
    >>> old_value(join, "(2,0)"), old_value(join, "(0,2)"), old_value({"op": "windowed_table"}, "0")
    ('(2,null)', None, None)
    """
    if old is None or topology["op"] == "windowed_table":
        return None if old == "0" else old
    left, right = ("null" if side in ("0", "null") else side for side in old.strip("()").split(","))
    missing = {"inner": "null" in (left, right), "left": left == "null", "outer": left == right == "null"}
    return None if missing[topology["type"]] else f"({left},{right})"


def _only(answer: Answer, compared: Callable[[str | None], bool]) -> Answer:
    def kept(steps: list[list[Any]]) -> list[list[Any]]:
        return [[item for item in items if compared(item.key)] for items in steps]

    return answer._replace(
        outs=kept(answer.outs),
        pairs=None if answer.pairs is None else kept(answer.pairs),
        final_table=None if answer.final_table is None else {k: v for k, v in answer.final_table.items() if compared(k)},
    )


def _not_our_rows(theirs: Answer, ours: Answer) -> str:
    rows: dict[str | None, Out] = {}
    inputs: set[str | None] = set()
    for i, (closed, changed) in enumerate(zip(theirs.outs, ours.outs, strict=True)):
        rows |= {out.key: out for out in changed}
        for out in closed:
            if out.key in inputs or rows.get(out.key) != out:
                return f"at input {i}: Kafka Streams closed {out}, but our row is {rows.get(out.key)}"
            inputs.add(out.key)
    return ""
