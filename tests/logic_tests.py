"""Runs files of sqllogictest as views: ``python -m tests.logic_tests FOLDER...``.

Each query of a file, and each view that it makes, is kept over the history of the tables that the statements before it have changed,
in steps that end anywhere, and compared with DuckDB at each position. The files are not here: they are those of SQLite, RisingWave,
OpenIVM and others that have the form.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from beam_joins import Change, Steps, TableFromChangelog, View, content, vectorized, views
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.views.relations import Relation, TableNode
from tests.reference.random_sql import bag

_ROW: Final = "_row"
"""The column with the key of a row, which no query sees."""
_MOST_POSITIONS: Final = 12
_DIALECTS: Final = ("duckdb", "postgres")


class Record(NamedTuple):
    """A statement or a query of a file, and whether it is expected to fail."""

    kind: str
    sql: str
    fails: bool


def records_of(text: str) -> Iterator[Record]:
    """The statements and queries of a file.

    >>> [record.sql for record in records_of("statement ok\\nCREATE TABLE t (a INT)\\n\\nquery I\\nSELECT a FROM t\\n----\\n1\\n")]
    ['CREATE TABLE t (a INT)', 'SELECT a FROM t']
    """
    for part in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text.replace("\r\n", "\n"), flags=re.MULTILINE)):
        lines = [line for line in part.splitlines() if not line.startswith(("skipif", "onlyif", "hash-threshold", "halt"))]
        if lines and lines[0].startswith(("statement", "query")) and not any(line.startswith("onlyif") for line in part.splitlines()):
            kind, *expected = lines[0].split()
            sql = "\n".join(lines[1:]).partition("\n----")[0].strip().rstrip(";")
            yield Record(kind, sql, "error" in expected[:1])


class History:
    """The tables of a file: their contents after each statement that changes one."""

    def __init__(self) -> None:
        self.database = duckdb.connect(config={"threads": 1})
        self.database.execute("SET TimeZone = 'UTC'; SET integer_division = true")
        self.schemas: dict[str, pa.Schema] = {}
        self.contents: list[dict[str, pa.Table]] = []

    def execute(self, sql: str) -> None:
        """Execute a statement; raises duckdb.Error."""
        self.database.execute(sql)

    def look(self) -> None:
        """Take note of the contents of the tables."""
        names = [name for (name,) in self.database.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
        rows = {name: self.database.execute(f'SELECT * FROM "{name}"').to_arrow_table() for name in names}
        now = {name.lower(): table.rename_columns([column.lower() for column in table.column_names]) for name, table in rows.items()}
        self.schemas = {name: table.schema for name, table in now.items()}
        if not self.contents or now != self.contents[-1]:
            self.contents.append(now)

    def changes(self, name: str) -> list[dict[str, Any]]:
        """The changes of a table: rows are known by all of their values, and by their number among equal ones."""
        made, before = list[dict[str, Any]](), dict[str, dict[str, Any]]()
        for position, contents in enumerate(self.contents):
            now, numbers = dict[str, dict[str, Any]](), Counter[str]()
            for row in contents[name].to_pylist() if name in contents else ():
                shown = repr(row)
                numbers[shown] += 1
                now[f"{shown} {numbers[shown]}"] = row
            for key in sorted(before.keys() - now.keys()):
                made.append({**before[key], _ROW: key, "op": "d", "position": position})
            made += [{**now[key], _ROW: key, "op": "u", "position": position} for key in sorted(now.keys() - before.keys())]
            before = now
        return made


class Tried(NamedTuple):
    """What came of a query: ``right``, ``wrong``, ``refused`` or ``not run`` by DuckDB, and why."""

    what: str
    why: str
    sql: str


class File:
    """The views of a file over its tables."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.history = History()
        self._views: dict[str, str] = {}
        self._queries = list[str]()

    def read(self, records: Sequence[Record], most: int) -> Iterator[Tried]:
        """Execute the statements, and then keep up to ``most`` of the queries over the whole history."""
        for record in records:
            if record.fails:
                continue
            if record.kind == "query":
                self._queries.append(record.sql)
                continue
            made = re.match(
                r"create\s+(?:or\s+replace\s+)?(?:materialized\s+)?view\s+(\S+)\s+as\s+(.*)", record.sql, re.IGNORECASE | re.DOTALL
            )
            if made:
                self._views[made[1].strip('"').lower()] = made[2]
            elif not re.match(
                r"(set|flush|drop\s+(materialized\s+)?view|explain|describe|show|begin|commit|pragma)\b", record.sql, re.IGNORECASE
            ):
                try:
                    self.history.execute(record.sql)
                    if not record.sql.lower().startswith("drop"):
                        self.history.look()
                except duckdb.Error as error:
                    yield Tried("statement not run", str(error).partition("\n")[0], record.sql)
        queries = [*self._views.values(), *(query for query in self._queries if not self._is_of_view(query))]
        if len(queries) > most:
            queries = self._chance.sample(queries, most)
        for query in queries:
            yield self._tried(query)

    def _is_of_view(self, query: str) -> bool:
        """Whether a query reads nothing but all rows of a view, which is tried as such."""
        return bool(re.fullmatch(r"select\s+\*\s+from\s+(\w+)(\s+order\s+by.*)?", query.strip(), re.IGNORECASE | re.DOTALL))

    def _tried(self, query: str) -> Tried:
        try:
            sql = self._as_view(query)
        except Exception as error:
            return Tried("not parsed", str(error).partition("\n")[0], query)
        changes = {name: self.history.changes(name) for name in self.history.schemas}
        relations = {name: views.table(name, schema, key=None) for name, schema in self.history.schemas.items()}
        try:
            relation = views.sql(sql, self._with_views(sql, relations))
        except sqlglot.errors.ParseError as error:
            return Tried("not parsed", str(error).partition("\n")[0], sql)
        except ValueError as refused:
            return Tried("refused", re.sub(r"(?<=there are ).*|'[^']*'|\d+", "...", str(refused)), sql)
        try:
            steps = [*self._steps(relation, changes)]
        except Exception as error:
            return Tried("failed", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", sql)
        return self._compared(sql, steps)

    def _as_view(self, query: str) -> str:
        """A query without an order, whose columns have names."""
        for dialect in _DIALECTS:
            try:
                parsed: Any = sqlglot.parse_one(query, read=dialect)
                break
            except sqlglot.errors.ParseError:
                if dialect == _DIALECTS[-1]:
                    raise
        if parsed.args.get("limit") is None:
            parsed.set("order", None)
        select = parsed
        while isinstance(select, exp.SetOperation):
            select = select.this
        for number, each in enumerate(select.expressions if isinstance(select, exp.Select) else ()):
            if not isinstance(each, exp.Alias | exp.Star) and not (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
                each.replace(exp.alias_(each.copy(), f"c{number}"))
        return str(parsed.sql(dialect="postgres"))

    def _with_views(self, sql: str, relations: dict[str, Relation]) -> dict[str, Relation]:
        """The relations that a query reads, views among them; raises ``ValueError`` for one that is not kept."""
        made = dict(relations)
        for name, query in self._views.items():
            if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE):
                made[name] = views.sql(self._as_view(query), made)
        return made

    def _steps(self, relation: Relation, changes: dict[str, list[dict[str, Any]]]) -> Iterator[Change[Any, Any]]:
        read = {name: changes[name] for name in sorted(_tables_of(relation))}
        tables = {
            name: TableFromChangelog(
                key=vectorized(lambda rows: rows[_ROW]),
                sequence_by="position",
                except_columns=[_ROW, "op", "position"],
                apply_as_deletes={"op": ["d"]},
            )
            for name in read
        }
        steps = Steps(View(relation), **tables)
        last = len(self.history.contents) - 1
        ends = sorted({*self._chance.sample(range(last + 1), min(3, last + 1)), last})
        for begin, end in zip([-1, *ends], ends, strict=False):
            frames = {}
            for name in read:
                types = [*self.history.schemas[name], (_ROW, pa.string()), ("op", pa.string()), ("position", pa.int64())]
                rows = [row for row in read[name] if begin < row["position"] <= end]
                frames[name] = pa.Table.from_pylist(rows, pa.schema(types))
            for row in steps.apply(**frames).to_pylist():
                position = NO_TIME if row["position"] is None else row["position"]
                yield Change(repr(row["key"]), row["old"], row["new"], position, position)

    def _compared(self, sql: str, changes: Sequence[Change[Any, Any]]) -> Tried:
        positions = range(len(self.history.contents))
        looked = sorted({*self._chance.sample(positions, min(_MOST_POSITIONS, len(positions))), positions[-1]})
        with duckdb.connect(config={"threads": 1}) as database:
            database.execute("SET TimeZone = 'UTC'; SET integer_division = true")
            for position in looked:
                for name, schema in self.history.schemas.items():
                    database.register(name, self.history.contents[position].get(name, schema.empty_table()))
                try:
                    for name, query in self._views.items():
                        if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE):
                            database.execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')
                    expected = bag(database.execute(sql).fetchall())
                except duckdb.Error as error:
                    return Tried("not run by DuckDB", str(error).partition("\n")[0], sql)
                kept = bag([tuple(row.values()) for row in content(changes, position).values()])
                if kept != expected:
                    return Tried("wrong", f"at {position}: {dict(kept - expected)} in place of {dict(expected - kept)}", sql)
        return Tried("right", "", sql)


def _tables_of(relation: Relation) -> set[str]:
    """The tables that a relation is made of."""
    return {relation.name} if isinstance(relation, TableNode) else {name for each in relation.inputs for name in _tables_of(each)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the files; returns 1 if a view is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders with files of .slt, .test and .slt.part")
    parser.add_argument("--most", type=int, default=50, help="the number of queries of a file that are tried")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    paths = [file for path in args.paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    counts, whys = Counter[str](), Counter[tuple[str, str]]()
    for path in paths:
        if not path.is_file() or not path.name.endswith((".slt", ".test", ".slt.part", ".sql")):
            continue
        records = [*records_of(path.read_text(encoding="utf-8", errors="replace"))]
        for tried in File(random.Random(f"{args.seed} {path.name}")).read(records, args.most):
            counts[tried.what] += 1
            whys[tried.what, tried.why[:150]] += tried.what != "right"
            if tried.what in ("wrong", "failed"):
                print(f"{path}: {tried.what}: {tried.why}\n  {tried.sql}", flush=True)
        print(f"{path}: {dict(counts)}", flush=True)
    for (what, why), count in whys.most_common(60):
        print(f"{count:6} {what}: {why}")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
