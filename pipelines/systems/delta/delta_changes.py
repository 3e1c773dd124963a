"""Reads the files of a Delta table as changes: its data files, whose rows are all inserts or deletes, and the files of its
Change Data Feed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.key_columns import Bools, factorize
from beam_joins.pipelines.formats.changelog_columns import OPERATION, ORDER, Unit
from beam_joins.pipelines.formats.columnar import RECORDS, column_rows, readable
from beam_joins.pipelines.formats.envelopes.row_change import DELETE, UPSERT
from beam_joins.pipelines.formats.file_parts import PLACES, File, Part
from beam_joins.pipelines.formats.parquet import ParquetReader, opened, require_held
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows

CHANGE_TYPE: Final = "_change_type"
INSERTED, DELETED = "insert", "delete"
_BEFORE: Final = "update_preimage"


class DeltaChanges(ParquetReader):
    """Reads the files of a Delta table.

    The constants of a file are time and position of its version, the values of its partition columns, and for a data file
    the type of change. Delta does not order the changes of one version, so deletes are before upserts there. The old row
    of an update is a delete, for its key may be another one; it is left out where the new row with its key is beside it.
    """

    name = "delta"

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By row groups; a small file (a table may have many) is one part, and is not opened for that."""
        return [(0, 0)] if file.bytes <= size else super().cuts(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """Microseconds."""
        return "us"

    def types(self, file: File) -> list[tuple[str, str]]:
        """None: the log says those of the table."""
        return []

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The changes."""
        for number, (start, stop) in enumerate(self.cuts(file, file.bytes)):
            for raw in self.rows(Part(number, file, start, stop), None):
                yield from (row for n in range(len(raw.places)) if isinstance(row := raw.row(n), dict))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The changes of some row groups, some at a time."""
        file, place = part.file, part.first_place
        with opened(file.path, file.storage) as parquet:
            there = parquet.schema_arrow.names
            needed = None if plan is None else plan.needed(there)
            wanted = [name for name in there if name in (*(needed or ()), *file.key, CHANGE_TYPE)]
            columns = None if needed is None else wanted or there[:1]  # rows without a column have no number
            groups = list(range(part.start, part.stop or parquet.num_row_groups))
            require_held(file.path, parquet, groups, columns, file.storage)
            for raw in parquet.iter_batches(RECORDS, row_groups=groups, columns=columns):
                changes, kept = _changes(readable(raw, None if plan is None else plan.typed), file)
                places = pa.array(np.arange(place, place + len(raw))).filter(kept)
                place += len(raw)
                yield column_rows(changes.filter(kept), places, plan)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its row group, or in the file."""
        return super().where(part, place) if part.stop else f"row {place % PLACES + 1:,}"


def _changes(rows: pa.RecordBatch, file: File) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows with the columns about the change, and which of them are kept."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name, value in file.constants:
        kind = file.columns.field(name).type if file.columns is not None and name in file.columns.names else None
        columns[name] = pa.repeat(pa.scalar(value, kind), len(rows))
    change = columns.pop(CHANGE_TYPE)
    is_delete = pc.is_in(change, pa.array([DELETED, _BEFORE]))
    columns[OPERATION] = pc.if_else(is_delete, DELETE, UPSERT)
    columns[ORDER] = pc.if_else(is_delete, 0, 1)
    kept = _kept(
        [columns[name] for name in file.key if name in columns],
        pc.equal(change, _BEFORE).to_numpy(zero_copy_only=False),
        pc.invert(is_delete).to_numpy(zero_copy_only=False),
    )
    return pa.record_batch(list(columns.values()), names=list(columns)), pa.array(kept)


def _kept(key: Sequence[pa.Array], is_before: Bools, is_new: Bools) -> Bools:
    """All rows but old ones of updates with the key of a new row."""
    if not key or not is_before.any():
        return np.ones(len(is_before), np.bool_)
    codes = factorize(pa.StructArray.from_arrays(list(key), [str(n) for n in range(len(key))]))[0]
    kept: Bools = ~(is_before & np.isin(codes, codes[is_new]))
    return kept
