"""TableToStream: a table as the stream of its new values."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue

from beam_joins.change import Change
from transforms.replay import to_timestamp


class TableToStream(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """``PCollection[Change[K, V]]`` to ``PCollection[tuple[K, V | None]]``: ``None`` says that the row was deleted.

    Every element carries its change's timestamp.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", 1, None, timestamp=0, position=0)])
    ...         | TableToStream()
    ...         | beam.Map(print)
    ...     )
    ('k', None)
    """

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        newest: PCollection[Any] = pcoll | "Newest" >> beam.Map(_upsert).with_output_types(beam.typehints.KV[Any, Any])
        return newest


def _upsert(change: Change[Any, Any]) -> TimestampedValue[Any]:
    return TimestampedValue((change.key, change.new), to_timestamp(change.timestamp))
