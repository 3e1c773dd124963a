"""Reads the changes of a snapshot from one of its files: the rows that differ from those of the snapshot before, and deletes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import integers
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.formats.changelog_columns import OPERATION, TIME
from beam_joins.pipelines.formats.file_parts import Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.transforms.connect.files import create_file, open_file

PART_START, IN_PART = "start", "place"
"""The columns of a file of places: the start of a part, and a place in it. A file of deletes has those of the key."""
_ROWS: Final = 1 << 16


def write_table(path: str, table: pa.Table) -> None:
    """Write a table into a new file that workers read. Raises :class:`~beam_joins.errors.OutputError`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with writing(path), create_file(path) as file:
        file.write(sink.getvalue())


def snapshot_changes(part: Part, plan: ReadPlan) -> Iterator[RawRows]:
    """The changes in a part of a file of a snapshot, whose columns are those of
    :meth:`~beam_joins.pipelines.formats.changelog_columns.Columns.of_changes`.
    """
    snapshot = part.file.snapshot
    assert snapshot is not None
    upserted = None
    if snapshot.upserted:
        places = _table(snapshot.upserted)
        upserted = integers(places[IN_PART])[integers(places[PART_START]) == part.start] + part.first_place
    if upserted is None or len(upserted):
        for raw in part.file.reader.rows(part, replace(plan, columns=plan.columns.of_snapshot())):
            some = raw if upserted is None else raw.take(np.flatnonzero(np.isin(integers(raw.places), upserted)))
            if len(some.places):
                yield some.with_constants({TIME: snapshot.time, OPERATION: "u"})
    if snapshot.deleted and not part.start:
        yield from _deletes(part, _table(snapshot.deleted), snapshot.time)


def _deletes(part: Part, keys: pa.Table, time: int) -> Iterator[RawRows]:
    for start in range(0, len(keys), _ROWS):
        some = [{**key, TIME: time, OPERATION: "d"} for key in keys.slice(start, _ROWS).to_pylist()]
        yield RawRows(pa.array(np.arange(len(some)) + part.first_place + start), some.__getitem__)


def _table(path: str) -> pa.Table:
    with open_file(path) as file:
        return pa.ipc.open_file(pa.py_buffer(file.read())).read_all()
