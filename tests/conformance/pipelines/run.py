"""Scenarios through pipelines on a runner: one pipeline for all, one branch for each kind of topology."""

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import Change
from tests.conformance.answer import Run
from tests.conformance.operators import label
from tests.conformance.pipelines.operators import Pipeline, Streams
from tests.conformance.pipelines.registry import PIPELINES
from tests.conformance.pipelines.rows import source
from tests.conformance.registry import OPERATORS
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values

STREAMS = Streams._fields


def collected(scenarios: Sequence[Scenario], runner_name: str, options: Sequence[str], values: Values) -> list[Run]:
    """What comes out for each scenario."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        if runner_name == "DirectRunner":
            # Newer versions of Beam choose among several direct runners by themselves: keep to one.
            with beam.Pipeline(runner=FnApiRunner()) as pipeline:
                branches = _build(pipeline, scenarios, folder, values)
        else:
            from beam_joins import runner

            with runner(PipelineOptions([f"--runner={runner_name}", *options])) as spark, beam.Pipeline(options=spark) as pipeline:
                branches = _build(pipeline, scenarios, folder, values)
        lines = [line for path in sorted(Path(folder).iterdir()) for line in path.read_text(encoding="utf-8").splitlines()]
    items: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for line in lines:
        stream, number, *fields = json.loads(line)
        items[stream, number].append(fields)
    return [_run(branches[number].streams, items, number) for number in range(len(scenarios))]


def _run(streams: frozenset[str], items: Mapping[tuple[str, int], list[Any]], number: int) -> Run:
    case_inputs: dict[str, Any] = {name: [tuple(fields) for fields in items[name, number]] for name in streams}
    if "rows" in case_inputs:
        case_inputs["rows"] = dict(case_inputs["rows"])
    return Run(**case_inputs)


def _build(pipeline: beam.Pipeline, scenarios: Sequence[Scenario], folder: str, values: Values) -> "dict[int, _Branch]":
    alike: dict[Any, list[int]] = defaultdict(list)
    for number, scenario in enumerate(scenarios):
        alike[scenario.op, PIPELINES[scenario.op].branch(scenario.topology)].append(number)
    branches: dict[int, _Branch] = {}
    lines = []
    for at, numbers in enumerate(alike.values()):
        first = scenarios[numbers[0]]
        branch = _Branch(PIPELINES[first.op], first.topology, values)
        name = f"{label(OPERATORS[first.op], first.topology)} {at}"
        inputs = {
            topic: pipeline | f"{name} {topic}" >> source(scenarios, numbers, topic, values) for topic in OPERATORS[first.op].topics
        }
        lines.append(inputs | name >> branch)
        branches |= dict.fromkeys(numbers, branch)
    _ = lines | "Together" >> beam.Flatten() | "Write" >> beam.io.WriteToText(f"{folder}/answer")
    return branches


class _Branch(beam.PTransform[Any, PCollection[str]]):
    """What one topology gives, as lines of JSON: the stream, the scenario's number, and the fields of its
    :class:`Run`.
    """

    def __init__(self, operator: Pipeline, topology: Mapping[str, Any], values: Values) -> None:
        super().__init__()
        self._build = operator.build
        self._topology = topology
        self._values: Values = values
        self.streams: frozenset[str] = frozenset()

    def expand(self, inputs: Any) -> PCollection[str]:
        """Apply the transform."""
        streams = self._build(inputs, self._topology, self._values)
        case_inputs = {name: pcoll for name, pcoll in zip(STREAMS, streams, strict=True) if pcoll is not None}
        self.streams = frozenset(case_inputs)
        lines = [pcoll | name >> beam.Map(_LINES[name], name) for name, pcoll in case_inputs.items()]
        together: PCollection[str] = lines | "Lines" >> beam.Flatten()
        return together


def _out_line(element: tuple[tuple[str, int], Any], stream: str, timestamp: Any = beam.DoFn.TimestampParam) -> str:
    (key, position), value = element
    number, slash, key = key.partition("/")
    return json.dumps([stream, int(number), position, key if slash else None, value, timestamp.micros])


def _change_line(change: Change[str, Any], stream: str, timestamp: Any = beam.DoFn.TimestampParam) -> str:
    number, _, key = change.key.partition("/")
    return json.dumps([stream, int(number), change.position, key, change.old, change.new, timestamp.micros])


def _row_line(element: tuple[str, Any], stream: str) -> str:
    number, _, key = element[0].partition("/")
    return json.dumps([stream, int(number), key, element[1]])


_LINES = {"outs": _out_line, "changes": _change_line, "rows": _row_line, "raw": _out_line}
