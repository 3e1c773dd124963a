"""A shop whose tables, partitions, publication and server somebody alters; each change is drawn by chance."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from tests.postgres.alterations import BEHIND, DRAWS, LARGE, OF_TARGET, PARTITIONS, Draw, Statement
from tests.postgres.server import server
from tests.postgres.slot_tables import asked, run

_TYPES: Final = (
    "CREATE TYPE status AS ENUM ('open', 'paid', 'sent')",
    "CREATE TYPE place AS (street text, town text)",
    "CREATE DOMAIN points AS int",
)
_CODE: Final = "code int NOT NULL DEFAULT nextval('codes')"
_PEOPLE: Final = f"(id int, name text, bio text, score int, home place, {_CODE})"
_ORDERS: Final = f"(id int, customer int, amount numeric(12,2), status status, note text, {_CODE}, PRIMARY KEY (id))"
_ROOT: Final = "PARTITION BY RANGE (id)"
_WHOLE: Final = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
_PUBLISHED: Final = {
    "tables": "TABLE orders, customers",
    "tables and others": "TABLE orders, customers, people, archive, other",
    "schema": "TABLES IN SCHEMA public",
    "all": "ALL TABLES",
}
SELECT: Final = "left.id, left.customer, left.amount, left.status, left.note, right.name, right.bio, right.score, right.home"
WHOLE: Final = "SELECT id, customer, amount, status::text, md5(note), name, md5(bio), score, home::text"


class Altered(NamedTuple):
    """What was done: its name, and the statements that undo it, if it may be refused."""

    name: str
    undo: Sequence[Statement] = ()


class AlteredShop:
    """A database `shop` on a server of its own; ``conninfo`` is the same after it has moved to another server."""

    def __init__(self, bin_: Path, chance: random.Random) -> None:
        self._bin, self.chance = bin_, chance
        self._server: AbstractContextManager[str] | None = None
        self.conninfo = ""
        self._held: list[psycopg.Connection[Any]] = []
        self._prepared = 0
        self._published = ""
        self._draws: Mapping[str, Sequence[Draw]] = DRAWS

    def has_target(self) -> None:
        """Alter the table that the results are merged into, too."""
        self._draws = {**DRAWS, **OF_TARGET}

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

    @property
    def customers(self) -> str:
        """The statement that makes the table of customers, whose ids are unique also while they are not its key."""
        return f"CREATE TABLE customers {_PEOPLE[:-1]}, PRIMARY KEY (id), UNIQUE (code), EXCLUDE (id WITH =))"

    @property
    def publication(self) -> str:
        """The statement that makes the publication."""
        return f"CREATE PUBLICATION s FOR {_PUBLISHED[self._published]} WITH ({_WHOLE})"

    @property
    def publish(self) -> str:
        """The statement that publishes the tables as the publication was made."""
        return f"ALTER PUBLICATION s SET {f'({_WHOLE})' if self._published == 'all' else _PUBLISHED[self._published]}"

    def build(self) -> None:
        """Make everything anew, but for the slot."""
        self.let_go()
        self._published = self.chance.choice([*_PUBLISHED])
        ranges = {**PARTITIONS, "parted": BEHIND, "parted0": (BEHIND[0], BEHIND[0] + 100)}
        run(
            self.conninfo,
            "DROP PUBLICATION IF EXISTS s",
            "DROP SCHEMA IF EXISTS elsewhere CASCADE",
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            "CREATE SCHEMA elsewhere",
            "CREATE SEQUENCE codes",
            *_TYPES,
            "CREATE TABLE other (id int PRIMARY KEY)",
            self.customers,
            f"CREATE TABLE people {_PEOPLE[:-1]}, PRIMARY KEY (id)) {_ROOT}",
            *(f"CREATE TABLE {root} {_ORDERS} {_ROOT}" for root in ("orders", "archive")),
            *(
                f"CREATE TABLE {name} PARTITION OF {'parted' if name == 'parted0' else 'orders'} FOR VALUES FROM ({a}) TO ({b})"
                f"{f' {_ROOT}' if name == 'parted' else ''}"
                for name, (a, b) in ranges.items()
            ),
            *(f"CREATE UNIQUE INDEX {name}_code ON {name} (code)" for name in ranges if name != "parted"),
            f"INSERT INTO customers SELECT i, 'customer ' || i, {LARGE}, i, ROW('street ' || i, 'town'::text)::place "
            "FROM generate_series(1, 12) i",
            f"INSERT INTO orders SELECT 16 * i, i % 14, i * 1.25, 'open', {LARGE} FROM generate_series(1, 24) i",
            self.publication,
        )

    def hold(self) -> None:
        """Leave a transaction open."""
        connection = psycopg.connect(self.conninfo)
        connection.execute("CREATE TEMPORARY TABLE mine ON COMMIT DROP AS SELECT txid_current()")
        self._held.append(connection)

    def prepare(self) -> None:
        """Leave a transaction prepared."""
        with psycopg.connect(self.conninfo) as connection:
            connection.execute("SELECT txid_current()")
            connection.execute(f"PREPARE TRANSACTION 'p{self._prepared}'")
        self._prepared += 1

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
        orders, customers = (f"(SELECT * FROM {self._rows_of(table)})" for table in ("orders", "customers"))
        return asked(self.conninfo, f"{WHOLE.replace(' id', ' o.id', 1)} FROM {orders} o LEFT JOIN {customers} c ON c.id = o.customer")

    def texts(self, table: str) -> list[dict[str, str | None]]:
        """The rows of a table that are published, as texts."""
        names = f"SELECT attnum, attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        columns = [name for _, name in asked(self.conninfo, names)]
        rows = asked(self.conninfo, f"SELECT {', '.join(f'{name}::text' for name in columns)} FROM {self._rows_of(table)}")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _rows_of(self, table: str) -> str:
        filters = "SELECT tablename, to_jsonb(p) ->> 'rowfilter' FROM pg_publication_tables p WHERE pubname = 's'"
        rows = dict(asked(self.conninfo, f"{filters} AND schemaname = 'public'"))
        only = "ONLY " if table == "customers" else ""  # its children are others' tables
        return f"{only}{table} WHERE {rows.get(table) or 'true'}"

    def undo(self, done: Sequence[Altered]) -> bool:
        """Undo what was done; whether there was something to undo."""
        statements = [statement for each in reversed(done) for statement in each.undo]
        self._do(statements)
        return bool(statements)

    def alter(self) -> Altered:
        """One of the alterations, which stays or not."""
        alteration = self.chance.choice(self._draws[self.chance.choice([*self._draws])])(self)
        name, there, between, back = alteration
        way = self.chance.choice(["stays", "for a while", "and back", "in one transaction"]) if back else "stays"
        if way == "in one transaction":
            self._do([_in_one([*there, *between, *back])])
            return Altered(f"{name} {way}")
        self._do(there)
        if way != "and back":
            self._do(between)
        if way == "stays":
            return Altered(name, back)
        if way == "for a while":
            self.change_rows()
        self._do(back)
        return Altered(f"{name} {way}")

    def change_rows(self) -> Altered:
        """A few transactions that change rows."""
        for _ in range(self.chance.randint(1, 4)):
            order, customer, number = self.chance.randint(0, 499), self.chance.randint(1, 14), self.chance.randint(1, 99)
            statement = self.chance.choice(
                [
                    f"UPDATE orders SET amount = {number}, customer = {customer} WHERE id % 9 = {order % 9}",
                    f"UPDATE orders SET note = {LARGE}, status = 'paid' WHERE id = (SELECT min(id) FROM orders WHERE id > {order})",
                    f"DELETE FROM orders WHERE id = (SELECT max(id) FROM orders WHERE id < {order})",
                    f"INSERT INTO orders VALUES ({order}, {customer}, {number}, 'open', {LARGE}) ON CONFLICT DO NOTHING",
                    f"UPDATE orders SET id = {order} WHERE id = (SELECT min(id) FROM orders WHERE id >= {order - 20}) "
                    f"AND NOT EXISTS (SELECT FROM orders WHERE id = {order})",
                    f"UPDATE customers SET name = 'name {number}' WHERE id = {customer}",
                    f"UPDATE customers SET id = {customer} WHERE id = {customer + 1} "
                    f"AND NOT EXISTS (SELECT FROM customers WHERE id = {customer})",
                    f"DELETE FROM customers WHERE id = {customer}",
                    f"INSERT INTO customers (id, name, bio, score) VALUES ({customer}, 'new', {LARGE}, {number}) "
                    "ON CONFLICT DO NOTHING",
                    "TRUNCATE customers" if number < 5 else "UPDATE customers SET score = score + 1",
                ]
            )
            self._do([statement])
        return Altered("rows")

    def change_all_rows(self) -> None:
        """Change a column of all rows."""
        self._do(["UPDATE orders SET amount = amount + 1", "UPDATE customers SET score = score + 1"])

    def _do(self, statements: Sequence[Statement]) -> None:
        """Run statements; those that the server refuses, which depends on what was done before, are passed over."""
        for statement in statements:
            try:
                with psycopg.connect(self.conninfo, autocommit=isinstance(statement, str)) as connection:
                    for each in _in_one([statement]):
                        connection.execute(each)
            except psycopg.Error:
                pass


def _in_one(statements: Sequence[Statement]) -> tuple[str, ...]:
    return tuple(each for statement in statements for each in ((statement,) if isinstance(statement, str) else statement))
