"""Completes records that leave unchanged columns out, from the row before (PostgreSQL's TOAST, Debezium's
unavailable values).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, ffill_index, starts, valid
from beam_joins.errors import InputError
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.keys.opaque import is_opaque, opaque_values, python_values

UNCHANGED: Final = "unchanged"
"""The column of the names that records leave out: a list of text, null for a whole record."""

Complete: TypeAlias = Callable[[Any, Any, Sequence[str]], Any]
"""Gives the whole value of an earlier value and a later one that leaves these columns out."""


def merged(earlier: Any, later: Any, names: Sequence[str]) -> dict[Any, Any]:
    """A later mapping, with the columns that it leaves out taken from an earlier one.

    >>> merged({"id": 1, "bio": "long", "old": 0}, {"id": 1, "name": "b"}, ["bio"])
    {'id': 1, 'bio': 'long', 'name': 'b'}
    """
    if not isinstance(earlier, Mapping) or not isinstance(later, Mapping):
        other = later if isinstance(earlier, Mapping) else earlier
        raise InputError(f"unchanged_by needs values that are mappings, or completed_by: a value is of type {type(other).__name__}")
    return {name: later.get(name, earlier[name]) for name in earlier if name in later or name in names} | dict(later)


def completed(rows: pa.Table, code: Ints, by: Ints, complete: Complete | None = None) -> tuple[pa.Table, Bools]:
    """Completes rows that leave columns out, and says which cannot be completed because no earlier row of
    their key exists.

    ``code`` numbers the keys, and ``by`` orders the rows by key and place. A row that cannot be completed
    stays as it is, and completes no other one.

    >>> given = {"key": [1, 1, 2], "value": [{"n": 1, "bio": "long"}, {"n": 2, "bio": None}, {"n": 3, "bio": None}]}
    >>> rows = pa.table({**given, "unchanged": [None, ["bio"], ["bio"]]})
    >>> table, lacking = completed(rows, np.array([0, 0, 1]), np.array([0, 1, 2]))
    >>> table["value"].to_pylist()[:2], lacking.tolist()
    ([{'n': 1, 'bio': 'long'}, {'n': 2, 'bio': 'long'}], [False, False, True])
    """
    nothing = np.zeros(len(rows), np.bool_)
    if UNCHANGED not in rows.column_names:
        return rows, nothing
    value, names = combine_chunks(rows["value"]), combine_chunks(rows[UNCHANGED])
    in_columns = complete is None and pa.types.is_struct(value.type)
    left_out = _left_out(value.type, names) if in_columns else valid(names)
    left_out &= valid(value)
    if not left_out.any():
        return rows.drop_columns([UNCHANGED]), nothing
    first, present, partly = starts(code[by]), valid(value)[by], left_out[by]
    # the last whole row or delete decides whether there is an earlier row, for a row that is completed stands
    # between them at most
    decides = ffill_index(~partly, first)
    lacks = partly & ~((decides >= 0) & present[decides])
    usable = ~lacks
    if in_columns:
        value = _filled(value, names, by, first, usable)
    else:
        value = _completed_one_by_one(value, names, by, np.flatnonzero(partly & usable), usable, complete or merged)
    lacking = nothing.copy()
    lacking[by[lacks]] = True
    at = rows.schema.get_field_index("value")
    return rows.set_column(at, "value", value).drop_columns([UNCHANGED]), lacking


def _left_out(kind: pa.StructType, names: pa.Array) -> Bools:
    """The rows that leave out a field of the value."""
    some = np.zeros(len(names), np.bool_)
    for field in kind:
        some |= _names(names, field.name)
    return some


def _names(names: pa.Array, field: str) -> Bools:
    """The rows that leave a field out."""
    some = np.zeros(len(names), np.bool_)
    parents = pc.list_parent_indices(names).to_numpy(zero_copy_only=False)
    some[parents[pc.equal(names.flatten(), field).to_numpy(zero_copy_only=False)]] = True
    return some


def _filled(value: pa.StructArray, names: pa.Array, by: Ints, first: Bools, usable: Bools) -> pa.Array:
    columns = []
    for n, field in enumerate(value.type):
        column, left_out = value.field(n), _names(names, field.name)[by]
        if (left_out & usable).any():
            source = ffill_index(usable & ~left_out, first)
            index = np.arange(len(value))
            filled = left_out & usable & (source >= 0)
            index[by[filled]] = by[source[filled]]
            column = column.take(pa.array(index))
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(value.type), mask=pa.array(~valid(value)))


def _completed_one_by_one(value: pa.Array, names: pa.Array, by: Ints, partly: Ints, usable: Bools, complete: Complete) -> pa.Array:
    before = np.maximum.accumulate(np.where(usable, np.arange(len(by)), -1))
    whole: dict[int, Any] = {}
    rows, earlier_rows = by[partly], by[before[partly - 1]]
    needed = pa.array(earlier_rows)
    earlier, later = python_values(value.take(needed)), python_values(value.take(pa.array(rows)))
    for n, (row, earlier_row, left_out) in enumerate(
        zip(rows.tolist(), earlier_rows.tolist(), names.take(pa.array(rows)).to_pylist(), strict=True)
    ):
        whole[row] = complete(whole.get(earlier_row, earlier[n]), later[n], left_out)
    made = opaque_values(whole.values()) if is_opaque(value.type) else pa.array(list(whole.values()), value.type)
    index = np.arange(len(value))
    index[rows] = len(value) + np.arange(len(rows))
    return pa.concat_arrays([value, made]).take(pa.array(index))
