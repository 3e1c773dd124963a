"""A shop in a database with a slot: its tables, the options of a command that joins them, and transactions."""

import json
import random
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.postgres.slot_tables import run

SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric(12,2))",
    "INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(0, 49) i",
    "INSERT INTO orders SELECT i, i % 50, i * 1.25 FROM generate_series(1, 500) i",
)
JOINED = "SELECT o.id, o.customer, o.amount::text, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer"
COLUMNS = "left.id, left.customer, left.amount, right.name"


def shop(postgres: str, name: str) -> tuple[str, str]:
    """A shop of its own; what psycopg connects with, and an address with a slot."""
    run(postgres, f"CREATE DATABASE {name}")
    conninfo = postgres.replace("dbname=postgres", f"dbname={name}")
    run(conninfo, *SHOP)
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return conninfo, f"postgres://{parts['user']}:secret@{parts['host']}:{parts['port']}/{name}?slot={name}"


def join_options(address: str) -> list[str]:
    left, right = ["--left", address, "--left-table", "public.orders"], ["--right", address, "--right-table", "customers"]
    return ["join", *left, *right, "--foreign-key", "customer", "--how", "left", "--select", COLUMNS, "--latest", "now.jsonl"]


def joined() -> list[tuple[Any, ...]]:
    lines = Path("now.jsonl").read_text().splitlines()
    return sorted(tuple(json.loads(line, parse_float=str).values()) for line in lines)


def transact(connection: psycopg.Connection[Any], number: int) -> None:
    chance = random.Random(number)
    with connection.transaction():
        for _ in range(chance.randint(1, 4)):
            order, customer = chance.randint(1, 600), chance.randint(0, 60)
            statement = chance.choice(
                [
                    f"UPDATE orders SET amount = amount + 1, customer = {customer} WHERE id = {order}",
                    f"DELETE FROM orders WHERE id = {order}",
                    f"INSERT INTO orders VALUES ({order}, {customer}, 5) ON CONFLICT DO NOTHING",
                    f"UPDATE orders SET id = id + 700 WHERE id = {order} AND NOT EXISTS (SELECT FROM orders WHERE id = {order} + 700)",
                    f"UPDATE customers SET name = 'name {number}' WHERE id = {customer}",
                    f"DELETE FROM customers WHERE id = {customer}",
                    f"INSERT INTO customers VALUES ({customer}, 'new {number}') ON CONFLICT DO NOTHING",
                ]
            )
            connection.execute(statement)
    time.sleep(0.02)
