"""The judges judged: mistakes made in right answers are noticed, and the page says by what."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.answer import Answer, in_steps_order
from tests.conformance.files import EXPECTED, SCENARIOS, read_answers, read_scenarios
from tests.conformance.judge import judge
from tests.conformance.mutation_report import MutationReport, mutation_report
from tests.conformance.mutations import KINDS, mutations
from tests.conformance.registry import OPERATORS
from tests.conformance.runners import answers
from tests.conformance.sample import sample
from tests.conformance.scenario import Scenario

PAGE = Path(__file__).parent / "README.md"


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return read_scenarios(SCENARIOS)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Answer]:
    return read_answers(EXPECTED)


@pytest.fixture(scope="module")
def report(scenarios: list[Scenario], recorded: dict[str, Answer]) -> MutationReport:
    return mutation_report(scenarios, recorded, list(answers(scenarios, "core")), seed=0)


@pytest.mark.sweep
def test_every_mistake_in_an_answer_is_noticed(report: MutationReport) -> None:
    assert report.unnoticed == []
    assert report.skipped == []


@pytest.mark.sweep
def test_the_page_says_how_many_mistakes_the_recorded_answers_show(report: MutationReport) -> None:
    assert "\n".join(report.table()) in PAGE.read_text(encoding="utf-8")


def test_every_mistake_in_some_answers_of_each_kind_is_noticed(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    some = sample(scenarios, 80)
    report = mutation_report(some, recorded, list(answers(some, "core")), seed=0)
    assert report.unnoticed == []
    assert report.skipped == []


def test_where_all_records_are_compared_the_recorded_answer_shows_the_mistake_without_the_rule(
    scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    chosen = sample([s for s in scenarios if not s.retention and not s.op.startswith(("windowed", "stream_stream"))], 100)
    seen = Counter[str]()
    for scenario, ours in zip(chosen, answers(chosen, "core"), strict=True):
        operator = OPERATORS[scenario.op]
        if judge(operator, scenario, recorded[scenario.name], ours).basis != "records":
            continue
        for kind, wrong in mutations(scenario, ours, seed=1):
            verdict = judge(operator, scenario, recorded[scenario.name], wrong)
            assert verdict.difference, f"{scenario.name}: {kind}"
            if not kind.startswith("another old") and not kind.startswith("another final"):
                assert not verdict.by_rule, f"{scenario.name}: {kind}"
            seen[kind] += 1
    assert set(seen) == set(KINDS)


@pytest.mark.parametrize("number", [250, pytest.param(None, marks=pytest.mark.sweep)])
def test_the_rules_give_what_kafka_streams_gave_wherever_the_two_are_compared_record_by_record(
    number: int | None, scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    compared = Counter[str]()
    chosen = scenarios if number is None else sample(scenarios, number)
    for scenario, ours in zip(chosen, answers(chosen, "core"), strict=True):
        operator = OPERATORS[scenario.op]
        rule = ours._replace(outs=[in_steps_order(outs) for outs in operator.rule(scenario)], pairs=None)
        verdict = judge(operator, scenario, recorded[scenario.name], rule)
        assert not verdict.difference, f"{scenario.name}: {verdict.difference}"
        compared[scenario.op] += verdict.basis in ("records", "multiset") and not verdict.excluded
    assert set(compared) == set(OPERATORS)
    assert number or all(count >= 18 for count in compared.values())


def test_a_mistake_is_one_mistake_and_carried_through_to_the_old_values_and_the_final_table(scenarios: list[Scenario]) -> None:
    scenario = next(scenario for scenario in scenarios if scenario.name == "hw/fk/inner/timestamps")
    (ours,) = answers([scenario], "core")
    wrong = dict(mutations(scenario, ours, seed=0))
    assert set(wrong) == set(KINDS) - {"another final row"}  # the row is deleted in the end
    for kind, answer in wrong.items():
        assert answer != ours, kind
        assert answer.pairs is not None
        if kind != "another old value":
            assert [[pair.new for pair in pairs] for pairs in answer.pairs] == [[out.value for out in outs] for outs in answer.outs]
    assert sum(map(len, wrong["a row lost"].outs)) == sum(map(len, ours.outs)) - 1
    assert sum(map(len, wrong["a row twice"].outs)) == sum(map(len, ours.outs)) + 1
    tombstones = [sum(out.value is None for outs in answer.outs for out in outs) for answer in (ours, wrong["a tombstone lost"])]
    assert tombstones[1] == tombstones[0] - 1


def test_the_tool_counts_the_mistakes_and_exits_with_one_if_one_is_not_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--only", "hw/fk/inner/timestamps", "--mutate"]) == 0
    assert "fk_join/inner by records: 7 of 7 noticed" in capsys.readouterr().out
    monkeypatch.setattr("tests.conformance.mutation_report.mutations", lambda scenario, right, seed: iter([("a row lost", right)]))
    assert main(["--only", "hw/fk/inner/timestamps", "--mutate", "3"]) == 1
    assert "not noticed: hw/fk/inner/timestamps: a row lost" in capsys.readouterr().out


def test_mistakes_need_recorded_answers_to_be_judged_by(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(SCENARIOS), "--mutate"])
    assert "--mutate needs --expected" in capsys.readouterr().err
