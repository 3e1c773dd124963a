"""What the joins of streams are judged by: how much of it is compared, and that a wrong answer is seen."""

from collections import Counter

import pytest

from tests.conformance.answer import Answer, Out
from tests.conformance.compare import compare
from tests.conformance.files import EXPECTED, SCENARIOS, read_answers, read_scenarios
from tests.conformance.judge import Verdict, judge
from tests.conformance.registry import OPERATORS
from tests.conformance.runners import answers
from tests.conformance.scenario import Scenario
from tests.conformance.stream_rules import stream_stream_join
from tests.conformance.stream_stream_judge import EARLY, LATE, LOST, OPEN, TAKEN, expected

OPS = ("stream_table_join", "stream_global_table_join", "stream_stream_join")


@pytest.fixture(scope="module")
def scenarios() -> dict[str, Scenario]:
    return {scenario.name: scenario for scenario in read_scenarios(SCENARIOS) if scenario.op in OPS}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Answer]:
    return read_answers(EXPECTED)


def test_what_is_compared_and_what_is_excluded_is_counted(scenarios: dict[str, Scenario], recorded: dict[str, Answer]) -> None:
    _, report = compare(list(scenarios.values()), recorded, "core")
    assert [line for line in report.lines() if line.startswith("stream_")] == [
        "stream_global_table_join/inner 18 of 18 (18 by records)",
        "stream_global_table_join/left 18 of 18 (18 by records)",
        "stream_stream_join/inner 27 of 27 (27 by multiset)",
        "stream_stream_join/left 27 of 27 (27 by multiset)",
        "stream_stream_join/outer 27 of 27 (27 by multiset)",
        "stream_table_join/inner 42 of 42 (19 by records, 23 by multiset)",
        "stream_table_join/left 41 of 41, 1 excluded (19 by records, 22 by multiset)",
    ]
    assert [line for line in report.lines() if line.startswith("excluded")] == [
        "excluded: Kafka Streams' task died of a null key in a left join with grace (finding 24): 1 (hw/stj/left/grace_null_key)"
    ]


def test_of_two_streams_nearly_all_results_are_those_of_kafka_streams_and_each_other_one_has_a_reason(
    scenarios: dict[str, Scenario], recorded: dict[str, Answer]
) -> None:
    streams = [scenario for scenario in scenarios.values() if scenario.op == "stream_stream_join"]
    reasons, results, alike = Counter[str](), 0, 0
    for scenario in streams:
        should_be, why = expected(scenario, recorded[scenario.name])
        assert should_be == Counter(out for outs in stream_stream_join(scenario) for out in outs), scenario.name
        reasons.update(why)
        results += should_be.total()
        alike += (should_be & Counter(out for outs in recorded[scenario.name].outs for out in outs)).total()
    assert (alike, results) == (2143, 2224)
    assert reasons == {OPEN: 65, LOST: 12, TAKEN: 4, LATE: 49, EARLY: 14}
    assert results - alike == sum(reasons[reason] for reason in (OPEN, LOST, TAKEN))


@pytest.mark.parametrize("change", ["lost", "further", "time"])
def test_a_recorded_result_that_no_reason_makes_different_is_a_difference(
    change: str, scenarios: dict[str, Scenario], recorded: dict[str, Answer]
) -> None:
    scenario = scenarios["rnd/ssj/left/26"]
    answer = recorded[scenario.name]
    (ours,) = answers([scenario], "core")
    step = next(i for i, outs in enumerate(answer.outs) if any("null" not in str(out.value) for out in outs))
    (out, *rest) = sorted(answer.outs[step], key=lambda out: "null" in str(out.value))
    wrong = {"lost": rest, "further": [out, out, *rest], "time": [out._replace(ts=out.ts + 1), *rest]}[change]
    other = answer._replace(outs=[*answer.outs[:step], wrong, *answer.outs[step + 1 :]])
    assert judge(OPERATORS[scenario.op], scenario, answer, ours).difference == ""
    assert f"Kafka Streams gave {out.key}:{out.value}@" in judge(OPERATORS[scenario.op], scenario, other, ours).difference


@pytest.mark.parametrize(
    "name",
    ["rnd/ssj/left/26", "rnd/ssj/outer/2", "rnd/stj_versioned/left/0", "rnd/stj_grace/left/0", "rnd/stj/left/6", "hw/sgtj/left/nulls"],
)
def test_a_result_lost_or_twice_or_with_another_time_is_seen(
    name: str, scenarios: dict[str, Scenario], recorded: dict[str, Answer]
) -> None:
    scenario = scenarios[name]
    (ours,) = answers([scenario], "core")

    def verdict(outs: list[list[Out]]) -> Verdict:
        return judge(OPERATORS[scenario.op], scenario, recorded[name], ours._replace(outs=outs))

    assert verdict(ours.outs).difference == ""
    seen = 0
    for step, outs in enumerate(ours.outs):
        for out in outs:
            rest = list(outs)
            rest.remove(out)
            wrong = (rest, [*outs, out], [*rest, out._replace(ts=out.ts + 1)])
            seen += all(verdict([*ours.outs[:step], changed, *ours.outs[step + 1 :]]).difference for changed in wrong)
    assert seen == sum(map(len, ours.outs)) > 0
