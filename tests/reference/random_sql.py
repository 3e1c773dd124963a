"""Random SQL over random tables and histories: joins, subqueries, aggregates, unions, with nulls, duplicates and self joins."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

TYPES = {
    "int": pa.int64(),
    "small": pa.int32(),
    "text": pa.string(),
    "money": pa.decimal128(10, 2),
    "real": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
}
NUMBERS = ("int", "small", "money", "real")
Column = tuple[str, str]
"""The text of a column and the name of its type."""


class Shop(NamedTuple):
    """Tables with the columns of their keys first, and their changes in the order of positions."""

    tables: Mapping[str, Sequence[Column]]
    keys: Mapping[str, int]
    changes: Mapping[str, Sequence[dict[str, Any]]]

    def schema(self, table: str) -> pa.Schema:
        """The columns of a table."""
        return pa.schema([(name, TYPES[kind]) for name, kind in self.tables[table]])

    def key(self, table: str) -> list[str]:
        """The columns of its key."""
        return [name for name, _ in self.tables[table][: self.keys[table]]]

    def positions(self) -> list[int]:
        """The positions of changes, and one before."""
        return [-1, *sorted({row["position"] for rows in self.changes.values() for row in rows})]

    def contents(self, table: str, position: int) -> pa.Table:
        """The rows of a table at a position."""
        rows = dict[Any, dict[str, Any]]()
        for row in self.changes[table]:
            if row["position"] <= position:
                key = tuple(row[name] for name in self.key(table))
                rows.pop(key, None)
                if row["op"] != "d":
                    rows[key] = {name: row[name] for name, _ in self.tables[table]}
        return pa.Table.from_pylist([*rows.values()], self.schema(table))


def random_shop(chance: random.Random) -> Shop:
    """Random tables with changes."""
    tables, keys = dict[str, list[Column]](), dict[str, int]()
    for n in range(chance.choice([1, 2, 2, 3])):
        of_key = [(f"k{i}", chance.choice(["int", "text", "small"])) for i in range(chance.choice([1, 1, 2]))]
        tables[f"t{n}"] = [*of_key, *((f"v{i}", chance.choice([*TYPES])) for i in range(chance.randrange(1, 5)))]
        keys[f"t{n}"] = len(of_key)
    shop = Shop(tables, keys, {name: [] for name in tables})
    present = {name: dict[Any, dict[str, Any]]() for name in tables}
    position = 0
    for _ in range(chance.randrange(3, 13)):
        position += chance.choice([1, 1, 2])
        for name in tables:
            if chance.random() < 0.65:
                _change(shop, name, present[name], position, chance)
    return shop


def long_shop(chance: random.Random) -> Shop:
    """Two tables of few rows and values with one change at a position, so that most rows are older than a step."""
    columns = [("k0", "int"), ("v0", "int"), ("v1", "int")]
    shop = Shop({"t0": columns, "t1": columns}, {"t0": 1, "t1": 1}, {"t0": [], "t1": []})
    present = {"t0": set[int](), "t1": set[int]()}
    for position in range(1, 25):
        name, key = chance.choice(["t0", "t1"]), chance.randrange(4)
        op = "d" if key in present[name] and chance.random() < 0.4 else "u"
        (present[name].discard if op == "d" else present[name].add)(key)
        row = {"k0": key, "v0": chance.choice([None, 0, 0, 1, 1]), "v1": chance.randrange(4)}
        shop.changes[name].append({**row, "op": op, "position": position})
    return shop


def _change(shop: Shop, name: str, present: dict[Any, dict[str, Any]], position: int, chance: random.Random) -> None:
    """A few changes of a table at a position."""
    changed = set[Any]()
    for _ in range(chance.choice([1, 1, 2, 4])):
        columns, of_key = shop.tables[name], shop.keys[name]
        key = tuple(_value(kind, 0, chance) for _, kind in columns[:of_key])
        if present and chance.random() < 0.55:
            key = chance.choice([*present])
        if key in changed:
            continue
        changed.add(key)
        is_gone = key in present and chance.random() < 0.35
        row = dict(zip(shop.key(name), key, strict=True)) | {column: _value(kind, 0.25, chance) for column, kind in columns[of_key:]}
        if is_gone:
            del present[key]
        else:
            present[key] = row
        shop.changes[name].append({**row, "op": "d" if is_gone else "u", "position": position})


def _value(kind: str, nulls: float, chance: random.Random) -> Any:
    if chance.random() < nulls:
        return None
    values: dict[str, Callable[[], Any]] = {
        "int": lambda: chance.randrange(-1, 4),
        "small": lambda: chance.randrange(-1, 4),
        "text": lambda: chance.choice(["", "a", "b", "B", "ab", "é"]),
        "money": lambda: Decimal(chance.randrange(-150, 300)) / 100 if chance.random() < 0.5 else Decimal(chance.randrange(3)),
        "real": lambda: chance.choice([0.0, 0.5, 1.0, 2.0, -1.25, 3.0]),
        "bool": lambda: chance.random() < 0.5,
        "time": lambda: datetime(2024, 1, 31, 23) + timedelta(hours=chance.randrange(0, 72, 12)),
    }
    return values[kind]()


class Queries:
    """Random queries; a scope is the columns that an expression may read."""

    def __init__(self, tables: Mapping[str, Sequence[Column]], chance: random.Random) -> None:
        self._tables, self._chance, self._aliases = dict(tables), chance, 0

    def query(self) -> str:
        """A query, some with a common table expression that it uses as a table."""
        if self._chance.random() < 0.15:
            inner, kinds = self._select(1)
            self._tables["cte"] = [(f"x{n}", kind) for n, kind in enumerate(kinds)]
            outer, _ = self._select(2)
            del self._tables["cte"]
            return f"WITH cte AS ({inner}) {outer}"
        return self._select(self._chance.choice([1, 2, 2, 3]))[0]

    def _alias(self) -> str:
        self._aliases += 1
        return f"s{self._aliases}"

    def _of(self, scope: Sequence[Column], kinds: Sequence[str], depth: int = 2) -> str:
        """An expression of one of some types."""
        columns = [column for column, kind in scope if kind in kinds]
        if columns and (depth <= 0 or self._chance.random() < 0.65):
            return self._chance.choice(columns)
        return self._compound(scope, self._chance.choice(kinds), depth - 1)

    def _literal(self, kind: str) -> str:
        chance = self._chance
        literals: dict[str, Callable[[], str]] = {
            "int": lambda: f"CAST({chance.randrange(-1, 4)} AS BIGINT)",
            "small": lambda: f"CAST({chance.randrange(4)} AS INT)",
            "text": lambda: chance.choice(["'a'", "'b'", "''"]),
            "money": lambda: f"CAST({chance.choice(['1.00', '0.50', '2.25'])} AS DECIMAL(10, 2))",
            "real": lambda: f"CAST({chance.choice(['0.5', '1.0', '2.0'])} AS DOUBLE)",
            "bool": lambda: chance.choice(["TRUE", "FALSE"]),
            "time": lambda: "TIMESTAMP '2024-02-01 12:00:00'",
        }
        return literals[kind]()

    def _compound(self, scope: Sequence[Column], kind: str, depth: int) -> str:
        if depth < 0:
            return self._literal(kind)
        chance = self._chance

        def of(*kinds: str) -> str:
            return self._of(scope, kinds, depth)

        any_kind = chance.choice([*TYPES])
        forms: list[Callable[[], str]] = [
            lambda: self._literal(kind),
            lambda: f"coalesce({of(kind)}, {of(kind)})",
            lambda: f"CASE WHEN {of('bool')} THEN {of(kind)} {chance.choice(['', f'ELSE {of(kind)} '])}END",
            lambda: f"nullif({of(kind)}, {of(kind)})",
        ]
        if kind in ("int", "real"):
            forms += [lambda: f"({of(kind)} {chance.choice('+-*')} {of(kind)})", lambda: f"abs({of(kind)})"] * 2
        of_kind: dict[str, list[Callable[[], str]]] = {
            "int": [
                lambda: f"CAST({of('small', 'bool')} AS BIGINT)",
                lambda: f"({of('int')} % 3)",
                lambda: f"CAST(length({of('text')}) AS BIGINT)",
                lambda: f"CAST(extract({chance.choice(['year', 'month', 'day', 'hour'])} FROM {of('time')}) AS BIGINT)",
            ],
            "money": [lambda: f"CAST({of('money')} {chance.choice('+-')} {of('money')} AS DECIMAL(10, 2))"],
            "real": [lambda: f"CAST({of('int', 'small')} AS DOUBLE)", lambda: f"({of('real')} / CAST(2 AS DOUBLE))"],
            "text": [
                lambda: f"({of('text')} || {of('text')})",
                lambda: f"{chance.choice(['upper', 'lower', 'trim'])}({of('text')})",
                lambda: f"substr({of('text')}, 1, 1)",
                lambda: f"CAST({of('int', 'small')} AS VARCHAR)",
            ],
            "time": [
                lambda: f"date_trunc('{chance.choice(['day', 'month'])}', {of('time')})",
                lambda: f"({of('time')} + INTERVAL '1' MONTH)",
            ],
            "bool": [
                *[lambda: f"({of(any_kind)} {chance.choice(['=', '<>', '<', '>=', 'IS DISTINCT FROM'])} {of(any_kind)})"] * 5,
                *[lambda: f"({of('bool')} {chance.choice(['AND', 'OR'])} {of('bool')})", lambda: f"(NOT {of('bool')})"] * 2,
                lambda: f"({of(any_kind)} IS {chance.choice(['', 'NOT '])}NULL)",
                lambda: f"({of('text')} LIKE '{chance.choice(['a%', '%b', '_'])}')",
                lambda: f"({of('int', 'small')} {chance.choice(['', 'NOT '])}IN (0, 1, {chance.choice(['NULL', '2'])}))",
                lambda: f"({of('int')} BETWEEN 0 AND 2)",
            ],
        }
        return chance.choice([*forms, *of_kind.get(kind, [])])()

    def _source(self, depth: int, *, nested: bool = False) -> tuple[str, list[Column]]:
        """A relation in FROM, and its columns."""
        alias, draw = self._alias(), self._chance.random()
        if depth <= 0 or draw < 0.4:
            table = self._chance.choice([*self._tables])
            return f"{table} AS {alias}", [(f"{alias}.{column}", kind) for column, kind in self._tables[table]]
        if draw < 0.65:
            query, kinds = self._select(depth - 1)
            return f"({query}) AS {alias}", [(f"{alias}.x{n}", kind) for n, kind in enumerate(kinds)]
        text, columns = self._join(depth)
        return f"({text})" if nested and " JOIN " in text else text, columns

    def _join(self, depth: int) -> tuple[str, list[Column]]:
        chance = self._chance
        (a, left), (b, right) = self._source(depth - 1), self._source(depth - 1, nested=True)
        pairs = [(x, y) for x, one in left for y, other in right if one == other or {one, other} <= {*NUMBERS}]
        how = chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        if not pairs:
            return a, left
        equal = ["="] if how == "FULL JOIN" else ["=", "=", "=", "IS NOT DISTINCT FROM"]
        on = [f"({x} {chance.choice(equal)} {y})" for x, y in chance.sample(pairs, min(len(pairs), chance.choice([1, 1, 2])))]
        if chance.random() < 0.35 and how != "FULL JOIN":
            on.append(f"({self._of([*left, *right], ('bool',))})")
        return f"{a} {how} {b} ON {' AND '.join(on)}", left + right

    def _exists(self, scope: Sequence[Column]) -> str:
        """A condition with a subquery."""
        chance = self._chance
        source, inner = self._source(1)
        form = chance.choice(["EXISTS", "NOT EXISTS", "IN", "NOT IN", "scalar"])
        where = self._of(inner, ("bool",), 1) if chance.random() < 0.5 else "TRUE"
        pairs = [(x, y) for x, one in scope for y, other in inner if one == other]
        numbers = [column for column, kind in inner if kind in ("int", "small")]
        outer = [column for column, kind in scope if kind in ("int", "small")]
        if form == "scalar" and numbers and outer:
            compared = f"{chance.choice(['<', '>=', '='])} {chance.choice(outer)}"
            function, number = chance.choice(["max", "count", "sum"]), chance.choice(numbers)
            if chance.random() < 0.5:
                equal = f"{chance.choice(numbers)} = {chance.choice(outer)}"
                return f"coalesce((SELECT {function}({number}) FROM {source} WHERE {equal}), 0) {compared}"
            return f"(SELECT {function}({number}) FROM {source} WHERE {where}) {compared}"
        if not pairs:
            return f"{chance.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {source} WHERE {where})"
        x, y = chance.choice(pairs)
        if form in ("IN", "NOT IN"):
            return f"{x} {form} (SELECT {y} FROM {source} WHERE {where})"
        return f"{'NOT ' if form.startswith('NOT') else ''}EXISTS (SELECT 1 FROM {source} WHERE {y} = {x} AND {where})"

    def _aggregate(self, scope: Sequence[Column]) -> Column:
        chance = self._chance
        where = f" FILTER (WHERE {self._of(scope, ('bool',), 1)})" if chance.random() < 0.15 else ""
        form, kind = chance.choice(["count", "count", "sum", "min", "max", "avg", "distinct"]), chance.choice([*TYPES])
        if form == "count":
            return f"count({chance.choice(['*', self._of(scope, (kind,), 1)])}){where}", "int"
        if form == "distinct":
            return f"count(DISTINCT {self._of(scope, (kind,), 1)}){where}", "int"
        if form in ("sum", "avg"):
            kind = chance.choice(["int", "small", "real"] if form == "avg" else ["int", "real", "small", "money"])
            into = "real" if form == "avg" else {"money": "money", "real": "real"}.get(kind, "int")
            named = {"real": "DOUBLE", "int": "BIGINT", "money": "DECIMAL(10, 2)"}[into]
            return f"CAST({form}({self._of(scope, (kind,), 1)}){where} AS {named})", into
        kind = chance.choice([each for each in TYPES if each != "bool"])
        return f"{form}({self._of(scope, (kind,), 1)}){where}", kind

    def _select(self, depth: int) -> tuple[str, list[str]]:
        """A query without a common table expression, and the types of its columns, which are named x0, x1 and so on."""
        chance = self._chance
        kinds = [chance.choice([*TYPES]) for _ in range(chance.randrange(1, 5))]
        if depth > 0 and chance.random() < 0.15:
            parts = [self._selected(*self._source(depth - 1), kinds, 1) for _ in range(chance.choice([2, 2, 3]))]
            both = chance.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
            return f" {both} ".join(parts if both.startswith("UNION") else parts[:2]), kinds
        source, scope = self._source(depth)
        conditions = [self._of(scope, ("bool",))] if chance.random() < 0.4 else []
        if chance.random() < 0.3:
            asked = self._exists(scope)
            conditions.append(chance.choice([asked, asked, f"{asked} OR {self._of(scope, ('bool',), 1)}", f"NOT ({asked})"]))
        where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
        if chance.random() < 0.35:
            return self._grouped(source + where, scope)
        distinct = "DISTINCT " if chance.random() < 0.15 else ""
        return self._selected(source + where, scope, kinds, 2, distinct), kinds

    def _selected(self, source: str, scope: Sequence[Column], kinds: Sequence[str], depth: int, distinct: str = "") -> str:
        columns = ", ".join(f"{self._of(scope, (kind,), depth)} AS x{n}" for n, kind in enumerate(kinds))
        return f"SELECT {distinct}{columns} FROM {source}"

    def _grouped(self, source: str, scope: Sequence[Column]) -> tuple[str, list[str]]:
        chance = self._chance
        groups = [] if chance.random() < 0.15 else chance.sample(scope, min(len(scope), chance.choice([1, 1, 2])))
        columns = [*groups, *(self._aggregate(scope) for _ in range(chance.randrange(1, 4)))]
        having = chance.choice(["", "", "", f" HAVING {self._aggregate(scope)[0]} IS NOT NULL", " HAVING count(*) > 1"])
        by = f" GROUP BY {', '.join(column for column, _ in groups)}" if groups else ""
        shown = ", ".join(f"{column} AS x{n}" for n, (column, _) in enumerate(columns))
        return f"SELECT {shown} FROM {source}{by}{having}", [kind for _, kind in columns]


def bag(rows: Sequence[Sequence[Any]]) -> Counter[tuple[str, ...]]:
    """Rows without an order, whose numbers are compared as numbers of ten digits."""
    return Counter(tuple(map(_shown, row)) for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = float(value)
        return "NaN" if number != number else repr(float(f"{number:.10g}") + 0.0)
    return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)
