"""What the joins of streams share: streams for pipelines, and results as text."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.conformance.scenario import Input
from tests.reference import recomputed


def padded_pair(left: str | None, right: str | None) -> str:
    """A joined value as text."""
    return recomputed.pair("null" if left is None else left, right)


def unmatched(record: Input, text: str) -> tuple[int, str | None, str, int]:
    """The result of a record without a match."""
    return record.number, record.key, text, record.ts * 1000


def _timed(row: dict[str, Any]) -> Any:
    return TimestampedValue((row["key"], None if row["value"] is None else row), Timestamp(micros=row["ts"] * 1000))


def stream_of(rows: PCollection[Any], name: str) -> PCollection[Any]:
    """The stream of a topic: keys and rows, at their times."""
    types = beam.typehints.KV[beam.typehints.Optional[str], beam.typehints.Any]
    stream: PCollection[Any] = rows | name >> beam.Map(_timed).with_output_types(types)
    return stream


def out_of(element: tuple[str | None, tuple[int, int, str]]) -> Any:
    """A result for :class:`tests.conformance.operators.Streams`."""
    key, (number, index, text) = element
    return (str(number) if key is None else key, index), text
