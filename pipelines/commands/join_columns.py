"""Joins the rows of two changelogs: the columns of the joined rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import ForeignKeyJoin, TableTableJoin, vectorized, versioned
from beam_joins.columns.sorting import valid
from beam_joins.functions.marked_functions import built_in
from beam_joins.keys.key_columns import Bools
from beam_joins.options.join_types import How
from beam_joins.pipelines.commands.select import Share
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.formats.json_rows import with_numbers
from beam_joins.pipelines.formats.read_plan import COLUMNS, JSON, Form, ReadPlan
from beam_joins.pipelines.formats.row_encoding import Piece, blank_of, spliced
from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.pipelines.formats.types.json_members import members_of
from beam_joins.pipelines.formats.types.json_text import iso_json
from beam_joins.tables.unchanged import merged

FOUND: Final = "found"
"""The column of the result that says whether both sides have a row; the others are the rows in each form."""


def completed(plan: ReadPlan, earlier: dict[str, Any], later: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A later value with the columns that it leaves out: within its JSON text, and as the reference."""
    kept = _reference_completed(plan, earlier[REFERENCE], later[REFERENCE], names) if plan.reference else {}
    left_out = [made for column, made in plan.taken or zip(names, names, strict=True) if column in names]
    if COLUMNS in plan.forms:
        kept[COLUMNS] = later[COLUMNS] | {name: earlier[COLUMNS][name] for name in left_out if name in earlier[COLUMNS]}
    if JSON in plan.forms:
        before, after = (members_of(value[JSON]) for value in (earlier, later))
        whole = merged(before, {name: value for name, value in after.items() if name not in left_out}, left_out)
        kept[JSON] = object_text(whole, whole.values())
    return later | kept


def _reference_completed(plan: ReadPlan, earlier: Any, later: Any, names: Sequence[str]) -> dict[str, Any]:
    """The reference of a later value that leaves columns out."""
    left_out = [column in names for column in plan.reference]
    if any(left_out) and not all(left_out):
        raise ValueError(f"a change leaves out some of the columns {', '.join(plan.reference)}, and has others: no reference is known")
    return {REFERENCE: earlier if any(left_out) else later}


def join_of(
    how: How,
    select: str,
    shares: Mapping[int, Share],
    forms: Sequence[Sequence[Form]],
    made: Sequence[Form],
    *,
    refers: bool,
    numbers: Mapping[int, Sequence[str]],
    keeps_reference: bool = False,
) -> ForeignKeyJoin | TableTableJoin:
    """The join of two tables of rows in these ``forms``, the result's in those ``made``: by the reference of the left rows,
    which the result may keep as a column, or by the keys. ``select`` is the text of the option, by which runs are compared.
    """
    joined_columns = joiner_of(shares, forms, made, (REFERENCE,) if keeps_reference else (), numbers)
    join = vectorized(built_in("joined columns")(versioned(f"--select {select}")(joined_columns)))
    return ForeignKeyJoin(join, foreign_key=REFERENCE, how=how) if refers else TableTableJoin(join, how=how)


def joiner_of(
    shares: Mapping[int, Share],
    forms: Sequence[Sequence[Form]],
    made_in: Sequence[Form],
    kept: Sequence[str] = (),
    numbers: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> Callable[..., dict[str, pa.Array]]:
    """A joiner of rows in the ``forms`` of each side; a semi or anti join calls it with left rows alone.

    ``kept`` are columns of the left rows that the result keeps; ``numbers`` those of each side that are texts of numbers.

    >>> join = joiner_of({0: Share(), 1: Share(nested="customer")}, [["json lines"], ["columns"]], ["json lines"])
    >>> order, customer = pa.record_batch({"json lines": [b'{"id":1}']}), pa.record_batch({"columns": [{"name": "Ann"}]})
    >>> join(order, customer)["json lines"][0].as_py()
    b'{"id":1,"customer":{"name":"Ann"}}'
    """
    return partial(_joined, {**shares}, forms, made_in, kept, {**numbers})


def _joined(
    shares: Mapping[int, Share],
    forms: Sequence[Sequence[Form]],
    made_in: Sequence[Form],
    kept: Sequence[str],
    numbers: Mapping[int, Sequence[str]],
    *sides: pa.RecordBatch,
) -> dict[str, pa.Array]:
    present = [side[of[0]].is_valid() for side, of in zip(sides, forms, strict=False)]
    made: dict[str, pa.Array] = {
        FOUND: pc.and_(*present) if len(present) > 1 else present[0],
        **{name: sides[0][name] for name in kept},
    }
    if JSON in made_in:
        texts = [
            sides[side][JSON] if JSON in forms[side] else _in_json(sides[side][COLUMNS], numbers.get(side, ())) for side in shares
        ]
        made[JSON] = spliced([_piece(share) for share in shares.values()], texts)
    if COLUMNS in made_in:
        made[COLUMNS] = _side_by_side(list(shares.values()), [sides[side][COLUMNS] for side in shares])
    return made


def _in_json(rows: pa.StructArray, numbers: Sequence[str]) -> pa.Array:
    return iso_json(with_numbers(rows, [(name,) for name in numbers]))


def _piece(share: Share) -> Piece:
    names = [name for _, name in share.columns or ()]
    return Piece(share.nested, blank_of(names) if names else b"")


def _side_by_side(shares: Sequence[Share], rows: Sequence[pa.StructArray]) -> pa.StructArray:
    """The rows of the result in typed columns, of those of the sides (null where there is none)."""
    columns, fields = list[pa.Array](), list[pa.Field]()
    for share, row in zip(shares, rows, strict=True):
        columns += [row] if share.nested else row.flatten()
        fields += [pa.field(share.nested, row.type)] if share.nested else list(row.type)
    return pa.StructArray.from_arrays(columns, fields=fields) if fields else pa.nulls(len(rows[0]), pa.struct([]))


def refers_to_none(rows: pa.Array) -> Bools:
    """Which values of the left table refer to no right row."""
    return ~valid(pc.struct_field(rows, REFERENCE)) if len(rows) else np.zeros(0, np.bool_)


def has_both(rows: pa.Array) -> Bools:
    """Which values of the result have a row of both sides."""
    made: Bools = pc.struct_field(rows, FOUND).fill_null(False).to_numpy(zero_copy_only=False)
    return made
