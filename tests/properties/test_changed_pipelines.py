"""The law where a pipeline changes between two runs: behind the frontier its tables are those of the new pipeline."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import Change, StateFolder
from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.construction.table_type import table_type
from tests.pipelines.streaming.jobs import written
from tests.properties.random_pipelines import (
    HOWS,
    POSITIONS,
    SOURCES,
    Content,
    Plan,
    Record,
    build,
    contents,
    random_history,
    random_plan,
)


def changed_plan(draw: Random, plan: Plan) -> tuple[Plan, set[int]]:
    """The plan with one to three changes, and the sources that are to be read again."""
    steps, again = list(plan.steps), set[int]()
    typed = list(plan.typed)
    for _ in range(draw.randint(1, 3)):
        at = min(draw.randrange(len(steps)), draw.randrange(len(steps)))
        step = steps[at]
        match draw.choice(["how", "inputs", "more", "less", "schema", "source", "joiner"]):
            case "how" if step.kind in HOWS:
                steps[at] = step._replace(how=draw.choice(HOWS[step.kind]), columns=False)
            case "inputs":
                steps[at] = step._replace(inputs=tuple(draw.randrange(SOURCES + at) for _ in step.inputs), columns=False)
            case "more":
                more = draw.choice(random_plan(draw).steps)
                steps.append(more._replace(inputs=tuple(draw.randrange(SOURCES + len(steps)) for _ in more.inputs), columns=False))
            case "less" if len(steps) > 1:
                steps.pop()
            case "schema" if step.kind != "filter":
                steps[at] = step._replace(typed=not step.typed, columns=False)
            case "joiner" if step.columns:
                steps[at] = step._replace(columns=False)
            case "source":
                source = draw.randrange(SOURCES)
                typed[source] = not typed[source]
                again.add(source)
    if tuple(steps) != plan.steps or again:  # others may have no columns any more
        steps = [each._replace(columns=False) for each in steps]
    return Plan(tuple(typed), tuple(steps), frozenset(range(len(steps)))), again


def run(
    plan: Plan,
    history: Sequence[Record],
    out: Path,
    state: Path,
    again: Sequence[int] = (),
    changed: str = "refuse",
    *,
    partitions: int,
) -> dict[int, Any]:
    """Run a plan, with the records of all runs for the sources that are read again; gives where the tables that are shown begin
    anew.
    """
    flags = [f"--beam_joins_state={state}", f"--beam_joins_changed={changed}", f"--beam_joins_partitions={partitions}"]
    flags += [f"--beam_joins_read_again=plan source {source}" for source in again]
    out.mkdir()
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags)) as pipeline:
        tables = build(pipeline, plan, history, out)
    return {at: table_type(tables[SOURCES + at]).anew for at in plan.shown}


def wrong_behind(
    plan: Plan, cut: int, history: Sequence[Record], first: Sequence[Any], second: Sequence[Any], anew: dict[int, Any]
) -> list[str]:
    """What the changes show behind the cut that the contents of the plan are not: those of the second run for tables that begin
    anew, else those of both.
    """
    message, of_steps = [], contents(plan, history, rebuilt_at=cut)
    of_kept = contents(plan, history)
    for at in sorted(plan.shown):
        lines = second if anew[at] is not None else [*first, *second]
        changes = sorted((Change(*line[2:]) for line in lines if line[1] == at), key=lambda change: change.position)
        content: Content = {}
        if anew[at] is not None and any(change.position < anew[at] for change in changes):
            message.append(f"step {at}: a change in front of the frontier {anew[at]}")
        for position in POSITIONS:
            for change in (change for change in changes if change.position == position):
                if content.get(change.key) != change.old:
                    message.append(f"step {at}: {change} where the row is {content.get(change.key)}")
                content[change.key] = change.new
            rows = {key: row for key, row in content.items() if row is not None}
            expected = (of_kept if anew[at] is None else of_steps)[position][at]
            if position >= cut and rows != expected:
                message.append(f"step {at}, position {position}: {rows} is not {expected}")
    return message


def _cut_off(folder: StateFolder, moves: Any = ()) -> None:
    raise StateRefused("cut off")


def changed(seed: str, tmp_path: Path) -> list[str]:
    """What is wrong when a random plan is changed at a random cut."""
    draw = Random(seed)
    plan, history = random_plan(draw), random_history(draw)
    plan = plan._replace(shown=frozenset(range(len(plan.steps))))
    cut = draw.choice(POSITIONS[1:-1])
    before, later = ([each for each in history if (each.position <= cut) is early] for early in (True, False))
    run(plan, before, tmp_path / "first", tmp_path / "state", partitions=draw.randint(1, 5))
    after, again = changed_plan(draw, plan)
    given = [each for each in history if each.position > cut or each.source in again]
    made = []
    for attempt in ("one", "two"):  # the second one on other partitions, and behind a run that was cut off before it counted
        state = tmp_path / f"{attempt} state"
        shutil.copytree(tmp_path / "state", state)
        partitions = draw.randint(1, 5)
        if attempt == "two" and draw.random() < 0.5:
            with pytest.MonkeyPatch.context() as patched, pytest.raises(StateRefused, match="cut off"):
                patched.setattr(StateFolder, "prepare", _cut_off)
                run(after, given, tmp_path / "cut off", state, sorted(again), "rebuild", partitions=partitions)
        anew = run(after, given, tmp_path / attempt, state, sorted(again), "rebuild", partitions=partitions)
        made.append(written(tmp_path / attempt))
    message = [] if sorted(map(repr, made[0])) == sorted(map(repr, made[1])) else ["a second attempt gives other changes"]
    frontier = max((each.position for each in before), default=cut)
    message += wrong_behind(after, frontier, history, written(tmp_path / "first"), made[0], anew)
    return [*message, str(plan), str(after), str(history), f"cut {cut}, read again {again}, {len(later)} later"] if message else []


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.sweep) if seed > 1 else seed for seed in range(6)])
def test_the_tables_of_a_changed_pipeline_are_those_of_the_new_one(seed: int, tmp_path: Path) -> None:
    assert not changed(f"few {seed}", tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(150))
def test_the_tables_of_many_changed_pipelines_are_those_of_the_new_ones(seed: int, tmp_path: Path) -> None:
    assert not changed(f"many {seed}", tmp_path)
