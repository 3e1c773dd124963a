"""``stream_stream_join``: two streams by closeness in time."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from beam_joins.columns.sorting import combine_chunks
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.interval import Matches, Spans, step
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.keys.opaque import python_keys, python_values
from tests.conformance import stream_rules
from tests.conformance.answer import Run
from tests.conformance.kernels import recorded_joiner, rows_of
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.stream_stream_judge import judge_stream_stream
from tests.conformance.streams import padded_pair, unmatched
from tests.conformance.values import Values, pair_of
from tests.properties.strategies import split
from tests.reference.record import Record
from tests.reference.stream_join import Joined, StreamJoin


def _reference(scenario: Scenario) -> Run:
    topology = scenario.topology
    how, kept = topology["type"], {"inner": (), "left": ("left",), "outer": ("left", "right")}[topology["type"]]
    spans = {name: topology[f"{name}_ms"] * 1000 for name in ("before", "after", "grace")}

    def joined(left: bytes | None, right: bytes | None) -> tuple[int, str]:
        (i, left_text), (j, right_text) = (json.loads(side) if side else (-1, None) for side in (left, right))
        return max(i, j), padded_pair(left_text, right_text)

    outs: list[tuple[int, str | None, str, int]] = []
    cores: dict[str, StreamJoin[Any]] = defaultdict(lambda: StreamJoin(joined, how, **spans))

    def put(key: str, results: Iterator[Any]) -> None:
        outs.extend((result.value[0], key, result.value[1], result.timestamp) for result in results if isinstance(result, Joined))

    for record in scenario.inputs:
        if record.value is None:
            continue
        if record.key is None:
            sides = (record.value, None) if record.topic == "left" else (None, record.value)
            outs += [unmatched(record, padded_pair(*sides))] if record.topic in kept else []
            continue
        value, side = json.dumps([record.number, record.value]).encode(), 0 if record.topic == "left" else 1
        event = Record(record.key.encode(), value, record.ts * 1000, record.number, side)
        put(record.key, cores[record.key].advance(record.number, [event]))
    for key, core in cores.items():
        put(key, core.finish())
    return Run(outs=outs, rows={})


def _kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    how, state = scenario.topology["type"], None
    spans = Spans(*(scenario.topology[f"{name}_ms"] * 1000 for name in ("before", "after", "grace")))
    sides = (
        [record for record in scenario.inputs if record.topic == topic and record.value is not None] for topic in ("left", "right")
    )
    actual = []
    for left, right in zip(*(split(rows_of(scenario, side, values), cuts) for side in sides), strict=True):
        matches, state = step(state, left, right, how, spans)
        actual.append(matches)
    assert state is not None
    nothing = [rows.slice(0, 0).drop_columns("matched") for rows in (state.left, state.right)]
    actual.append(step(state, *nothing, how, spans, ALWAYS)[0])
    return Run(outs=[out for matches in actual for out in _results(matches, values)], rows={})


def _results(actual: Matches, values: Values) -> Iterator[tuple[int, str | None, str, int]]:
    index = actual.left_index, actual.right_index
    (left, left_keys), (right, right_keys) = (
        (combine_chunks(side["value"]), python_keys(combine_chunks(side["key"]))) for side in (actual.left, actual.right)
    )
    joined = python_values(recorded_joiner(values)(Pairs(left, index[0], right, index[1])))
    lefts, rights = python_values(left), python_values(right)
    for i, j, row, time in zip(*(side.tolist() for side in index), joined, actual.timestamp.tolist(), strict=True):
        records = ([lefts[i]] if i >= 0 else []) + ([rights[j]] if j >= 0 else [])
        key = left_keys[i] if i >= 0 else right_keys[j]
        yield max(record["number"] for record in records), key, pair_of(row), time


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    rule=stream_rules.stream_stream_join,
    judge=judge_stream_stream,
)
