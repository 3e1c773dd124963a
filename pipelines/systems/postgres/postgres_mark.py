"""The mark of a run in a table of PostgreSQL: its columns and some of its rows as it has left them, for which the next run looks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from beam_joins.extras import needs
from beam_joins.pipelines.results.run_mark import Mark

with needs("postgres"):
    import psycopg
    from psycopg import sql

_ROWS: Final = 16
"""The number of rows that are remembered, and as many that are deleted."""
_KEYS: Final = """
    (SELECT {texts} FROM {staged} AS kept WHERE NOT {deleted} ORDER BY {position} DESC LIMIT {rows}) UNION
    (SELECT {texts} FROM {staged} AS kept WHERE {deleted} ORDER BY {position} DESC LIMIT {rows})
"""
_KEPT: Final = """
    SELECT number, kept.{position}::bigint, kept.{deleted}, md5(ROW({values})::text)
    FROM unnest(%s::int[]) AS number CROSS JOIN LATERAL (SELECT {keys}) AS looked ({key}) JOIN {table} AS kept ON {same_key}
"""
_TYPES: Final = """
    SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


def _newest(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Those with the last positions, of rows and of deleted ones."""
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    kept = ([*islice((row for row in ordered if row[2] is is_deleted), _ROWS)] for is_deleted in (False, True))
    return [row for some in kept for row in some]


@dataclass(frozen=True)
class PostgresMarks:
    """The marks in a ``table``, by the names of its columns."""

    table: sql.Identifier
    key: Sequence[str]
    values: Sequence[str]
    position: str
    deleted: str

    def left(self, connection: Any, staged: sql.Identifier, before: Mark | None) -> Mark:
        """The mark of a run that has merged the rows of a table ``staged``, beside rows that the mark ``before`` has."""
        types = self._types(connection)
        names = {"position": sql.Identifier(self.position), "deleted": sql.Identifier(self.deleted), "rows": sql.Literal(_ROWS)}
        texts = sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(sql.SQL("{}::text").format(self._kept(name)) for name in self.key))
        keys = [key for (key,) in connection.execute(sql.SQL(_KEYS).format(texts=texts, staged=staged, **names)) if None not in key]
        keys += [key for key, *_ in (before or {}).get("rows", ()) if key not in keys]
        rows = [[keys[number], *kept] for number, kept in self._found(connection, keys, types, types)]
        return {"types": types, "rows": _newest(rows)}

    def lacks(self, connection: Any, mark: Mark) -> str | None:
        """The difference between the table and the ``mark`` that the last run has left there; ``None`` where it has none."""
        types, remembered = self._types(connection), mark["types"]
        if missing := [name for name in remembered if name not in types]:
            return f"it has no column {', '.join(missing)} any more"
        rows = mark["rows"]
        try:
            with connection.transaction():
                found = dict(self._found(connection, [key for key, *_ in rows], types, remembered))
        except psycopg.DataError as error:
            return f"its values are not of the types that they were of ({error.diag.message_primary})"
        for number, (key, position, is_deleted, digest) in enumerate(rows):
            now = found.get(number)
            row = f"the row with the key {', '.join(key)}"
            if now is None:
                if not is_deleted:
                    return f"{row} is gone"
            elif now[0] < position or (now[0] == position and is_deleted and not now[1]):
                return f"{row} is older"
            elif now[0] == position and not is_deleted and (now[1] or now[2] != digest):
                return f"{row} has other values"
        return None

    def _types(self, connection: Any) -> dict[str, str]:
        """The types of the columns that are written."""
        written = {*self.key, *self.values, self.position, self.deleted}
        types = dict(connection.execute(_TYPES, [self.table.as_string()]).fetchall())
        return {name: kind for name, kind in types.items() if name in written}

    def _found(
        self, connection: Any, keys: Sequence[Sequence[str]], types: Mapping[str, str], as_types: Mapping[str, str]
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows with these keys: the number of the key, position, whether it is deleted, and a digest of its values as texts of
        ``as_types``.
        """
        if not keys:
            return
        comma = sql.SQL(", ")
        looked = [sql.SQL("(%s::text[])[number]::{}").format(sql.SQL(types[name])) for name in self.key]
        query = sql.SQL(_KEPT).format(
            table=self.table,
            position=sql.Identifier(self.position),
            deleted=sql.Identifier(self.deleted),
            keys=comma.join(looked),
            key=comma.join(map(sql.Identifier, self.key)),
            same_key=sql.SQL(" AND ").join(sql.SQL("kept.{0} = looked.{0}").format(sql.Identifier(name)) for name in self.key),
            values=comma.join(
                sql.SQL("{}::{}").format(self._kept(name), sql.SQL(kind))
                for name, kind in sorted(as_types.items())
                if name in self.values
            ),
        )
        columns = [[key[place] for key in keys] for place in range(len(self.key))]
        for number, *kept in connection.execute(query, [[*range(1, len(keys) + 1)], *columns]):
            yield number - 1, kept

    @staticmethod
    def _kept(name: str) -> sql.Composed:
        return sql.SQL("kept.{}").format(sql.Identifier(name))
