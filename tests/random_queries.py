"""Random queries as views, step by step: ``python -m tests.random_queries 10000`` runs so many, and says what is wrong.

The rows of each view are compared with those of DuckDB at every position, and at the last one with those that DataFusion gives with
all its rules, of which plans of views have the fewest. Where DataFusion alone has others, the query is counted and printed.
"""

import argparse
import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from beam_joins import Change, Steps, View, content, views
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.views.relations import Relation
from tests.reference.random_sql import Queries, Shop, bag, long_shop, random_shop
from tests.transforms.changelog_tables import changelog, changelog_table

PLANNER: Final = "55.0.0"
"""The version of DataFusion that views plan with. Before another one is taken, 10,000 random queries have to be right with it."""
QUERIES_OF_A_SHOP: Final = 6
_TOLD_EVERY: Final = 300
_OVER_STEPS: Final = (
    "SELECT a.k0 AS a, b.k0 AS b FROM t0 a LEFT JOIN t1 b ON a.v0 = b.v0",
    "SELECT a.k0 AS a, b.k0 AS b FROM t0 a FULL JOIN t1 b ON a.v0 = b.v0 AND a.v1 < b.v1",
    "SELECT k0 FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.v0 = t0.v0 AND t1.v1 <> t0.v1)",
    "SELECT a.v0 AS a, b.v0 AS b, c.k0 AS c FROM t0 a JOIN t1 b ON a.k0 = b.k0 RIGHT JOIN t0 c ON a.k0 = c.k0",
    "SELECT v0, min(v1) AS least, max(v1) AS most, count(DISTINCT v1) AS values FROM t0 GROUP BY v0",
)
_REFUSED: Final = re.compile("IN .SELECT .*not kept|all rows would meet|cannot be planned: Schema contains duplicate")
"""What views say of random queries that they do not keep; DataFusion gives count(1) and count(*) beside each other one name."""


def random_queries(chance: random.Random, drawn: Shop, count: int) -> list[tuple[str, Relation]]:
    """Random queries that are kept, as relations."""
    relations = {name: views.table(name, drawn.schema(name), key=drawn.key(name)) for name in drawn.tables}
    made: list[tuple[str, Relation]] = []
    with duckdb.connect() as database:
        for table in drawn.tables:
            database.register(table, drawn.contents(table, -1))
        while len(made) < count:
            query = Queries(drawn.tables, chance).query()
            try:
                made.append((query, views.sql(query, relations)))
                database.execute(query)
            except ValueError as refused:
                assert _REFUSED.search(str(refused)), query
            except (duckdb.NotImplementedException, duckdb.ParserException):  # a few correlated subqueries, and comparisons of some
                made.pop()
    return made


def steps_of(relation: Relation, drawn: Shop, chance: random.Random, most_steps: int = 3) -> Iterator[Change[Any, Any]]:
    """The changes of a view of random tables that come in steps, about ``most_steps`` of them."""
    steps = Steps(View(relation), **{name: changelog_table(drawn.key(name)) for name in drawn.tables})
    positions = drawn.positions()
    ends = sorted({*chance.sample(positions, min(most_steps, len(positions))), positions[-1]})
    for begin, end in zip([min(positions) - 1, *ends], ends, strict=False):
        rows = {name: [row for row in drawn.changes[name] if begin < row["position"] <= end] for name in drawn.tables}
        yield from changes_of(steps.apply(**{name: changelog(rows[name], drawn.schema(name)) for name in drawn.tables}))


def changes_of(table: pa.Table) -> Iterator[Change[Any, Any]]:
    """The changes of a table with their columns, with keys that can be compared."""
    for row in table.to_pylist():
        position = NO_TIME if row["position"] is None else row["position"]
        yield Change(repr(row["key"]), row["old"], row["new"], position, position)


def long_history(seed: int) -> None:
    """Raises where a query that counts what meets a row, or keeps the values of a group, is wrong over many small steps."""
    chance = random.Random(seed)
    drawn = long_shop(chance)
    relations = {name: views.table(name, drawn.schema(name), key=drawn.key(name)) for name in drawn.tables}
    for query in _OVER_STEPS:
        compare([*steps_of(views.sql(query, relations), drawn, chance, 20)], query, drawn, drawn.positions())


def compare(changes: Iterable[Change[Any, Any]], query: str, drawn: Shop, positions: Iterable[int]) -> None:
    """Raises for the first position at which the rows of a view are not those of DuckDB."""
    with duckdb.connect(config={"threads": 1}) as database:
        for position in positions:
            for table in drawn.tables:
                database.register(table, drawn.contents(table, position))
            kept, expected = rows_at(changes, position), bag(database.execute(query).fetchall())
            assert kept == expected, f"at {position}:\n{query}\n{kept - expected}\n{expected - kept}"


def rows_at(changes: Iterable[Change[Any, Any]], position: int) -> Counter[tuple[str, ...]]:
    """The rows of a view at a position."""
    return bag([tuple(row.values()) for row in content(changes, position).values()])


def rows_of_planner(query: str, drawn: Shop, position: int) -> Counter[tuple[str, ...]]:
    """The rows that DataFusion gives for the contents at a position. Raises what it raises."""
    config = SessionConfig().with_target_partitions(1).set("datafusion.sql_parser.parse_float_as_decimal", "true")
    session = SessionContext(config)
    for table in drawn.tables:
        rows = drawn.contents(table, position)
        session.register_record_batches(table, [rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]])
    return bag([tuple(row.values()) for batch in session.sql(query).collect() for row in batch.to_pylist()])


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; returns 1 if a view was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=int, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first (default: %(default)s)")
    asked = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    ran, wrong, others = 0, 0, 0
    for seed in range(asked.seed, asked.seed + -(-asked.queries // QUERIES_OF_A_SHOP)):
        if ran % _TOLD_EVERY < QUERIES_OF_A_SHOP and ran:
            print(f"{ran:,} queries, up to seed {seed - 1}: {wrong:,} wrong", file=sys.stderr, flush=True)
        chance = random.Random(seed)
        drawn = random_shop(chance)
        for query, relation in random_queries(chance, drawn, QUERIES_OF_A_SHOP):
            ran += 1
            try:
                changes = [*steps_of(relation, drawn, chance)]
                compare(changes, query, drawn, drawn.positions())
            except Exception as error:
                wrong += 1
                print(f"WRONG, seed {seed}: {type(error).__name__}: {error}\n{query}", flush=True)
                continue
            try:
                same = rows_of_planner(query, drawn, drawn.positions()[-1]) == rows_at(changes, drawn.positions()[-1])
                said = "other rows"
            except Exception as error:
                same, said = False, str(error).partition("\n")[0]
            if not same:
                others += 1
                print(f"DataFusion alone, seed {seed}: {said}\n{query}", flush=True)
    print(f"{ran:,} queries: {wrong:,} wrong; DataFusion alone has other rows or fails in {others:,}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
