"""Rows of two changelogs joined: what their readers give, as tables, and the rows of both put together."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import ForeignKeyJoin, TableFromChangelog, TableTableJoin, vectorized
from beam_joins.keys.columns import Bools
from beam_joins.pipelines.changelog_files.reading import DELETED, KEY, PLACE, REFERENCE, TIME, Form, Reading
from beam_joins.pipelines.changelog_files.splicing import SPLICED, Piece, blank_of
from beam_joins.pipelines.jobs.names import LACKING, How
from beam_joins.pipelines.jobs.select import Share
from beam_joins.sorting import valid

FOUND: Final = "found"
"""The column of the result that says whether both sides have a row; the others are the rows in each form."""


def table(reading: Reading) -> TableFromChangelog:
    """The table of a changelog that is read so, and its dropped records."""
    positions = [name for name in reading.schema.names if name.startswith("sequence_")]
    values = reading.value.names
    return TableFromChangelog(
        key=KEY,
        timestamp_by=TIME,
        sequence_by=positions or None,
        tie_break_by=PLACE,
        apply_as_deletes=DELETED,
        apply_as_truncates=vectorized(_empties) if reading.columns.truncates else None,
        except_columns=[name for name in reading.schema.names if name not in values],
    ).with_outputs()


def _empties(rows: pa.RecordBatch) -> pa.Array:
    return rows[DELETED].is_null()


def join_of(
    how: How, shares: Mapping[int, Share], readings: Sequence[Reading], *, keeps_reference: bool = False
) -> ForeignKeyJoin | TableTableJoin:
    """The join of two tables that are read so: by the reference of the left rows, which the result may keep as a column, or by the keys."""
    join = vectorized(joiner_of(shares, readings, LACKING.get(how, ()), (REFERENCE,) if keeps_reference else ()))
    if readings[0].reference is None:
        return TableTableJoin(join, how=how)
    return ForeignKeyJoin(join, foreign_key=REFERENCE, how=how)


def joiner_of(
    shares: Mapping[int, Share], readings: Sequence[Reading], lacking: Container[int] = (), kept: Sequence[str] = ()
) -> Callable[..., dict[str, pa.Array]]:
    """A joiner of rows that are read so; ``lacking``: the sides that may have none. A semi or anti join calls it with left rows alone.

    ``kept`` are columns of the left rows that the result keeps.

    >>> from beam_joins.pipelines.changelog_files.columns import Columns
    >>> join = joiner_of({0: Share(), 1: Share(nested="customer")}, [Reading(columns=Columns(key="id", timestamp="at"))] * 2)
    >>> order, customer = pa.record_batch({"json lines": [b'{"id":1}']}), pa.record_batch({"json lines": [b'{"name":"Ann"}']})
    >>> join(order, customer)["json lines"][0].as_py()
    b'{"id":1,"customer":{"name":"Ann"}}'
    """
    forms = readings[0].forms
    pieces = {form: [_piece(form, share, readings[side], side in lacking) for side, share in shares.items()] for form in forms}

    def join(*sides: pa.RecordBatch) -> dict[str, pa.Array]:
        there = [side[forms[0]].is_valid() for side in sides]
        found: dict[str, pa.Array] = {
            FOUND: pc.and_(*there) if len(there) > 1 else there[0],
            **{name: sides[0][name] for name in kept},
        }
        for form in forms:
            found[form] = SPLICED[form](pieces[form], [sides[side][form] for side in shares])
        return found

    return join


def _piece(form: Form, share: Share, reading: Reading, may_lack: bool) -> Piece:
    names = [name for _, name in share.columns or ()]
    return Piece(share.nested, blank_of(form, names, reading.avro) if names and (may_lack or form != "avro") else b"")


def refers_to_none(rows: pa.Array) -> Bools:
    """Which values of the left table refer to no right row."""
    return ~valid(pc.struct_field(rows, REFERENCE)) if len(rows) else np.zeros(0, np.bool_)


def has_both(rows: pa.Array) -> Bools:
    """Which values of the result have a row of both sides."""
    found: Bools = pc.struct_field(rows, FOUND).fill_null(False).to_numpy(zero_copy_only=False)
    return found
