"""Reads the rows that the transforms of a state have stored, some of one partition at a time, without a lock."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.coders.snapshot import fields_of
from beam_joins.columns.sorting import combine_chunks
from beam_joins.errors import CorruptData, StateRefused
from beam_joins.keys.canonical import encode
from beam_joins.keys.encoded import encoded_keys
from beam_joins.keys.nested import is_windowed, parts_of
from beam_joins.keys.opaque import python_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.transforms.engine.resumed.manifest import Manifest, Remembered
from beam_joins.transforms.engine.resumed.repartition import reader_of
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from beam_joins.transforms.engine.resumed.state_summary import read_state

_KEYS = ("key", "group")
_ORDER = "order"


class StoredTable(NamedTuple):
    """Some rows of a state: the full ``label`` of the stage that has stored them, the ``name`` of the table among those of
    the stage, such as ``rows`` and ``deletes`` of a table or ``left`` and ``right`` of a join, and the rows.
    """

    label: str
    name: str
    rows: pa.Table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts of Python's values, also of opaque columns."""
        columns = [python_values(combine_chunks(column)) for column in self.rows.columns]
        return [dict(zip(self.rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def state_rows(path: str, transform: str, *, keys: Collection[Any] | None = None) -> Iterator[StoredTable]:
    """The rows that a transform has stored in the state in a folder, as of its last committed run, some of one partition at a
    time.

    ``transform`` is the label of a transform or of what it consists of, as :func:`state_summary` has it: ``"Orders/Table"``,
    or ``"Orders"``. With ``keys`` the rows of these keys alone: values, tuples or dicts of a key of several columns; of
    windowed keys what is in a window.

    The columns are those of the stage: ``key`` (of aggregations ``group``), ``value``, ``timestamp`` (microseconds),
    ``position`` and others.

    Raises ``ValueError`` for ``keys`` that are one text, :class:`StateRefused` for a folder without a state and for a label that
    it does not have, and :class:`~beam_joins.coders.CorruptData` for a file that is not as it was written.
    """
    if isinstance(keys, str | bytes):
        raise ValueError(f"keys={keys!r}: give a list of keys")
    files, manifest = read_state(path)
    stages = {label: each for label, each in manifest.stages.items() if f"{label}/".startswith(f"{transform}/")}
    if not stages:
        labels = ", ".join(dict.fromkeys(label.rpartition("/")[0] for label in manifest.stages))
        raise StateRefused(f"{files.root} has no transform {transform!r}: it has {labels}")
    return _of_stages(files, manifest, stages, keys)


def _of_stages(
    files: StateFiles, before: Manifest, stages: Mapping[str, Remembered], keys: Collection[Any] | None
) -> Iterator[StoredTable]:
    try:
        for label, each in stages.items():
            read = reader_of(files, each)
            for _, described in chain.from_iterable(each.partitions.values()):
                yield from (StoredTable(label, name, rows) for name, rows in _tables(read(described), keys))
    except CorruptData:
        if read_state(files.root)[1] == before:
            raise
        raise StateRefused(f"a run was committed to {files.root} while its rows were read: read them again") from None


def _tables(state: Any, keys: Collection[Any] | None) -> Iterator[tuple[str, pa.Table]]:
    """The tables of a state that have rows, by their names."""
    names = ("rows",) if isinstance(state, Arrangement) else getattr(state, "_fields", ())
    for name, field in zip(names, fields_of(state), strict=True):
        rows = field.table() if isinstance(field, Arrangement) else field
        if isinstance(rows, pa.Table) and len(rows := rows if keys is None else _having(rows, keys)):
            yield name, rows.drop_columns([each for each in (_ORDER,) if each in rows.column_names])


def _having(rows: pa.Table, keys: Collection[Any]) -> pa.Table:
    """The rows that have one of the keys."""
    name = next((each for each in _KEYS if each in rows.column_names), None)
    return rows.slice(0, 0) if name is None else rows.filter(_is_one_of(combine_chunks(rows[name]), keys))


def _is_one_of(column: pa.Array, keys: Collection[Any]) -> pa.Array:
    if is_windowed(column.type):
        return _is_one_of(parts_of(column)[0], keys)
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        keys = [tuple(map(key.get, names)) if isinstance(key, Mapping) else key for key in keys]
    return pc.is_in(encoded_keys(column), pa.array(map(encode, keys), pa.binary()))
