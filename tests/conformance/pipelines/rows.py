"""Scenarios as the collections that pipelines read, and tables as what the tool collects."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_joins import Change, LatestTable, TableToChanges
from tests.conformance.pipelines.operators import Streams
from tests.conformance.scenario import Scenario
from tests.conformance.values import VALUE, Values, text_of, value_of

ROWS = pa.schema([("key", pa.string()), *VALUE, ("at", pa.int64()), ("position", pa.int64()), ("deleted", pa.bool_())])
"""``key`` and ``reference`` are of the form ``number/key``, for the scenarios of one branch share its tables;
``at`` is in microseconds.
"""


def source(scenarios: Sequence[Scenario], numbers: Sequence[int], topic: str, values: Values) -> Any:
    """The records of a topic: dicts, or three batches, the last ones first, as the order of arrival says
    nothing.
    """
    rows = [
        {
            **(value_of(record, f"{number}/") or dict.fromkeys(VALUE.names)),
            "key": None if record.key is None else f"{number}/{record.key}",
            "number": number,
            "at": record.ts * 1000,
            "position": scenarios[number].position(record),
            "deleted": record.value is None,
        }
        for number in numbers
        for record in scenarios[number].inputs
        if record.topic == topic
    ]
    if values == "opaque":
        return beam.Create(rows, reshuffle=False)
    table, third = pa.Table.from_pylist(rows, schema=ROWS), -(-len(rows) // 3)
    return beam.Create([table.slice(third * i, third) for i in (2, 1, 0)], reshuffle=False).with_output_types(pa.Table)


class RecordStream(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The stream of a topic: keys and rows, at their times; a record without a value has a null one, or with
    ``with_nulls`` a row all the same.
    """

    def __init__(self, values: Values, *, with_nulls: bool = False) -> None:
        super().__init__()
        self._values = values
        self._with_nulls = with_nulls

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        if self._values == "typed":
            rows = rows | "Rows" >> beam.FlatMap(lambda table: table.to_pylist())
        types = beam.typehints.KV[beam.typehints.Optional[str], beam.typehints.Any]
        stream: PCollection[Any] = rows | "Times" >> beam.Map(_timed, self._with_nulls).with_output_types(types)
        return stream


def _timed(row: dict[str, Any], with_nulls: bool) -> Any:
    return TimestampedValue((row["key"], None if row["deleted"] and not with_nulls else row), Timestamp(micros=row["at"]))


def streams_of(table: PCollection[Any], shown: Callable[[Any], str] = text_of, name: Callable[[Any], str] = str) -> Streams:
    """The changes of a table and its rows in the end; ``shown`` gives the text of a value, ``name`` that of a
    key.
    """

    def as_text(change: Change[Any, Any]) -> Change[str, str]:
        key, old, new, timestamp, position = change
        return Change(name(key), None if old is None else shown(old), None if new is None else shown(new), timestamp, position)

    def rows(latest: Any) -> Iterator[tuple[str, str]]:
        if isinstance(latest, pa.RecordBatch):
            pairs = zip(latest["key"].to_pylist(), latest["value"].to_pylist(), strict=True)
            return ((name(key), shown(value)) for key, value in pairs)
        key, value = latest
        return iter([(name(key), shown(value))])

    return Streams(
        changes=table | TableToChanges() | "As text" >> beam.Map(as_text).with_output_types(Change),
        rows=table | LatestTable() | "Rows" >> beam.FlatMap(rows),
    )
