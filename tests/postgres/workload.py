"""Transactions of several connections on a shop, and what the database holds at some positions between them."""

import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

TABLES = """
    CREATE TABLE regions (id int PRIMARY KEY, region text);
    CREATE TABLE customers (id int PRIMARY KEY, name text, region_id int);
    CREATE TABLE products (id int PRIMARY KEY, title text, price numeric(10, 2));
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, product_id int, amount numeric(12, 2));
"""
WRITERS = 4
_LOCK = 7

CONTENT = {
    "inner": "SELECT o.id, o.amount, c.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
    "left": "SELECT o.id, o.amount, c.id, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer_id",
    "right": "SELECT o.id, o.amount, c.id, c.name FROM orders o RIGHT JOIN customers c ON c.id = o.customer_id",
    "outer": "SELECT o.id, o.amount, c.id, c.name FROM orders o FULL JOIN customers c ON c.id = o.customer_id",
    "semi": "SELECT id, amount FROM orders o WHERE EXISTS (SELECT FROM customers c WHERE c.id = o.customer_id)",
    "anti": "SELECT id, amount FROM orders o WHERE NOT EXISTS (SELECT FROM customers c WHERE c.id = o.customer_id)",
    "chain": """SELECT o.id, o.amount, c.name, r.region, p.title, p.price FROM orders o JOIN customers c ON c.id = o.customer_id
        JOIN regions r ON r.id = c.region_id LEFT JOIN products p ON p.id = o.product_id""",
    "sums": "SELECT customer_id, sum(amount) FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id",
}
"""What the pipelines compute, by name."""


class Seen(NamedTuple):
    """What a query saw at a position: the rows of each of CONTENT."""

    position: int
    rows: dict[str, list[tuple[Any, ...]]]


class Shop:
    """A database to which transactions are done, a slot open from before the first one."""

    def __init__(self, conninfo: str, *, seed: int, slots: Sequence[str] = ("one", "two")) -> None:
        self._conninfo = conninfo
        self._seed = seed
        with self._connection() as connection:
            connection.execute(TABLES)
            for slot in slots:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", [slot])

    def _connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conninfo, autocommit=True)

    def transact(self, transactions: int, *, looks: int) -> list[Seen]:
        """Do so many transactions, on several connections at once, and look so many times between them."""
        seen = []
        for look in range(looks):
            share = transactions // looks // WRITERS
            writers = [_Writer(self._connection(), random.Random(f"{self._seed} {look} {n}"), share) for n in range(WRITERS)]
            # the look is taken amid the transactions of this round, so it waits for those that are under way
            # and holds the others up
            halfway = threading.Barrier(WRITERS + 1, timeout=300)
            threads = [threading.Thread(target=writer.write, args=[halfway]) for writer in writers]
            for thread in threads:
                thread.start()
            with suppress(threading.BrokenBarrierError):  # a writer has failed
                halfway.wait()
            seen.append(self.look())
            for thread in threads:
                thread.join()
            if failures := [writer.failed for writer in writers if writer.failed is not None]:
                raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
        return [*seen, self.look()]

    def look(self) -> Seen:
        """What the database holds between two commits, and where in its log that is."""
        with self._connection() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (position,) = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone() or (0,)
            return Seen(int(position), {name: connection.execute(query).fetchall() for name, query in CONTENT.items()})

    def log(self, slot: str, *options: str) -> list[str]:
        """The lines that wal2json makes of all transactions."""
        query = "SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, {})".format(", ".join(["%s"] * len(options)))
        with self._connection() as connection:
            connection.execute("CHECKPOINT")  # only what has been flushed is decoded
            return [data for (data,) in connection.execute(query, [slot, *options]).fetchall()]  # type: ignore[arg-type]


class _Writer:
    def __init__(self, connection: psycopg.Connection[Any], chance: random.Random, transactions: int) -> None:
        self._connection = connection
        self._chance = chance
        self._transactions = transactions
        self.failed: BaseException | None = None

    def write(self, halfway: threading.Barrier) -> None:
        try:
            for n in range(self._transactions):
                if n == self._transactions // 2:
                    halfway.wait()
                try:
                    self._connection.execute(self._transaction())
                except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                    self._connection.execute("ROLLBACK")
        except BaseException as error:
            self.failed = error
            halfway.abort()
        finally:
            self._connection.close()

    def _transaction(self) -> str:
        chance = self._chance
        statements = [self._statement() for _ in range(chance.choice([1, 1, 2, 3, 6]))]
        if chance.random() < 0.2:  # many changes of one row
            order = chance.randrange(ORDERS)
            statements += [
                f"UPDATE orders SET amount = amount + {n}.25, customer_id = {chance.randrange(CUSTOMERS)} WHERE id = {order}"
                for n in range(4)
            ]
        if chance.random() < 0.05:
            at = chance.randrange(len(statements) + 1)
            statements[at:at] = ["SAVEPOINT s", self._statement(), "ROLLBACK TO s"]
        end = "ROLLBACK" if chance.random() < 0.05 else "COMMIT"
        return "; ".join(["BEGIN", f"SELECT pg_advisory_xact_lock_shared({_LOCK})", *statements, end])

    def _statement(self) -> str:
        chance = self._chance
        table = chance.choices(["orders", "customers", "products", "regions"], [12, 5, 2, 1])[0]
        rows = {"orders": ORDERS, "customers": CUSTOMERS, "products": 40, "regions": 8}[table]
        row, what = chance.randrange(rows), chance.random()
        if what < 0.12:
            return f"DELETE FROM {table} WHERE id = {row}"
        if what < 0.2:  # another primary key
            other = chance.randrange(rows)
            return f"UPDATE {table} SET id = {other} WHERE id = {row} AND NOT EXISTS (SELECT FROM {table} WHERE id = {other})"
        values = self._values(table)
        if what < 0.6:
            return f"UPDATE {table} SET {', '.join(f'{name} = {value}' for name, value in values.items())} WHERE id = {row}"
        columns = ", ".join(["id", *values])
        kept = ", ".join(f"{name} = excluded.{name}" for name in values)
        return (
            f"INSERT INTO {table} ({columns}) VALUES ({', '.join([str(row), *values.values()])}) ON CONFLICT (id) DO UPDATE SET {kept}"
        )

    def _values(self, table: str) -> dict[str, str]:
        chance = self._chance
        text = "'" + f"{chance.choice(NAMES)} {chance.randrange(100)}".replace("'", "''") + "'"
        if table == "orders":
            customer = "NULL" if chance.random() < 0.05 else str(chance.randrange(CUSTOMERS))
            return {"customer_id": customer, "product_id": str(chance.randrange(50)), "amount": f"{chance.randrange(10**6) / 100:.2f}"}
        if table == "customers":
            return {"name": text, "region_id": str(chance.randrange(10))}
        if table == "products":
            return {"title": text, "price": f"{chance.randrange(10**4) / 100:.2f}"}
        return {"region": text}


ORDERS, CUSTOMERS = 2_000, 150
NAMES = ["Ann", "Zoë", "O'Neil", "tab\there", 'says "hi" \\ back']
