"""Whether our answer to a scenario is the recorded one, and by what it is judged.

``records``: step by step, with times and, where old values were asked for, with old values. ``final table``: versioned tables that got late
records, since Kafka forwards those although they change nothing (finding 35). ``final inputs``: several records in flight, where Kafka's
intermediate results are luck (finding 12) and even the last one may be (finding 13): the result must be the join of the final inputs.
"""

from typing import Literal, NamedTuple

from tests.conformance.answer import Answer, Out, Pair
from tests.conformance.operators import Operator
from tests.conformance.scenario import Scenario

Basis = Literal["records", "final table", "final inputs", "multiset"]


class Verdict(NamedTuple):
    """``difference`` is the first one (``""``: none), ``excluded`` why there was nothing to compare (``""``: there was), ``note`` what else was seen."""

    basis: Basis = "records"
    difference: str = ""
    excluded: str = ""
    note: str = ""


def judge(operator: Operator, scenario: Scenario, recorded: Answer | None, ours: Answer) -> Verdict:
    """Compare our answer with the recorded one."""
    if recorded is None:
        return Verdict(excluded="no recorded answer of this name")
    if operator.judge is not None and (verdict := operator.judge(scenario, recorded, ours)) is not None:
        return verdict  # type: ignore[no-any-return]
    if scenario.newest_expired():
        return Verdict(
            excluded="versioned: a row's newest record is older than the history Kafka keeps, and refused by it (findings 22, 35)"
        )
    if scenario.has_records_in_flight:
        if operator.final_rows is None:
            return Verdict(excluded="several records in flight, and the tool knows no naive join for this op")
        should_be = operator.final_rows(scenario)
        note = "" if recorded.final_table in (None, should_be) else "Kafka Streams kept a stale row (finding 13)"
        return Verdict("final inputs", _tables_differ(should_be, ours.final_table), note=note)
    if scenario.retention and scenario.goes_back:
        return _judge_late(operator, scenario, recorded, ours)
    return Verdict("records", _steps_differ(scenario, recorded, ours))


def _judge_late(operator: Operator, scenario: Scenario, recorded: Answer, ours: Answer) -> Verdict:
    final = recorded.final_table if recorded.final_table is not None else _latest(recorded)
    if final is None:
        return Verdict(excluded="versioned: late records, and neither a store nor changes on record: no final table")
    if operator.loses_lateness(scenario.topology) and operator.final_rows and final != (right := operator.final_rows(scenario)):
        difference = _tables_differ(right, ours.final_table)
        reason = "versioned: a late record overwrote a newer row in the plain store behind the table (finding 35)"
        return Verdict("final table", difference, excluded="" if difference else reason)
    return Verdict("final table", _tables_differ(final, ours.final_table))


def _steps_differ(scenario: Scenario, recorded: Answer, ours: Answer) -> str:
    compared = [("", without_redundant_tombstones(recorded.outs), ours.outs)]
    if ours.raw is not None:
        compared.append((" on a raw changelog", recorded.outs, ours.raw))
    for where, theirs, our in compared:
        for i, (expected, got) in enumerate(zip(theirs, our, strict=True)):
            if expected != got:
                return f"at input {i}, {_shown(scenario, i)}: Kafka Streams gave {_listed(expected)}, we gave {_listed(got)}{where}"
    if scenario.topology.get("send_old_values") and recorded.pairs is not None and ours.pairs is not None and not scenario.retention:
        for i, (steps, our_pairs) in enumerate(zip(recorded.pairs, ours.pairs, strict=True)):
            their_pairs = [pair for pair in steps if pair.old is not None or pair.new is not None]
            our_real = [pair for pair in our_pairs if pair.old is not None or pair.new is not None]
            if their_pairs != our_real:
                return f"at input {i}, {_shown(scenario, i)}: Kafka Streams gave {_changed(their_pairs)}, we gave {_changed(our_real)}"
    if recorded.final_table is not None:
        return _tables_differ(recorded.final_table, ours.final_table)
    return ""


def without_redundant_tombstones(steps: list[list[Out]]) -> list[list[Out]]:
    """A recorded answer without the tombstones of rows that have no previous result, and nothing else."""
    live: set[str | None] = set()
    kept: list[list[Out]] = []
    for outs in steps:
        kept.append([])
        for out in outs:
            if out.value is None and out.key not in live:
                continue
            (live.discard if out.value is None else live.add)(out.key)
            kept[-1].append(out)
    return kept


def _latest(recorded: Answer) -> dict[str, str] | None:
    if recorded.pairs is None:
        return None
    rows: dict[str, str] = {}
    for pair in (pair for pairs in recorded.pairs for pair in pairs if pair.latest):
        if pair.new is None:
            rows.pop(pair.key, None)
        else:
            rows[pair.key] = pair.new
    return rows


def _tables_differ(expected: dict[str, str], got: dict[str, str] | None) -> str:
    for key in sorted(expected.keys() | (got or {}).keys()):
        theirs, our = expected.get(key), (got or {}).get(key)
        if theirs != our:
            return f"in the final table, row {key!r} should be {theirs!r}, but is {our!r}"
    return ""


def _shown(scenario: Scenario, i: int) -> str:
    record = scenario.inputs[i]
    return f"{record.topic} {record.key}:{_null(record.value)}@{record.ts}"


def _listed(outs: list[Out]) -> str:
    return ", ".join(f"{out.key}:{_null(out.value)}@{out.ts}" for out in outs) or "nothing"


def _changed(pairs: list[Pair]) -> str:
    return ", ".join(f"{p.key}:{_null(p.old)}->{_null(p.new)}@{p.ts}" for p in pairs) or "nothing"


def _null(value: str | None) -> str:
    return "null" if value is None else value
