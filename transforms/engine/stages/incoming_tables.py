"""Tables as they come in: batches of changes as they are, and changes one by one as batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import KeyCoder, key_coder
from beam_joins.coders.own_types import OwnTypes
from beam_joins.elements.change import Change
from beam_joins.elements.windowed import Windowed
from beam_joins.keys.key_columns import as_opaque
from beam_joins.keys.nested import is_windowed, parts_of, windowed_keys
from beam_joins.keys.opaque import KEYS, VALUES, is_opaque, opaque_values, python_keys, python_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import timestamped
from beam_joins.transforms.engine.construction.input_checks import MAKE_A_TABLE
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures
from beam_joins.transforms.engine.construction.table_type import (
    NOT_KNOWN_WINDOWED,
    TableType,
    as_table,
    is_batches,
    physical_of,
    table_type,
)
from beam_joins.transforms.engine.stages.replay_options import take_note_of_pickles
from beam_joins.transforms.engine.turns.ticks import stages_above
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

BATCH = 4096
_SHOWN = 100
"""The number of letters of an element in a message."""
_ANY_KEY = KeyCoder()


def in_batches(table: PCollection[Any], label: str = "In batches") -> PCollection[Any]:
    """The table as a ``PCollection[ChangeBatch]`` whose columns are of the types that its
    :func:`~beam_joins.transforms.engine.construction.table_type.table_type` says.

    One of :class:`~beam_joins.Change` gets opaque keys and values. The run raises ``ValueError`` for elements
    that are no changes, and for windowed keys of a table that is not known to be windowed.
    """
    take_note_of_pickles(table)
    of_table, physical = table_type(table), physical_of(table)
    if physical.is_in("checked") and is_batches(table):
        return table
    batches = table | label >> beam.ParDo((_TurnBatches if stages_above(table) else _Batches)(of_table))
    batches.element_type = ChangeBatch  # with_output_types says it only where Beam checks types
    return as_table(batches, of_table, physical)


def batch_of(changes: Sequence[Change[Any, Any]], coder: KeyCoder = _ANY_KEY, *, windowed: bool = False) -> ChangeBatch:
    """Changes as a batch with opaque keys and values.

    >>> list(batch_of([Change("k", 1, 2, timestamp=5, position=7)]))
    [Change(key='k', old=1, new=2, timestamp=5, position=7)]
    """
    key, old, new, timestamp, position = zip(*changes, strict=True) if changes else ([],) * 5
    earlier = [value for value in old if value is not None]
    indices = iter(range(len(new), len(new) + len(earlier)))
    return ChangeBatch(
        key=_windowed(key, coder) if windowed else coder.column(key, "the key"),
        new=opaque_values(new),
        before=pa.array([None if value is None else next(indices) for value in old], pa.int64()),
        timestamp=pa.array(timestamp, pa.int64()),
        position=pa.array(position, pa.int64()),
        earlier=opaque_values(earlier),
    )


def _windowed(keys: Sequence[Windowed[Any]], coder: KeyCoder) -> pa.Array:
    bounds = (pa.array([key.window[i] for key in keys], pa.int64()) for i in (0, 1))
    return windowed_keys(coder.column([key.key for key in keys], "the key"), *bounds)


class _Batches(KeptSignatures):
    """Collects the changes of a bundle, and lets batches pass in columns of the types that are known."""

    def __init__(self, of_table: TableType) -> None:
        self._of_table = of_table
        self._coder = key_coder(Any if isinstance(of_table.key, pa.DataType) else of_table.key, "the key of a table")
        self._own_types = OwnTypes()

    def start_bundle(self) -> None:
        self._changes: list[Change[Any, Any]] = []

    def process(self, element: Any) -> Iterator[ChangeBatch]:
        if isinstance(element, ChangeBatch):
            if is_windowed(element.key.type) != self._of_table.windowed and len(element):
                raise self._not_as_known(python_keys(element.key.slice(0, 1))[0])
            yield _conformed(element, self._of_table)
            return
        if not isinstance(element, Change):
            shown = " ".join(repr(element).split())[:_SHOWN]
            raise ValueError(f"a table is a collection of Change, but has {shown}: {MAKE_A_TABLE}")
        if isinstance(element.key, Windowed) != self._of_table.windowed:
            raise self._not_as_known(element.key)
        self._changes.append(element)
        if len(self._changes) >= BATCH:
            yield self._batch()

    def finish_bundle(self) -> Iterator[Any]:
        if self._changes:
            earliest = min(change.timestamp for change in self._changes)
            yield timestamped(self._batch(), earliest)

    def _batch(self) -> ChangeBatch:
        changes, self._changes = self._changes, []
        return batch_of(changes, self._coder, windowed=self._of_table.windowed)

    def _not_as_known(self, key: Any) -> ValueError:
        if self._of_table.windowed:
            return ValueError(f"the table is known to be windowed, and has the key {key!r}: give one keyed by Windowed")
        return ValueError(f"the table has the key {key!r} and is not known to be a windowed table: {NOT_KNOWN_WINDOWED}")


class _TurnBatches(_Batches):
    """For changes that come from turns: a batch has those of one time."""

    def start_bundle(self) -> None:
        super().start_bundle()
        self._at = 0

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if self._changes and self._at != timestamp.micros:
            yield timestamped(self._batch(), self._at)
        self._at = timestamp.micros
        yield from super().process(element)

    def finish_bundle(self) -> Iterator[Any]:
        if self._changes:
            yield timestamped(self._batch(), self._at)


def _conformed(batch: ChangeBatch, of_table: TableType) -> ChangeBatch:
    """The batch with columns of the types that are known; opaque ones where nothing is."""
    return ChangeBatch(
        key=_of_type(batch.key, of_table.key_column),
        new=_of_type(batch.new, of_table.value_column),
        before=batch.before,
        timestamp=batch.timestamp,
        position=batch.position,
        earlier=_of_type(batch.earlier, of_table.value_column),
    )


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if is_windowed(kind) and is_windowed(column.type):
        source, start, end = parts_of(column)
        return windowed_keys(_of_type(source, kind.storage_type.field("key").type), start, end)
    if kind == KEYS:
        return as_opaque(column)
    if kind == VALUES:
        return opaque_values(python_values(column))
    if is_opaque(column.type):
        raise ValueError(
            f"a table is known to have columns of type {kind}, and has opaque ones: declare what it is with with_output_types"
        )
    return exact_cast(column, kind, ValuePlace("a table"))
