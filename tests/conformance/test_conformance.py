"""Every recorded scenario of the known ops, by the kernels, by the cores of the reference and in pipelines;
and the tool itself.
"""

import json
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.answer import Answer, Out
from tests.conformance.compare import compare
from tests.conformance.files import EXPECTED, NEGATIVE_BOUNDS, NEGATIVE_BOUNDS_BY_RULE, SCENARIOS, read_answers, read_scenarios
from tests.conformance.judge import judge, without_redundant_tombstones
from tests.conformance.registry import OPERATORS
from tests.conformance.runners import Runner, answers
from tests.conformance.sample import sample
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return read_scenarios(SCENARIOS)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Answer]:
    return read_answers(EXPECTED)


def check(scenarios: list[Scenario], recorded: dict[str, Answer], runner: Runner, values: Values = "typed", runs: int = 1) -> None:
    ours, report = compare(scenarios, recorded, runner, values=values, runs=runs)
    assert len(ours) == len(scenarios), "an op is not run"
    assert report.differing == [], "\n".join(report.lines())
    judged_apart = {scenario.name for scenario in scenarios if scenario.op in OPERATORS and OPERATORS[scenario.op].judge}
    assert set(report.excluded) <= judged_apart, "a recorded scenario of these ops needs no exclusion"


