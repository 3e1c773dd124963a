"""A shop whose tables, partitions, publication and server somebody alters; each change is drawn by chance."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from tests.postgres.server import server
from tests.postgres.slot_tables import asked, run

_LARGE = "(SELECT string_agg(md5(i::text || random()::text), '') FROM generate_series(1, 100) i)"
_PARTITIONS = {f"p{n}": (100 * n, 100 * n + 100) for n in range(3)}
_TYPE = "CREATE TYPE status AS ENUM ('open', 'paid', 'sent')"
_CUSTOMERS = "(id int PRIMARY KEY, name text, bio text, score int)"
_ORDERS = "(id int, customer int, amount numeric(12,2), status status, note text, spare int, PRIMARY KEY (id)) PARTITION BY RANGE (id)"
_PUBLICATION = "CREATE PUBLICATION s FOR TABLE orders, customers WITH (publish_via_partition_root = true)"
_PUBLISH = "ALTER PUBLICATION s SET TABLE orders, customers"
SELECT = "left.id, left.customer, left.amount, left.status, left.note, right.name, right.bio, right.score"
WHOLE = "SELECT id, customer, amount, status::text, md5(note), name, md5(bio), score"


class Altered(NamedTuple):
    """What was done: its name, and the statements that undo it, if it may be refused."""

    name: str
    undo: Sequence[str] = ()


class AlteredShop:
    """A database `shop` on a server of its own; ``conninfo`` is the same after it has moved to another server."""

    def __init__(self, bin_: Path, chance: random.Random) -> None:
        self._bin, self._chance = bin_, chance
        self._server: AbstractContextManager[str] | None = None
        self.conninfo = ""
        self._held: list[psycopg.Connection[Any]] = []
        self._prepared = 0
        self._filters: dict[str, str] = {}

    def start(self) -> None:
        """Start a server, in place of the one before, with a new shop."""
        port = psycopg.conninfo.conninfo_to_dict(self.conninfo)["port"] if self.conninfo else None
        self.stop()
        self._server = server(self._bin, None if port is None else int(port))
        postgres = self._server.__enter__()
        run(postgres, "CREATE DATABASE shop")
        self.conninfo = postgres.replace("dbname=postgres", "dbname=shop")
        self.build()
        run(self.conninfo, "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")

    def stop(self) -> None:
        self.let_go()
        if self._server is not None:
            self._server.__exit__(None, None, None)
        self._server = None

    @property
    def address(self) -> str:
        parts = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        return f"postgres://{parts['user']}@{parts['host']}:{parts['port']}/shop?options=-c%20lock_timeout%3D1s"

    def build(self) -> None:
        """Make everything anew, but for the slot."""
        self.let_go()
        self._filters = {}
        run(
            self.conninfo,
            "DROP PUBLICATION IF EXISTS s",
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            "CREATE SCHEMA IF NOT EXISTS elsewhere",
            "CREATE TABLE other (id int)",
            _TYPE,
            f"CREATE TABLE customers {_CUSTOMERS}",
            f"CREATE TABLE orders {_ORDERS}",
            *(f"CREATE TABLE {name} PARTITION OF orders FOR VALUES FROM ({a}) TO ({b})" for name, (a, b) in _PARTITIONS.items()),
            f"INSERT INTO customers SELECT i, 'customer ' || i, {_LARGE}, i FROM generate_series(1, 12) i",
            f"INSERT INTO orders SELECT 12 * i, i % 14, i * 1.25, 'open', {_LARGE}, 0 FROM generate_series(1, 20) i",
            _PUBLICATION,
        )

    def let_go(self) -> None:
        """End all transactions that are held open."""
        for each in self._held:
            each.close()
        self._held.clear()
        for number in range(self._prepared):
            run(self.conninfo, f"COMMIT PREPARED 'p{number}'")
        self._prepared = 0

    def truth(self) -> Any:
        """The rows of the join of what is published."""
        orders, customers = (f"(SELECT * FROM {table} WHERE {self._filters.get(table, 'true')})" for table in ("orders", "customers"))
        return asked(self.conninfo, f"{WHOLE.replace(' id', ' o.id', 1)} FROM {orders} o LEFT JOIN {customers} c ON c.id = o.customer")

    def undo(self, done: Sequence[Altered]) -> bool:
        """Undo what was done; whether there was something to undo."""
        statements = [statement for each in reversed(done) for statement in each.undo]
        for statement in statements:
            if self._try(statement) and statement == _PUBLISH:
                self._filters = {}
        return bool(statements)

    def change_rows(self) -> Altered:
        """A few transactions that change rows."""
        for _ in range(self._chance.randint(1, 4)):
            order, customer, number = self._chance.randint(0, 299), self._chance.randint(1, 14), self._chance.randint(1, 99)
            statement = self._chance.choice(
                [
                    f"UPDATE orders SET amount = {number}, customer = {customer} WHERE id % 9 = {order % 9}",
                    f"UPDATE orders SET note = {_LARGE}, status = 'paid' WHERE id = (SELECT min(id) FROM orders WHERE id > {order})",
                    f"DELETE FROM orders WHERE id = (SELECT max(id) FROM orders WHERE id < {order})",
                    f"INSERT INTO orders VALUES ({order}, {customer}, {number}, 'open', {_LARGE}) ON CONFLICT DO NOTHING",
                    f"UPDATE orders SET id = {order} WHERE id = (SELECT min(id) FROM orders WHERE id >= {order - 20}) "
                    f"AND NOT EXISTS (SELECT FROM orders WHERE id = {order})",
                    f"UPDATE customers SET name = 'name {number}' WHERE id = {customer}",
                    f"UPDATE customers SET id = {customer} WHERE id = {customer + 1} "
                    f"AND NOT EXISTS (SELECT FROM customers WHERE id = {customer})",
                    f"DELETE FROM customers WHERE id = {customer}",
                    f"INSERT INTO customers VALUES ({customer}, 'new', {_LARGE}, {number}) ON CONFLICT DO NOTHING",
                    "TRUNCATE customers" if number < 5 else "UPDATE customers SET score = score + 1",
                ]
            )
            self._try(statement)
        return Altered("rows")

    def _try(self, *statements: str) -> bool:
        """Run statements in one transaction; whether the server has taken them, which depends on what was done before."""
        try:
            with psycopg.connect(self.conninfo) as connection:
                for statement in statements:
                    connection.execute(statement)
        except psycopg.Error:
            return False
        return True

    def alter(self) -> Altered:
        """One of all kinds of alterations."""
        kinds: Sequence[Callable[[], Altered]] = (
            self._swap,
            self._partition,
            self._publication,
            self._column,
            self._hold,
            self._rewrite,
            self._identity,
        )
        return self._chance.choice(kinds)()

    def _swap(self) -> Altered:
        load = ("DROP TABLE IF EXISTS spare_customers", "CREATE TABLE spare_customers (LIKE customers INCLUDING ALL)")
        filled = "INSERT INTO spare_customers SELECT id + 3, name || '!', bio, score FROM customers"
        away = ("ALTER TABLE customers RENAME TO old_customers", "ALTER TABLE spare_customers RENAME TO customers")
        back = ("ALTER TABLE customers RENAME TO spare_customers", "ALTER TABLE old_customers RENAME TO customers")
        kind = self._chance.choice(["swap", "swap and publish", "there and back", "drop and create", "schema and back"])
        self._try("DROP TABLE IF EXISTS old_customers")
        if kind == "swap":
            self._try(*load, filled, *away)
            return Altered(kind, [_PUBLISH])
        if kind == "swap and publish" and self._try(*load, filled, *away, _PUBLISH):
            self._filters = {}
        if kind == "there and back":
            self._try(*load, filled)
            self._try(*away)
            self._try("UPDATE customers SET name = 'in between'")
            self._try("UPDATE old_customers SET name = 'meanwhile' WHERE id < 5")
            self._try(*back)
        if kind == "drop and create" and self._try(
            "DROP TABLE customers",
            f"CREATE TABLE customers {_CUSTOMERS}",
            "INSERT INTO customers SELECT i, 'made again', '', i FROM generate_series(3, 6) i",
            _PUBLISH,
        ):
            self._filters = {}
        if kind == "schema and back":
            self._try("ALTER TABLE customers SET SCHEMA elsewhere")
            self._try("UPDATE elsewhere.customers SET name = 'elsewhere' WHERE id < 4")
            self._try("ALTER TABLE elsewhere.customers SET SCHEMA public")
        return Altered(kind)

    def _partition(self) -> Altered:
        name = self._chance.choice([*_PARTITIONS])
        begin, end = _PARTITIONS[name]
        attach = f"ALTER TABLE orders ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
        kind = self._chance.choice(
            ["detach", "attach", "detach, change, attach", "truncate partition", "drop partition", "further partition"]
        )
        if kind == "detach":
            self._try(f"ALTER TABLE orders DETACH PARTITION {name}")
        if kind == "attach":
            for each, (a, b) in _PARTITIONS.items():
                self._try(f"ALTER TABLE orders ATTACH PARTITION {each} FOR VALUES FROM ({a}) TO ({b})")
        if kind == "detach, change, attach" and self._try(f"ALTER TABLE orders DETACH PARTITION {name}"):
            self._try(f"UPDATE {name} SET amount = amount + 1")
            self._try(f"DELETE FROM {name} WHERE id % 2 = 0")
            self._try(attach)
        if kind == "truncate partition":
            self._try(f"TRUNCATE {name}")
        if kind == "drop partition":
            self._try(f"DROP TABLE {name}", f"CREATE TABLE {name} PARTITION OF orders FOR VALUES FROM ({begin}) TO ({end})")
            self._try(f"INSERT INTO orders VALUES ({begin + 1}, 1, 1, 'sent', 'new')")
        if kind == "further partition":
            begin += 300
            self._try(f"CREATE TABLE {name}_more PARTITION OF orders FOR VALUES FROM ({begin}) TO ({begin + 100})")
            self._try(f"INSERT INTO orders VALUES ({begin + 1}, 1, 1, 'sent', {_LARGE})")
            self._try(f"UPDATE orders SET amount = 3 WHERE id = {begin + 1}")
        return Altered(f"{kind} {name}")

    def _publication(self) -> Altered:
        low = self._chance.randint(0, 150)
        kind = self._chance.choice(
            ["filter", "no filter", "filtered for a while", "out and in", "out", "made again", "publish for a while"]
        )
        change = ("UPDATE customers SET name = 'unseen' WHERE id < 6", "DELETE FROM orders WHERE id % 5 = 0")
        if kind == "filter" and self._try(f"ALTER PUBLICATION s SET TABLE orders WHERE (id > {low}), customers WHERE (id < 10)"):
            self._filters = {"orders": f"id > {low}", "customers": "id < 10"}
        if kind == "filtered for a while":
            self._try("ALTER PUBLICATION s SET TABLE orders WHERE (false), customers WHERE (false)")
        if kind in ("out and in", "out"):
            self._try("ALTER PUBLICATION s SET TABLE other")
        if kind == "made again":
            self._try("DROP PUBLICATION s")
        if kind == "publish for a while":
            self._try("ALTER PUBLICATION s SET (publish = 'insert')")
        for statement in change:
            self._try(statement)
        if kind == "publish for a while":
            self._try("ALTER PUBLICATION s SET (publish = 'insert, update, delete, truncate')")
        elif kind in ("no filter", "filtered for a while", "out and in", "made again"):
            self._filters = {}
            self._try(_PUBLICATION if kind == "made again" else _PUBLISH)
        if kind == "out":
            self._filters = {}
        return Altered(kind, [_PUBLISH])

    def _column(self) -> Altered:
        changed = "UPDATE customers SET score = score + 5 WHERE id < 7"
        widen = "ALTER TABLE customers ALTER COLUMN score TYPE bigint"
        rename, rename_back = (
            f"ALTER TABLE customers RENAME COLUMN {old} TO {new}" for old, new in (("name", "title"), ("title", "name"))
        )
        one: Sequence[tuple[str, list[str], list[str]]] = (
            ("add", ["ALTER TABLE customers ADD COLUMN IF NOT EXISTS more int DEFAULT 7", changed], []),
            ("drop another", ["ALTER TABLE customers DROP COLUMN IF EXISTS more", changed], []),
            ("rename", [rename, changed], [rename_back]),
            ("drop", ["ALTER TABLE customers DROP COLUMN bio", changed], ["ALTER TABLE customers ADD COLUMN bio text DEFAULT 'b'"]),
            (
                "rename the reference",
                ["ALTER TABLE orders RENAME COLUMN customer TO client", changed],
                ["ALTER TABLE orders RENAME COLUMN client TO customer"],
            ),
            (
                "rename and back",
                [rename, "UPDATE customers SET title = 'titled' WHERE id < 8", rename_back],
                [],
            ),
            (
                "trade names",
                [
                    "ALTER TABLE customers RENAME COLUMN name TO was",
                    "ALTER TABLE customers RENAME COLUMN bio TO name",
                    "ALTER TABLE customers RENAME COLUMN was TO bio",
                    changed,
                ],
                [],
            ),
            ("widen", [widen, "UPDATE customers SET score = score + 1"], []),
            ("beyond", [widen, "UPDATE customers SET score = 4000000000 WHERE id < 5"],
             ["UPDATE customers SET score = 1 WHERE score > 2000000000"]),
            ("narrow", ["ALTER TABLE customers ALTER COLUMN score TYPE int"], []),
            ("digits", ["ALTER TABLE orders ALTER COLUMN amount TYPE numeric(14,3) USING amount + 0.125"], []),
            ("labels", ["ALTER TYPE status RENAME VALUE 'paid' TO 'settled'"], ["ALTER TYPE status RENAME VALUE 'settled' TO 'paid'"]),
            ("key", ["ALTER TABLE customers DROP CONSTRAINT customers_pkey", "ALTER TABLE customers ADD PRIMARY KEY (id, score)"], []),
        )  # fmt: skip
        name, statements, undo = self._chance.choice(one)
        for statement in statements:
            self._try(statement)
        return Altered(name, undo)

    def _hold(self) -> Altered:
        kind = self._chance.choice(["open", "prepared", "end"])
        if kind == "end":
            self.let_go()
            return Altered(kind)
        connection = psycopg.connect(self.conninfo)
        connection.execute("INSERT INTO other VALUES (1)")
        if kind == "open":
            self._held.append(connection)
        else:
            connection.execute(f"PREPARE TRANSACTION 'p{self._prepared}'")
            connection.close()
            self._prepared += 1
        return Altered(kind)

    def _rewrite(self) -> Altered:
        kind = self._chance.choice(["in place", "vacuum", "truncate and fill", "multiplied"])
        if kind == "in place":
            self._try("ALTER TABLE customers ALTER COLUMN score TYPE int USING score + 1")
        if kind == "vacuum":
            run(self.conninfo, "VACUUM FULL customers")
        if kind == "truncate and fill":
            self._try("TRUNCATE customers", "INSERT INTO customers SELECT i, 'filled', 'b', i FROM generate_series(2, 9) i")
        if kind == "multiplied":
            self._try("ALTER TABLE orders ALTER COLUMN amount TYPE numeric(12,2) USING amount * 2")
        return Altered(kind)

    def _identity(self) -> Altered:
        table, kind = self._chance.choice(["orders", "customers", "p1"]), self._chance.choice(["FULL", "DEFAULT"])
        self._try(f"ALTER TABLE {table} REPLICA IDENTITY {kind}")
        self._try("UPDATE orders SET id = id + 1 WHERE id % 12 = 0 AND id BETWEEN 100 AND 198")
        return Altered(f"{table} {kind}")
