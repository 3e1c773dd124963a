"""Tables as they come in: batches of changes as they are, and changes one by one as batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.keys.nested import windowed_keys
from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.transforms.engine.block_writer import timestamped
from beam_joins.transforms.engine.table_type import TableType, as_table, not_a_change, not_known_windowed, table_type
from beam_joins.windowed import Windowed

BATCH = 4096


def in_batches(table: PCollection[Any], label: str = "In batches") -> PCollection[Any]:
    """The table as a ``PCollection[ChangeBatch]``; one of :class:`~beam_joins.Change` gets opaque keys and values."""
    if table.element_type is ChangeBatch:
        return table
    known = table_type(table)
    batches = table | label >> beam.ParDo(_Batches(known)).with_output_types(ChangeBatch)
    return as_table(batches, known)


def batch_of(changes: Sequence[Change[Any, Any]], *, windowed: bool = False) -> ChangeBatch:
    """Changes as a batch with opaque keys and values.

    >>> list(batch_of([Change("k", 1, 2, timestamp=5, position=7)]))
    [Change(key='k', old=1, new=2, timestamp=5, position=7)]
    """
    key, old, new, timestamp, position = zip(*changes, strict=True) if changes else ([],) * 5
    earlier = [value for value in old if value is not None]
    indices = iter(range(len(new), len(new) + len(earlier)))
    return ChangeBatch(
        key=_windowed(key) if windowed else opaque_keys(key),
        new=opaque_values(new),
        before=pa.array([None if value is None else next(indices) for value in old], pa.int64()),
        timestamp=pa.array(timestamp, pa.int64()),
        position=pa.array(position, pa.int64()),
        earlier=opaque_values(earlier),
    )


def _windowed(keys: Sequence[Windowed[Any]]) -> pa.Array:
    bounds = (pa.array([key.window[i] for key in keys], pa.int64()) for i in (0, 1))
    return windowed_keys(opaque_keys(key.key for key in keys), *bounds)


class _Batches(beam.DoFn):
    """Collects the changes of a bundle."""

    def __init__(self, known: TableType) -> None:
        self._windowed = known.windowed

    def start_bundle(self) -> None:
        self._changes: list[Change[Any, Any]] = []

    def process(self, element: Any) -> Iterator[ChangeBatch]:
        if isinstance(element, ChangeBatch):
            yield element
            return
        if not isinstance(element, Change):
            raise not_a_change(element)
        if isinstance(element.key, Windowed) != self._windowed:
            raise not_known_windowed(element.key)
        self._changes.append(element)
        if len(self._changes) >= BATCH:
            yield self._batch()

    def finish_bundle(self) -> Iterator[Any]:
        if self._changes:
            earliest = min(change.timestamp for change in self._changes)
            yield timestamped(self._batch(), earliest)

    def _batch(self) -> ChangeBatch:
        changes, self._changes = self._changes, []
        return batch_of(changes, windowed=self._windowed)
