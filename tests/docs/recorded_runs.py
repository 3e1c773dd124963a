"""The tables that hold this project against recorded answers of Kafka Streams."""

import re
from functools import cache, partial
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    Change,
    ForeignKeyJoin,
    StreamTableJoin,
    TableTableJoin,
    WindowedAggregate,
    WindowedStreamJoin,
)
from tests.conformance.compare import compare
from tests.conformance.files import EXPECTED, SCENARIOS, read_answers, read_documents, read_scenarios
from tests.docs.notation import Got, key, side
from tests.docs.page import Table
from tests.docs.table_runs import Columns, changes, table_of


def recorded(p: beam.Pipeline, table: Table) -> Columns:
    """A recorded scenario, named in the first column: what Kafka Streams gave, and what the transforms here
    give for the same.
    """
    theirs, ours = [], []
    scenarios, answers = ({document["name"]: document for _, document in read_documents(path)} for path in (SCENARIOS, EXPECTED))
    for row in table.rows:
        for step in answers[row[0]]["steps"]:
            if "failure" in step:
                theirs.append(Got(row[0], step["failure"].split(":")[0].split(".")[-1]))
            theirs += [Got(row[0], _as_cell(f"{out['key'] or 'null'}: {side(out['value'])} @{out['ts']}")) for out in step["out"]]
        ours.append(_Ours(scenarios[row[0]]).results(p))
    return {"theirs": theirs, "ours": ours | beam.Flatten()}


def excluded(p: beam.Pipeline, table: Table) -> Columns:
    """How many recorded scenarios the conformance tool excludes, by its reason."""
    del p, table  # the tool runs the kernels
    counts = [re.fullmatch(r"excluded: (.*?): (\d+) \(.*\)", line) for line in _conformance_report()]
    return {"count": [Got(match[1], f"{match[2]} @0") for match in counts if match]}


def set_right(p: beam.Pipeline, table: Table) -> Columns:
    """How many recorded results the conformance tool expects otherwise of us, by its reason."""
    del p, table  # the tool runs the kernels
    counts = [re.fullmatch(r"set right: (.*?): (\d+) results of .*", line) for line in _conformance_report()]
    return {"count": [Got(match[1], f"{match[2]} @0") for match in counts if match]}


@cache
def _conformance_report() -> list[str]:
    _, report = compare(read_scenarios(SCENARIOS), read_answers(EXPECTED), "core", [])
    return list(report.lines())


def _as_cell(text: str) -> str:
    """A bar would end a cell, and a null within a pair prints as ``null``."""
    for written, read in (("|", "/"), ("null)", "-)"), ("(null", "(-"), (", ", ","), (",", ", ")):
        text = text.replace(written, read)
    return text


class _Ours:
    """A scenario as a pipeline of this project's transforms, the order of arrival its sequence."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self._name = scenario["name"]
        self._topology = scenario["topology"]
        self._rows = [{**row, "at": at} for at, row in enumerate(scenario["inputs"])]

    def results(self, p: beam.Pipeline) -> Any:
        """A collection of :class:`Got`."""
        name, how = self._name, self._topology.get("type")
        op = self._topology["op"]
        spans = {span: self._topology[f"{span}_ms"] / 1000 for span in ("before", "after", "grace") if f"{span}_ms" in self._topology}
        if op == "windowed_table":
            windows = FixedWindows(self._topology["size_ms"] / 1000)
            count = WindowedAggregate(windows, initial=0, add=lambda count, row: count + 1, sequence_by="at", **spans)
            return changes(self._stream(p, "in") | f"{name} count" >> count, name, partial(_of_window, scenario=name))
        if op == "stream_stream_join":
            streams = WindowedStreamJoin(lambda left, right: _pair(_value(left), _value(right)), how=how, sequence_by="at", **spans)
            both = self._stream(p, "left"), self._stream(p, "right")
            return both | f"{name} join" >> streams | f"{name} got" >> beam.Map(_of_element, name)
        if op == "stream_table_join":
            stream = StreamTableJoin(lambda left, right: _pair(_value(left), right), how=how, sequence_by="at")
            both = self._stream(p, "left"), self._table(p, "right")
            return both | f"{name} join" >> stream | f"{name} got" >> beam.Map(_of_element, name)
        tables: Any = (
            ForeignKeyJoin(_pair, foreign_key=lambda key, value: value.split("|")[0], how=how)
            if op == "fk_join"
            else TableTableJoin(_pair, how=how)
        )
        both = self._table(p, "left"), self._table(p, "right")
        return changes(both | f"{name} join" >> tables, name, partial(_of_change, scenario=name))

    def _stream(self, p: beam.Pipeline, topic: str) -> Any:
        rows = [TimestampedValue((row["key"], row), row["ts"] / 1000) for row in self._rows if row["topic"] == topic]
        return p | f"{self._name} {topic}" >> beam.Create(rows, reshuffle=False)

    def _table(self, p: beam.Pipeline, topic: str) -> Any:
        rows = [(row["at"], row["key"], row["value"], row["ts"] * 1000) for row in self._rows if row["topic"] == topic]
        return table_of(p, f"{self._name} {topic}", rows)


def _value(row: dict[str, Any] | None) -> Any:
    return row and row["value"]


def _pair(left: Any, right: Any) -> str:
    return f"({side(left)},{side(right)})"


def _of_element(element: tuple[Any, Any], scenario: str, time: Any = beam.DoFn.TimestampParam) -> Got:
    return Got(scenario, _as_cell(f"{key(element[0])}: {element[1]} @{time.micros // 1000}"))


def _of_change(change: Change[Any, Any], scenario: str) -> Got:
    return Got(scenario, _as_cell(f"{key(change.key)}: {side(change.new)} @{change.timestamp // 1000}"))


def _of_window(change: Change[Any, Any], scenario: str) -> Got:
    name, (start, end) = change.key
    return Got(scenario, f"{name}@{start // 1000}-{end // 1000}: {side(change.new)} @{change.timestamp // 1000}")
