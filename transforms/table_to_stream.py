"""TableToStream: turns a table into a stream of its new values."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.keys.opaque import python_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import require_tables, warn_of_void_rows
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.output_types import Stream, TableInput
from beam_joins.transforms.engine.construction.table_type import table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.table_rows import keys_in_python
from beam_joins.transforms.engine.transform import Transform
from beam_joins.transforms.engine.turns.ticks import at_event_times


class TableToStream(Transform[TableInput, Stream]):
    """Turns a table into the stream of its new values, a ``PCollection[tuple[K, V | None]]``. ``None`` is a
    deleted row.

    Every element carries its change's timestamp. Raises ``ValueError`` for a windowed table.

    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", 1, None, timestamp=0, position=0)])
    ...         | TableToStream()
    ...         | beam.Map(print)
    ...     )
    ('k', None)
    """

    def outputs_of(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """The outputs for the table."""
        require_tables("TableToStream", pcoll)
        of_table = table_type(pcoll)
        if of_table.windowed:
            raise ValueError("a windowed table is written to a stream only through a mapping: use WindowedTableToStream(fn)")
        warn_of_void_rows(pcoll)

        timed = at_event_times(pcoll)

        def newest(batch: ChangeBatch) -> Iterator[Any]:
            pairs = zip(keys_in_python(batch.key, of_table), python_values(batch.new), strict=True)
            return timed(pairs, batch.timestamp)

        pairs = beam.typehints.KV[Any, Any]
        stream: PCollection[Any] = in_batches(pcoll) | "Newest" >> beam.ParDo(ForEach(newest)).with_output_types(pairs)
        return stream
