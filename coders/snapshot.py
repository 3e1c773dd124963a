"""Writes and reads the state of an operator: each sorted run of an arrangement, and each other table, is an
Arrow IPC file.

A file is never written again. A run that a step has not touched is the same object as before, and keeps its
file. So a step writes in proportion to its rows, and to look rows up in a file that is mapped into memory
costs a search.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from beam_joins.columns.sorting import combine_chunks
from beam_joins.errors import CorruptData, StateRefused
from beam_joins.kernels import aggregate, interval, key_join, many_to_many, measures, overlap, windowed_aggregate
from beam_joins.tables import changelog
from beam_joins.tables.arrangement import Arrangement

STATES: dict[str, Any] = {
    "arrangement": lambda rows: rows,
    "table": changelog.ChangelogState,
    "join": overlap.OverlapState,
    "keys": key_join.KeyState,
    "pairs": many_to_many.ManyToManyState,
    "streams": interval.IntervalState,
    "groups": aggregate.AggregateState,
    "measures": measures.MeasuresState,
    "windows": windowed_aggregate.WindowedAggregateState,
}
"""The constructor of each state from its fields, by the name of the state in a snapshot."""

Described = dict[str, Any]
"""A state as JSON: ``{"state": name, "fields": [...]}``. A field is a list of files, the runs of an
arrangement; one file, a table; a whole number; or null. A file is ``{"file": name, "bytes": size, "rows":
number, "xxh3": checksum}``.
"""

Put = Callable[[pa.Buffer], str]
"""Writes a new file, and gives its name."""
Get = Callable[[Sequence[str]], Iterable[pa.Buffer]]
"""The contents of the files with these names, in their order; raises ``OSError`` for a file that cannot be read."""
AsRead = Callable[[int, pa.Table], pa.Table]
"""Converts a table as it was written, by the place of its field among those that have rows."""
Checksum = Callable[[str, pa.Buffer], str]
"""The xxh3 of a file's content, by its name: it may remember that of a file that is as it was."""


class Snapshot(NamedTuple):
    """A state and the files of its tables, by the identity of the tables, which live as long as the snapshot."""

    state: Any = None
    files: Mapping[int, tuple[pa.Table, Described]] = {}


NO_SNAPSHOT = Snapshot()


def write_snapshot(state: Any, put: Put, before: Snapshot = NO_SNAPSHOT) -> Described | None:
    """Write the tables of a state that are not those of the one before; ``None`` for a state of ``None``.

    >>> files = {}
    >>> rows = Arrangement().replaced(pa.array([], pa.binary()), pa.table({"order": [b"a"], "value": [1]}))
    >>> described = write_snapshot(rows, lambda content: files.setdefault("a.arrow", content) and "a.arrow")
    >>> read_snapshot(described, lambda names: map(files.__getitem__, names)).state.rows()
    [{'order': b'a', 'value': 1}]
    """
    if state is None:
        return None
    name = "arrangement" if isinstance(state, Arrangement) else next(name for name, made in STATES.items() if made is type(state))

    def written(table: pa.Table) -> Described:
        stored = before.files.get(id(table))
        return write_file(table, put) if stored is None else stored[1]

    def described(field: Any) -> Any:
        if isinstance(field, Arrangement):
            return [written(run) for run in field.runs]
        return written(field) if isinstance(field, pa.Table) else field

    return {"state": name, "fields": [described(field) for field in fields_of(state)]}


def _checksum(name: str, content: pa.Buffer) -> str:
    return xxh3_64_hexdigest(content)


def _as_written(place: int, table: pa.Table) -> pa.Table:
    return table


def read_snapshot(
    described: Described | None, get: Get, checksum: Checksum | None = _checksum, as_read: AsRead = _as_written
) -> Snapshot:
    """The state of its description; raises as :func:`read_file` does. Without ``checksum`` sizes alone are verified."""
    if described is None:
        return NO_SNAPSHOT
    files: dict[int, tuple[pa.Table, Described]] = {}
    contents = iter(get([file["file"] for file in files_of(described)]))
    place = itertools.count()

    def table(at: int, file: Described) -> pa.Table:
        read = as_read(at, read_file(file, lambda name: next(contents), checksum))
        files[id(read)] = read, file
        return read

    def field(of: Any) -> Any:
        if isinstance(of, list):
            at = next(place)
            return Arrangement(tuple(table(at, file) for file in of))
        return table(next(place), of) if isinstance(of, dict) else of

    return Snapshot(STATES[described["state"]](*map(field, described["fields"])), files)


def fields_of(state: Any) -> tuple[Any, ...]:
    """The fields of a state: arrangements, tables and numbers; an arrangement is a state of one field."""
    return () if state is None else (state,) if isinstance(state, Arrangement) else tuple(state)


def tables_of(state: Any) -> list[pa.Table]:
    """The tables that a state consists of, as :func:`files_of` has their files."""
    several = ((field.runs if isinstance(field, Arrangement) else (field,)) for field in fields_of(state))
    return [table for tables in several for table in tables if isinstance(table, pa.Table)]


def rows_of(file: Described, get: Callable[[str], pa.Buffer]) -> int:
    """The number of rows in a file of a snapshot, which descriptions of earlier versions do not have: then it is read."""
    rows = file.get("rows")
    return int(read_file(file, get, None).num_rows if rows is None else rows)


def files_of(described: Described | None) -> list[Described]:
    """The files of a snapshot."""
    fields = [] if described is None else described["fields"]
    return [file for field in fields for file in (field if isinstance(field, list) else [field]) if isinstance(file, dict)]


def write_file(table: pa.Table, put: Put) -> Described:
    """Write a table into a file, and give the description that :func:`read_file` takes."""
    columns = [combine_chunks(column) for column in table.columns]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    content = sink.getvalue()
    return {"file": put(content), "bytes": content.size, "rows": len(table), "xxh3": xxh3_64_hexdigest(content)}


def read_file(file: Described, get: Callable[[str], pa.Buffer], checksum: Checksum | None = _checksum) -> pa.Table:
    """The table in a file of a snapshot, whose content ``get`` gives and is verified unless ``checksum`` is ``None``; raises
    :class:`CorruptData` for a file that is missing or changed, and :class:`StateRefused` for a file that cannot be read.
    """
    name = file["file"]
    try:
        content = get(name)
    except FileNotFoundError as error:
        raise CorruptData(f"{name}: a file of the state is gone: {error}") from error
    except OSError as error:  # of a disk, a network or a store: the file may be as it was
        raise StateRefused(f"{name}: a file of the state cannot be read: {error}") from error
    if content.size != file["bytes"]:
        raise CorruptData(f"{name}: a file of the state has {content.size} bytes and was written with {file['bytes']}")
    if checksum is not None and checksum(name, content) != file["xxh3"]:
        raise CorruptData(f"{name}: a file of the state has changed since it was written: its checksum is another")
    table: pa.Table = pa.ipc.open_file(content).read_all()
    return table
