"""Whether our answer to a scenario is the recorded one, and by what it is judged.

``records``: step by step, with times and, where old values were asked for, with old values. ``final table``:
joins and aggregates of versioned tables that got late records, which Kafka ignores (findings 10, 34, 35): its
final table with its times. ``final inputs``: several records in flight, where Kafka's intermediate results
are luck (finding 12) and even the last one may be (finding 13): its final table, unless that is stale.
``closed windows``: a row when its window closes. ``multiset``: all results of a join of streams, whenever
they came.

What the recorded answer does not say is judged by the rule of the op (``Operator.rule``), step by step and
with times; and the changes of a table must follow on each other and add up to its final rows.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from tests.conformance.answer import Answer, Out, Pair, in_steps_order
from tests.conformance.operators import Operator
from tests.conformance.scenario import Scenario

Basis = Literal["records", "closed windows", "final table", "final inputs", "multiset"]


class Verdict(NamedTuple):
    """How our answer compares with the recorded one.

    ``difference`` is the first one (``""``: none); ``by_rule`` says that only the rule of the op shows it.
    ``excluded`` is why there was nothing recorded to compare with (``""``: there was), ``note`` what else was
    seen. ``set_right`` counts the recorded results that are expected otherwise of us, by the reason.
    """

    basis: Basis = "records"
    difference: str = ""
    excluded: str = ""
    note: str = ""
    by_rule: bool = False
    set_right: Mapping[str, int] = {}


def judge(operator: Operator, scenario: Scenario, recorded: Answer | None, ours: Answer) -> Verdict:
    """Compare our answer with the recorded one, and with the rule of the op where that says nothing."""
    verdict = _by_recorded(operator, scenario, recorded, ours)
    if verdict.difference:
        return verdict
    difference = _no_table(scenario, ours)
    if not difference and (operator.judge is not None or verdict.basis != "records" or verdict.note or verdict.excluded):
        difference = _rule_differs(operator, scenario, ours)
    return verdict._replace(difference=difference, by_rule=True, excluded="") if difference else verdict


def _by_recorded(operator: Operator, scenario: Scenario, recorded: Answer | None, ours: Answer) -> Verdict:
    if recorded is None:
        return Verdict(excluded="no recorded answer of this name")
    if operator.judge is not None and (verdict := operator.judge(scenario, recorded, ours)) is not None:
        return verdict  # type: ignore[no-any-return]
    if scenario.newest_expired():
        return Verdict(
            excluded="versioned: a row's newest record is older than the history Kafka keeps, and refused by it (findings 22, 35)"
        )
    late = bool(scenario.retention) and scenario.goes_back
    if not late and not scenario.has_records_in_flight:
        return Verdict("records", steps_differ(scenario, recorded, ours))
    rule = operator.rule(scenario)
    rows = {key: out.value for key, out in last_results(scenario, rule).items()}
    if scenario.has_records_in_flight:
        stale = recorded.final_table is not None and recorded.final_table != rows
        difference = "" if stale else _end_differs(scenario, rule, recorded, ours)
        return Verdict("final inputs", difference, note="Kafka Streams kept a stale row (finding 13)" if stale else "")
    if operator.raw_rule is not None:
        return _judge_late_records(operator, scenario, recorded, ours, rule)
    if recorded.final_table is None:
        return Verdict(excluded="versioned: late records, and no store on record: no final table")
    return Verdict("final table", _end_differs(scenario, rule, recorded, ours))


def _judge_late_records(operator: Operator, scenario: Scenario, recorded: Answer, ours: Answer, rule: list[list[Out]]) -> Verdict:
    """A single table forwards late records (finding 35), but those that it refuses: each takes its place in
    the order of positions.
    """
    assert operator.raw_rule is not None
    refused = {record.number for record in scenario.expired}
    outs, raw = (
        [inputs if i in refused else kept for i, (inputs, kept) in enumerate(zip(by_rule, recorded.outs, strict=True))]
        for by_rule in (rule, operator.raw_rule(scenario))
    )
    table, notes = recorded.final_table, []
    if refused:
        notes.append("versioned: records older than the history that Kafka Streams keeps, which it refuses (findings 22, 35)")
    if operator.loses_lateness(scenario.topology) and table != {k: out.value for k, out in last_results(scenario, rule).items()}:
        table = None
        notes.append("versioned: a late record overwrote a newer row in the plain store behind the table (finding 35)")
    theirs = recorded._replace(outs=without_redundant_tombstones(outs, scenario.by_position()), final_table=table)
    difference = steps_differ(scenario, theirs, ours._replace(raw=None), as_is=True)
    if not difference and ours.raw is not None:
        difference = steps_differ(scenario, Answer("", raw, None, None), ours._replace(outs=ours.raw, raw=None), as_is=True)
    return Verdict("records", difference, note="; ".join(notes))


def _end_differs(scenario: Scenario, rule: list[list[Out]], recorded: Answer, ours: Answer) -> str:
    if recorded.final_table is None:
        return ""
    difference = tables_differ(recorded.final_table, ours.final_table)
    by_rule, our = last_results(scenario, rule), last_results(scenario, ours.outs)
    for key, ts in () if difference else sorted((recorded.final_ts or {}).items()):
        # Where a delete came before a late record, Kafka's last time is that of its order of arrival.
        if key in by_rule and by_rule[key].ts == ts and (key not in our or our[key].ts != ts):
            return f"in the final table, row {key!r} should have the time {ts}, but has {our[key].ts if key in our else None}"
    return difference


def last_results(scenario: Scenario, steps: list[list[Out]]) -> dict[str, Out]:
    """The rows that results add up to, in the order of positions."""
    rows: dict[str, Out] = {}
    for i in scenario.by_position():
        for out in steps[i]:
            if out.value is None:
                rows.pop(str(out.key), None)
            elif out.key is not None:
                rows[out.key] = out
    return rows


def _no_table(scenario: Scenario, ours: Answer) -> str:
    if ours.pairs is None:
        return ""
    rows: dict[str, str | None] = {}
    for i in scenario.by_position():
        pairs = ours.pairs[i]
        if len({pair.key for pair in pairs}) < len(pairs):
            return f"at input {i}, {_shown(scenario, i)}: we gave two changes of one row, {_changed(pairs)}"
        for pair in pairs:
            if pair.old != rows.get(pair.key) or (pair.old is None and pair.new is None):
                was = _null(rows.get(pair.key))
                return f"at input {i}, {_shown(scenario, i)}: we gave {_changed([pair])}, but the row was {was}"
            rows[pair.key] = pair.new
    left = {key: value for key, value in rows.items() if value is not None}
    return tables_differ(left, ours.final_table)


def _rule_differs(operator: Operator, scenario: Scenario, ours: Answer) -> str:
    answers = [("", operator.rule(scenario), ours.outs)]
    if operator.raw_rule is not None and ours.raw is not None:
        answers.append((" on a raw changelog", operator.raw_rule(scenario), ours.raw))
    for where, rule, our in answers:
        for i, (expected, got) in enumerate(zip(map(in_steps_order, rule), our, strict=True)):
            if expected != got:
                return f"at input {i}, {_shown(scenario, i)}: by the rule it is {_listed(expected)}, we gave {_listed(got)}{where}"
    return ""


def steps_differ(scenario: Scenario, recorded: Answer, ours: Answer, *, as_is: bool = False) -> str:
    """The first difference of two answers, step by step; ``as_is`` leaves tombstones without a previous
    result in the recorded one.
    """
    compared = [("", recorded.outs if as_is else without_redundant_tombstones(recorded.outs), ours.outs)]
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
        return tables_differ(recorded.final_table, ours.final_table)
    return ""


def without_redundant_tombstones(steps: list[list[Out]], order: Iterable[int] | None = None) -> list[list[Out]]:
    """A recorded answer without the tombstones of rows that have no previous result, and nothing else;
    ``order`` is that of the steps.
    """
    live: set[str | None] = set()
    kept: list[list[Out]] = [[] for _ in steps]
    for i in range(len(steps)) if order is None else order:
        for out in steps[i]:
            if out.value is None and out.key not in live:
                continue
            (live.discard if out.value is None else live.add)(out.key)
            kept[i].append(out)
    return kept


def tables_differ(expected: dict[str, str], got: dict[str, str] | None) -> str:
    """The first row in which two final tables differ."""
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
