"""Verifies views at the end of a run: DuckDB runs their queries on the rows of the tables."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

from apache_beam.io.filesystems import FileSystems
from xxhash import xxh3_64_hexdigest

from beam_joins.errors import InputError, OutputError
from beam_joins.extras import needs
from beam_joins.io import WriteChangelog
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.formats.csv_schema import quoted
from beam_joins.pipelines.sql.sql_pipeline import KeptRelation
from beam_joins.transforms.connect.files import open_file
from beam_joins.transforms.connect.tables import table_type

with needs("sql"):
    import duckdb

_SHOWN: Final = 3
_DIGITS: Final = 1e-9
"""The relative difference of two floating-point numbers that are taken for equal: they are summed in another order."""
_FLOATS: Final = ("DOUBLE", "FLOAT")
_KEPT, _EXPECTED = '"beam_joins kept"', '"beam_joins expected"'
"""The tables with the rows of a view, and with those that DuckDB computes, by names that no relation has."""


class Stored(NamedTuple):
    """The file with the rows that a relation has at the end of a run, and the columns of its key."""

    path: str
    key: tuple[str, ...]


class WrongView(OutputError):
    """Raised for a view whose rows are not those of its query."""


def verification(relations: Sequence[KeptRelation], folder: str, place: str) -> Callable[[], Iterator[str]]:
    """Have a pipeline write the rows of tables, and of views with a target, below a ``place``; gives the function to call when it
    has run. Files of a store are copied into ``folder``. Raises ``ValueError`` for a relation with a key that has no columns.

    The function is :func:`verified`.
    """
    stored = dict[str, Stored]()
    for each in relations:
        if each.target or not each.query:
            file = f"{xxh3_64_hexdigest(each.name.encode())}.parquet"
            path = os.path.join(place, file) if is_local(place) else FileSystems.join(place, file)
            if not (key := table_type(each.table).key_names):
                raise ValueError(f"{each.name} cannot be verified: its key has no columns")
            write = WriteChangelog(path, records="rows", key=key[0] if len(key) == 1 else list(key))
            _ = each.table | f"Verify {each.name}" >> write
            stored[each.name] = Stored(path, key)
    return partial(verified, stored, {each.name: each.query for each in relations}, folder)


def verified(stored: Mapping[str, Stored], queries: Mapping[str, str], folder: str) -> Iterator[str]:
    """A sentence for each of the relations with a query, and stored rows, whose rows are those that DuckDB computes. A relation comes
    behind those that it reads; files of a store are copied into ``folder``.

    Raises :class:`WrongView` for other rows, and InputError for a query that DuckDB does not run.
    """
    with closing(duckdb.connect()) as database:
        # names of time zones and the division of whole numbers mean the same then
        database.execute("SET TimeZone = 'UTC'; SET integer_division = true; SET preserve_insertion_order = false")
        for name, query in queries.items():
            try:
                database.execute(f"CREATE VIEW {quoted(name)} AS {query or _read(stored[name].path, folder)}")
                if query and name in stored:
                    yield _compared(database, name, stored[name], folder)
            except duckdb.Error as error:
                reason = str(error).partition("\n")[0]
                raise InputError(f"{name} cannot be verified: DuckDB does not run its query ({reason}): leave --verify out") from error


def _compared(database: Any, name: str, stored: Stored, folder: str) -> str:
    """The sentence on a view that is as its query says; raises :class:`WrongView` for another."""
    database.execute(f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS {_read(stored.path, folder)}")
    database.execute(f"CREATE OR REPLACE TEMP TABLE {_EXPECTED} AS SELECT * FROM {quoted(name)}")
    types = _types(database, _KEPT)
    columns, expected = [*types], {column.lower(): kind for column, kind in _types(database, _EXPECTED).items()}
    on = " AND ".join(f"kept.{key} IS NOT DISTINCT FROM expected.{key}" for key in map(quoted, stored.key))
    differ = [_differ(column, types[column], expected.get(column.lower(), "")) for column in columns]
    is_one = " OR ".join(f"{side}.{quoted(stored.key[0])} IS NULL" for side in ("kept", "expected"))
    rows = f"FROM {_KEPT} AS kept FULL JOIN {_EXPECTED} AS expected ON {on} WHERE {is_one} OR {' OR '.join(differ)}"
    (count,) = database.execute(f"SELECT count(*) {rows}").fetchone()
    if not count:
        (total,) = database.execute(f"SELECT count(*) FROM {_KEPT}").fetchone()
        return f"{name}: {counted(total, 'row')}, as by DuckDB"
    each = ", ".join(
        f"({is_other}, kept.{column}, expected.{column})" for is_other, column in zip(differ, map(quoted, columns), strict=True)
    )
    by_key = ", ".join(f"coalesce(kept.{key}, expected.{key})" for key in map(quoted, stored.key))
    first = database.execute(f"SELECT {each} {rows} ORDER BY {by_key} LIMIT {_SHOWN}").fetchall()
    shown = [_shown(dict(zip(columns, row, strict=True)), stored.key) for row in first]
    more = "; ..." if count > _SHOWN else ""
    raise WrongView(f"{name} has {counted(count, 'row')} that DuckDB computes otherwise: {'; '.join(shown)}{more}")


def _differ(column: str, kind: str, expected: str) -> str:
    """The condition that the values of a column are not equal."""
    one, other = f"kept.{quoted(column)}", f"expected.{quoted(column)}"
    is_other = f"{one} IS DISTINCT FROM {other}"
    if not {kind, expected} & {*_FLOATS}:
        return is_other
    least = f"1e-{kind.rstrip(')').rpartition(',')[2]}" if kind.startswith("DECIMAL") else "0"
    size = f"greatest(abs({one}::DOUBLE), abs({other}::DOUBLE))"
    return f"({is_other} AND NOT coalesce(abs({one}::DOUBLE - {other}::DOUBLE) <= greatest({least}, {_DIGITS} * {size}), false))"


def _shown(row: Mapping[str, tuple[bool, Any, Any]], key: Sequence[str]) -> str:
    """What is wrong with a row, of whose columns it is said whether they differ, and both values."""
    has = [any(row[name][side] is not None for name in key) for side in (1, 2)]
    shown = ", ".join(f"{name}={row[name][1 if has[0] else 2]!r}" for name in key)
    if not all(has):
        return f"{shown} {'should not be there' if has[0] else 'is missing'}"
    return f"{shown}: {', '.join(f'{name} is {kept!r} and not {made!r}' for name, (differs, kept, made) in row.items() if differs)}"


def _types(database: Any, relation: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in database.execute(f"DESCRIBE {relation}").fetchall()}


def _read(path: str, folder: str) -> str:
    """The query of the rows of a Parquet file, which lies in ``folder`` for it if it is in a store."""
    if not is_local(path):
        copy = os.path.join(folder, os.path.basename(path))
        with open_file(path) as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
        path = copy
    return "SELECT * FROM read_parquet('{}')".format(os.path.abspath(path).replace("'", "''"))
