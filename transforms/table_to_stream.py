"""TableToStream: a table as the stream of its new values."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.change import Change
from beam_joins.transforms.engine.block_writer import timestamped
from beam_joins.transforms.engine.table_type import not_known_windowed, table_type
from beam_joins.transforms.table_to_records import in_records
from beam_joins.windowed import Windowed


class TableToStream(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """``PCollection[Change[K, V]]`` to ``PCollection[tuple[K, V | None]]``: ``None`` says that the row was deleted.

    Every element carries its change's timestamp. Raises ``ValueError`` for a windowed table.

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
        if table_type(pcoll).windowed:
            raise ValueError("a windowed table is written to a stream only through a mapping: use WindowedTableToStream(fn)")
        newest: PCollection[Any] = in_records(pcoll) | "Newest" >> beam.Map(_upsert).with_output_types(beam.typehints.KV[Any, Any])
        return newest


def _upsert(change: Change[Any, Any]) -> WindowedValue:
    if type(change.key) is Windowed:
        raise not_known_windowed(change.key)
    return timestamped((change.key, change.new), change.timestamp)
