"""TableToRecords: a table in columns as a collection of changes, one by one."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.transforms.engine.block_writer import timestamped
from beam_joins.transforms.engine.table_form import InColumns, changes
from beam_joins.transforms.engine.table_type import as_table, table_type


class TableToRecords(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """A table in columns, record by record: ``PCollection[ChangeBatch]`` to ``PCollection[Change[K, V]]``.

    Values with fields become dicts, keys of several columns tuples. The transforms that do not work on columns apply it by themselves.

    >>> import pyarrow as pa
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import TableFromChangelog
    >>> rows = pa.table({"id": [1, 1], "lsn": [7, 8], "name": ["Ann", "Bob"]})
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     batches = pipeline | beam.Create([rows]).with_output_types(pa.Table)
    ...     table = batches | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
    ...     _ = table | TableToRecords() | beam.Map(print)
    Change(key=1, old=None, new={'name': 'Ann'}, timestamp=7, position=7)
    Change(key=1, old={'name': 'Ann'}, new={'name': 'Bob'}, timestamp=8, position=8)
    """

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        records = pcoll | "Records" >> beam.FlatMap(_records).with_output_types(Change)
        return as_table(records, table_type(pcoll))


def in_records(table: PCollection[Any], label: str = "In records") -> PCollection[Any]:
    """The table as a collection of changes, whichever form it is in."""
    return table | label >> TableToRecords() if table.element_type is ChangeBatch else table


def _records(batch: Any) -> Iterator[Any]:
    if not isinstance(batch, ChangeBatch):
        raise ValueError(f"TableToRecords takes a table in columns, not {type(batch).__name__}")
    return (timestamped(change, change.timestamp) for change in changes(InColumns(), batch))