@pytest.mark.parametrize("values", ["typed", "opaque"])
def test_the_kernels_answer_as_kafka_streams_does(values: Values, scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    check(scenarios, recorded, "core", values)


@pytest.mark.sweep
def test_the_kernels_answer_so_too_when_a_history_is_cut_into_runs(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    check(scenarios, recorded, "core", runs=3)


def test_the_kernels_answer_some_of_each_kind_so_too_when_a_history_is_cut(
    scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    check(sample(scenarios, 80), recorded, "core", runs=3)


def test_the_reference_answers_as_kafka_streams_does(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    check(scenarios, recorded, "reference")


@pytest.mark.parametrize(("runner", "runs"), [("core", 1), ("core", 3), ("reference", 1)])
def test_joins_of_streams_with_a_negative_bound_answer_as_the_rule_of_kafka_streams_has_it(runner: Runner, runs: int) -> None:
    check(read_scenarios(NEGATIVE_BOUNDS), read_answers(NEGATIVE_BOUNDS_BY_RULE), runner, runs=runs)


@pytest.mark.sweep
def test_the_direct_runner_answers_as_kafka_streams_does(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    check(scenarios, recorded, "DirectRunner", "opaque")


@pytest.mark.parametrize("values", ["typed", pytest.param("opaque", marks=pytest.mark.sweep)])
def test_the_direct_runner_answers_some_of_each_kind_so(
    values: Values, scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    check(sample(scenarios, 24), recorded, "DirectRunner", values)


@pytest.mark.sweep
@pytest.mark.spark
def test_spark_answers_as_kafka_streams_does(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    check(sample(scenarios, 30), recorded, "SparkRunner", "opaque")


def test_the_tool_sees_a_wrong_value_a_wrong_time_a_lost_record_and_a_wrong_table(
    scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    scenario = next(scenario for scenario in scenarios if scenario.name == "hw/fk/inner/timestamps")
    right = recorded[scenario.name]
    (ours,) = answers([scenario], "core")
    operator = OPERATORS["fk_join"]
    assert judge(operator, scenario, right, ours).difference == ""

    def difference(answer: Answer) -> str:
        return judge(operator, scenario, right, answer).difference

    outs = ours.outs
    assert difference(ours._replace(outs=[*outs[:1], [Out("k", "(f|1,w)", 100)], *outs[2:]])) == (
        "at input 1, left k:f|1@50: Kafka Streams gave k:(f|1,v)@100, we gave k:(f|1,w)@100"
    )
    assert difference(ours._replace(outs=[*outs[:1], [Out("k", "(f|1,v)", 50)], *outs[2:]])).endswith("we gave k:(f|1,v)@50")
    assert difference(ours._replace(outs=[*outs[:6], []])) == (
        "at input 6, left k:null@10: Kafka Streams gave k:null@150, we gave nothing"
    )
    assert difference(ours._replace(final_table={"k": "v"})) == "in the final table, row 'k' should be None, but is 'v'"


def test_the_tool_sees_a_wrong_old_value(scenarios: list[Scenario], recorded: dict[str, Answer]) -> None:
    scenario = next(s for s in scenarios if s.op == "fk_join" and s.topology.get("send_old_values") and not s.retention)
    (ours,) = answers([scenario], "core")
    assert ours.pairs is not None
    wrong = [[pair._replace(old="other") for pair in pairs] for pairs in ours.pairs]
    assert "other->" in judge(OPERATORS["fk_join"], scenario, recorded[scenario.name], ours._replace(pairs=wrong)).difference


def test_only_tombstones_of_rows_without_a_previous_result_are_taken_from_the_recorded_answer() -> None:
    steps = [[Out("a", None, 1)], [Out("a", "1", 2)], [Out("a", "1", 3), Out("b", None, 3)], [Out("a", None, 4)], [Out("a", None, 5)]]
    assert without_redundant_tombstones(steps) == [[], [Out("a", "1", 2)], [Out("a", "1", 3)], [Out("a", None, 4)], []]


def test_a_row_whose_newest_record_kafka_refuses_is_excluded_and_counted(recorded: dict[str, Answer]) -> None:
    document = {
        "name": "expired",
        "topology": {"op": "stream_to_table", "history_retention_ms": 10},
        "inputs": [
            {"topic": "in", "key": "a", "value": "1", "ts": 100},
            {"topic": "in", "key": "b", "value": "2", "ts": 50},
        ],
    }
    answer = Answer("expired", [[Out("a", "1", 100)], []], None, {"a": "1"})
    _, report = compare([Scenario(document)], {"expired": answer}, "core")
    assert report.differing == []
    assert next(report.lines()) == "stream_to_table 0 of 0, 1 excluded"
    assert any("older than the history Kafka keeps" in line and "expired" in line for line in report.lines())


def test_a_filter_store_that_a_late_record_overwrote_is_noted_if_we_are_right_and_a_difference_if_not() -> None:
    document = {
        "name": "late",
        "topology": {"op": "table_filter", "predicate": "lt:2", "materialized": True, "history_retention_ms": 1000},
        "inputs": [
            {"topic": "in", "key": "a", "value": "1", "ts": 100},
            {"topic": "in", "key": "a", "value": "5", "ts": 50},
        ],
    }
    scenario = Scenario(document)
    recorded = Answer("late", [[Out("a", "1", 100)], [Out("a", None, 50)]], None, {})
    (ours,) = answers([scenario], "core")
    operator = OPERATORS["table_filter"]
    assert ours.final_table == {"a": "1"}
    verdict = judge(operator, scenario, recorded, ours)
    assert (verdict.basis, verdict.difference) == ("records", "")
    assert "overwrote a newer row" in verdict.note
    assert judge(operator, scenario, recorded, ours._replace(final_table={})).difference != ""


def test_a_late_record_that_kafka_refuses_is_kept_out_and_the_others_are_judged_record_by_record() -> None:
    document = {
        "name": "refused",
        "topology": {"op": "stream_to_table", "history_retention_ms": 10},
        "inputs": [
            {"topic": "in", "key": "a", "value": "1", "ts": 100},
            {"topic": "in", "key": "a", "value": "2", "ts": 95},
            {"topic": "in", "key": "a", "value": "3", "ts": 50},
        ],
    }
    scenario = Scenario(document)
    recorded = Answer("refused", [[Out("a", "1", 100)], [Out("a", "2", 95)], []], None, {"a": "1"})
    (ours,) = answers([scenario], "core")
    operator = OPERATORS["stream_to_table"]
    verdict = judge(operator, scenario, recorded, ours)
    assert (verdict.basis, verdict.difference) == ("records", "")
    assert "which it refuses" in verdict.note
    without = judge(operator, scenario, recorded, ours._replace(outs=[ours.outs[0], [], ours.outs[2]]))
    assert without.difference == "at input 1, in a:2@95: Kafka Streams gave a:2@95, we gave nothing"
    without = judge(operator, scenario, recorded, ours._replace(outs=[*ours.outs[:2], []]))
    assert without.difference.startswith("at input 2, in a:3@50: Kafka Streams gave a:3@50")


def test_the_time_of_a_final_row_is_seen_where_only_the_final_table_is_compared(
    scenarios: list[Scenario], recorded: dict[str, Answer]
) -> None:
    scenario = next(scenario for scenario in scenarios if scenario.name == "hw/ttj/outer/out_of_order_versioned")
    (ours,) = answers([scenario], "core")
    last = max((i for i, outs in enumerate(ours.outs) if outs), key=lambda i: scenario.position(scenario.inputs[i]))
    wrong = [*ours.outs[:last], [out._replace(ts=out.ts + 1) for out in ours.outs[last]], *ours.outs[last + 1 :]]
    verdict = judge(OPERATORS[scenario.op], scenario, recorded[scenario.name], ours._replace(outs=wrong))
    assert (verdict.basis, verdict.by_rule) == ("final table", False)
    assert "should have the time" in verdict.difference


def test_a_sample_has_some_of_every_op_and_kind_and_is_always_the_same(scenarios: list[Scenario]) -> None:
    chosen = sample(scenarios, 30)
    assert len(chosen) == 30
    assert chosen == sample(scenarios, 30)
    assert {scenario.op for scenario in chosen} == set(OPERATORS)
    assert {scenario.topology["type"] for scenario in chosen if scenario.op == "fk_join"} == {"inner", "left"}


def test_the_tool_writes_answers_that_it_can_read_and_find_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.jsonl"
    assert main([str(SCENARIOS), "--only", "hw/fk/inner/one", "--out", str(results)]) == 0
    assert main([str(SCENARIOS), "--expected", str(results), "--only", "hw/fk/inner/one"]) == 0
    assert "fk_join/inner 2 of 2" in capsys.readouterr().out


def test_the_tool_exits_with_one_and_names_the_scenario_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.jsonl"
    main([str(SCENARIOS), "--only", "hw/fk/inner/one_to_many", "--out", str(results)])
    documents = [json.loads(line) for line in results.read_text().splitlines()]
    next(step for step in documents[0]["steps"] if step["out"])["out"][0]["ts"] += 1
    results.write_text("".join(json.dumps(document) + "\n" for document in documents))
    assert main([str(SCENARIOS), "--expected", str(results), "--only", "hw/fk/inner/one_to_many"]) == 1
    out = capsys.readouterr().out
    assert "fk_join/inner 1 of 2" in out
    assert "differs: hw/fk/inner/one_to_many: at input " in out


def test_the_tool_names_ops_that_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenarios.jsonl"
    path.write_text(json.dumps({"name": "x", "topology": {"op": "cross_join"}, "inputs": []}))
    assert main([str(path), "--expected", str(path)]) == 2  # a scenario is not an answer
    assert "line 1: not a document of this format" in capsys.readouterr().err
    path_of_answers = tmp_path / "expected.jsonl"
    path_of_answers.write_text("")
    assert main([str(path), "--expected", str(path_of_answers)]) == 0
    assert "not run: op unknown: cross_join (1)" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["missing.jsonl", "broken.jsonl", "broken.jsonl.gz"])
def test_a_file_that_cannot_be_used_is_one_sentence_and_exit_code_two(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("broken"):
        (tmp_path / name).write_text('{"name": ')
    assert main([str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert name in error
