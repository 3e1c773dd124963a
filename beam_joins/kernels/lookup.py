"""Joins streams with tables in steps: a record is a version that lives for one position."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.key_columns import Ints
from beam_joins.tables.arrangement import ORDER, Arrangement
from beam_joins.tables.versions import as_of


class LookedUp(NamedTuple):
    """The index among ``rows`` of the row that each record of a stream refers to, -1 for none."""

    row: Ints
    rows: pa.Table
    """``key``, ``value``, ``timestamp``, ``position`` of the rows that the step has touched, those alive
    before it among them.
    """


def step(state: Arrangement, left: pa.Table, right: pa.Table) -> tuple[LookedUp, Arrangement]:
    """Looks up the rows of new records ``left`` among rows and changes ``right``: gives the matches and the
    current rows.

    ``left`` has a ``reference`` and a ``position``, ``right`` is as in :func:`beam_joins.kernels.overlap.overlap`;
    all positions are larger than those of earlier steps. The state has no records, as each looks up its row
    in its own step. A history that is cut at any positions gives the same rows.

    >>> stream = pa.table({"reference": ["k"], "position": [7]})
    >>> rows = pa.table({"key": ["k"], "value": ["a"], "timestamp": [5], "position": [5]})
    >>> _, state = step(Arrangement(), stream.slice(0, 0), rows)
    >>> found, _ = step(state, stream, rows.slice(0, 0))
    >>> found.rows["value"][int(found.row[0])].as_py()
    'a'
    """
    keys = prefixes(encoded_keys(combine_chunks(right["key"])))
    touched = pc.unique(pa.concat_arrays([keys, prefixes(encoded_keys(combine_chunks(left["reference"])))]))
    new = pa.table(
        [keys, *(right[name] for name in ("key", "value", "timestamp", "position"))],
        names=[ORDER, "key", "value", "timestamp", "position"],
    )
    alive = state.starting_with(touched)
    rows = new if alive is None else pa.concat_tables([alive, new])
    return LookedUp(as_of(left, rows), rows.drop_columns([ORDER])), state.updated(new)
