"""TableToChanges: splits a table into its single changes."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.elements.change import Change
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import require_tables, warn_of_void_rows
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.table_type import as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.table_rows import changes_in_python
from beam_joins.transforms.engine.transform import Transform
from beam_joins.transforms.engine.turns.ticks import at_event_times


class TableToChanges(Transform[TableInput, PCollection[Change[Any, Any]]]):
    """Splits a table into its single changes: ``PCollection[ChangeBatch]`` to ``PCollection[Change[K, V]]``,
    each at its event time.

    Typed values become Python objects as in ``pyarrow``, structs become dicts, keys of several columns
    tuples. Every transform that takes a table also takes a collection of changes.

    >>> from beam_joins import TableFromChangelog
    >>> rows = [{"id": 1, "lsn": 7, "name": "Ann"}, {"id": 1, "lsn": 8, "name": "Bob"}]
    >>> with beam.Pipeline() as pipeline:
    ...     log = pipeline | beam.Create(rows)
    ...     table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
    ...     _ = table | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'name': 'Ann'}, timestamp=7, position=7)
    Change(key=1, old={'name': 'Ann'}, new={'name': 'Bob'}, timestamp=8, position=8)
    """

    def outputs_of(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """The outputs for the table."""
        require_tables("TableToChanges", pcoll)
        warn_of_void_rows(pcoll)
        of_table = table_type(pcoll)

        timed = at_event_times(pcoll)

        def changes(batch: ChangeBatch) -> Iterator[Any]:
            return timed(changes_in_python(batch, of_table), batch.timestamp)

        made = in_batches(pcoll) | "Changes" >> beam.ParDo(ForEach(changes)).with_output_types(Change)
        physical = physical_of(pcoll)
        # the batches that others make of changes may cut those of a row
        return as_table(made, of_table, physical if physical.is_in("final") else physical.at_most("checked"))
