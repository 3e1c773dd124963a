"""Counts the work that each reference causes: one row of sums for each right row that left rows refer to, added
up in the workers, in any order.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import ChangeBatch
from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import python_keys
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.formats.types.json_text import texts_of
from beam_joins.pipelines.results.counts import at_bundle_end
from beam_joins.pipelines.results.figure import (
    CHANGED,
    EXAMPLE,
    LEFT,
    MOST_REFERENCES,
    REFERENCES,
    RESULT,
    RIGHT,
    Figure,
    ReferenceCounts,
)
from beam_joins.transforms.connect.runs import KeptSignatures

PARTITIONS: Final = 16
SUMS: Final = (RESULT, LEFT, RIGHT, CHANGED)
_PENDING_ROWS: Final = 1 << 18


def of_result(batch: ChangeBatch) -> pa.Table:
    """The changes of the result by the right row that they are of."""
    reference = pc.struct_field(batch.values, REFERENCE)
    return _rows(pc.coalesce(reference.slice(0, len(batch)), reference.take(batch.before)), results=np.ones(len(batch), np.int64))


def of_left(batch: ChangeBatch) -> pa.Table:
    """The changes in the number of left rows that refer to each right row."""
    comes, goes = pa.array(valid(batch.new)), batch.before.drop_null()
    referred = pc.struct_field(batch.values, REFERENCE)
    new, old = referred.slice(0, len(batch)).filter(comes), referred.take(goes)
    keys = batch.key.filter(comes)
    grows = np.repeat([1, -1], [len(new), len(old)])
    example = pa.concat_arrays([keys, pa.nulls(len(old), keys.type)])
    return _rows(pa.concat_arrays([new, old]), example, lefts=grows)


def of_right(batch: ChangeBatch) -> pa.Table:
    """The changes of right rows, and how many more or less there are."""
    grows = valid(batch.new).astype(np.int64) - valid(batch.before)
    return _rows(batch.key, rights=grows, changed=np.ones(len(batch), np.int64))


COUNTED: Final = {RESULT: of_result, LEFT: of_left, RIGHT: of_right}


class CountReferences(beam.PTransform[Any, Any]):
    """Tables by the names :data:`RESULT`, :data:`LEFT` and :data:`RIGHT` to one :class:`Figure` for each partition
    of the references; result and left have a column ``reference``.
    """

    def expand(self, tables: Any) -> Any:
        """Apply the transform."""
        counts = [table | f"Count {name}" >> beam.ParDo(_CountDoFn(name)) for name, table in tables.items()]
        return tuple(counts) | "Together" >> beam.Flatten() | "By reference" >> beam.GroupByKey() | "Sum" >> beam.Map(_figure)


class _CountDoFn(KeptSignatures):
    """Batches to counts, one table for each partition of references and bundle."""

    def __init__(self, name: str) -> None:
        self._name = name

    def start_bundle(self) -> None:
        self._pending: list[pa.Table] = []

    def process(self, element: ChangeBatch) -> None:
        self._pending.append(COUNTED[self._name](element))
        if sum(map(len, self._pending)) > _PENDING_ROWS:
            self._pending = [summed(self._pending)]

    def finish_bundle(self) -> Iterator[Any]:
        if self._pending:
            counts = summed(self._pending)
            partition = hashes(combine_chunks(counts[REFERENCE])) % PARTITIONS
            for number in np.unique(partition).tolist():
                yield at_bundle_end((number, counts.filter(pa.array(partition == number))))


def summed(tables: Iterable[pa.Table]) -> pa.Table:
    """One row for each reference."""
    several = pa.concat_tables(tables)
    sums = several.group_by(REFERENCE).aggregate([*((name, "sum") for name in SUMS), (EXAMPLE, "min")])
    return sums.rename_columns([name.removesuffix("_sum").removesuffix("_min") for name in sums.column_names]).select(
        several.column_names
    )


def counts_of(sums: pa.Table) -> ReferenceCounts:
    """The busiest and the missing references of a partition, and the distribution of all."""
    refers = sums.filter(sums[REFERENCE].is_valid())
    results = integers(refers[RESULT])
    size = np.where(results > 0, np.log2(np.maximum(results, 1)).astype(np.int64), -1)
    sizes = {int(n): (int((size == n).sum()), int(results[size == n].sum())) for n in np.unique(size) if n >= 0}
    missing = refers.filter(pc.and_(pc.greater(refers[LEFT], 0), pc.equal(refers[RIGHT], 0)))
    none = _as_rows(sums.filter(sums[REFERENCE].is_null()))
    return ReferenceCounts(
        _most(refers.filter(pc.greater(refers[RESULT], 0)), RESULT),
        _most(missing, LEFT),
        none[0] if none else None,
        sizes,
        len(missing),
        int(integers(missing[LEFT]).sum()),
    )


def _rows(reference: pa.Array, example: pa.Array | None = None, **sums: Any) -> pa.Table:
    zeros = pa.array(np.zeros(len(reference), np.int64))
    if pa.types.is_struct(reference.type):
        reference = texts_of(reference).cast(pa.string())  # Arrow groups by no structs
    columns = {name: pa.array(sums[name]) if name in sums else zeros for name in SUMS}
    # keys of left rows may be of another kind than references
    shown = pa.nulls(len(reference), pa.string()) if example is None else _shown(example)
    return pa.table({REFERENCE: reference, **columns, EXAMPLE: shown})


def _shown(keys: pa.Array) -> pa.Array:
    if pa.types.is_integer(keys.type) or pa.types.is_string(keys.type):
        return keys.cast(pa.string())
    return pa.array([None if key is None else str(key) for key in python_keys(keys)], pa.string())


def _most(rows: pa.Table, of: str) -> list[dict[str, Any]]:
    return _as_rows(rows.sort_by([(of, "descending"), (REFERENCE, "ascending")]).slice(0, MOST_REFERENCES))


def _as_rows(rows: pa.Table) -> list[dict[str, Any]]:
    shown = rows.set_column(0, REFERENCE, _shown(combine_chunks(rows[REFERENCE])))
    rows_of_python: list[dict[str, Any]] = shown.to_pylist()
    return rows_of_python


def _figure(element: tuple[int, Iterable[pa.Table]]) -> Figure:
    return Figure(REFERENCES, "", counts_of(summed(element[1])))
