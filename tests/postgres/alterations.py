"""The alterations of a shop's database that are drawn by chance: a table of small functions.

A draw is a function of the shop that returns an :class:`Alteration`: its name, the statements that make it, statements that
change rows while it lasts, and those that undo it. :meth:`~tests.postgres.altered_shop.AlteredShop.alter` lets it stay or undoes
it at once, behind further changes of rows, or within one transaction, so that a draw need not do so itself. A statement that the
server refuses is passed over, as another draw may have made it impossible: a draw need not know what was done before it.
A draw that cannot be told by statements does its work itself and returns its name alone. To add one, write the function and its
line in :data:`DRAWS`; a group of draws is as likely as each other group.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tests.postgres.altered_shop import AlteredShop

Statement: TypeAlias = str | tuple[str, ...]
"""A statement, or several in one transaction."""
LARGE: Final = "(SELECT string_agg(md5(i::text || random()::text), '') FROM generate_series(1, 100) i)"
PARTITIONS: Final = {f"p{n}": (100 * n, 100 * n + 100) for n in range(3)}
BEHIND: Final = (300, 500)
"""The range of the partition `parted`, which has partitions itself."""


class Alteration(NamedTuple):
    """``there`` makes the alteration, ``between`` changes rows while it lasts, and ``back`` undoes it; without ``back`` it
    cannot be undone.
    """

    name: str
    there: Sequence[Statement] = ()
    between: Sequence[Statement] = ()
    back: Sequence[Statement] = ()


Draw: TypeAlias = "Callable[[AlteredShop], Alteration]"


# tables


def swapped(shop: "AlteredShop") -> Alteration:
    away = ("ALTER TABLE customers RENAME TO old_customers", "ALTER TABLE spare_customers RENAME TO customers")
    back = ("ALTER TABLE customers RENAME TO spare_customers", "ALTER TABLE old_customers RENAME TO customers")
    return Alteration(
        "swapped",
        [
            "DROP TABLE IF EXISTS old_customers",
            "DROP TABLE IF EXISTS spare_customers",
            "CREATE TABLE spare_customers (LIKE customers INCLUDING ALL)",
            "INSERT INTO spare_customers SELECT * FROM customers WHERE id > 3",
            (*away, shop.publish) if shop.chance.random() < 0.5 else away,
        ],
        ["UPDATE customers SET name = 'in between'", "UPDATE old_customers SET name = 'meanwhile' WHERE id < 5"],
        [back, shop.publish],
    )


def made_anew(shop: "AlteredShop") -> Alteration:
    filled = "INSERT INTO customers (id, name, bio, score) SELECT i, 'made again', '', i FROM generate_series(3, 6) i"
    return Alteration("made anew", [("DROP TABLE customers", shop.customers, filled, shop.publish)])


def in_another_schema(shop: "AlteredShop") -> Alteration:
    return Alteration(
        "in another schema",
        ["ALTER TABLE customers SET SCHEMA elsewhere"],
        ["UPDATE elsewhere.customers SET name = 'elsewhere' WHERE id < 4"],
        ["ALTER TABLE elsewhere.customers SET SCHEMA public"],
    )


def part_of_another_table(shop: "AlteredShop") -> Alteration:
    table, root, change = shop.chance.choice(
        [
            ("customers", "people", "UPDATE people SET name = 'a person' WHERE id < 6"),
            ("orders", "archive", "UPDATE archive SET amount = 17 WHERE id % 7 = 0"),
        ]
    )
    return Alteration(
        f"{table} part of {root}",
        [f"ALTER TABLE {root} ATTACH PARTITION {table} FOR VALUES FROM (-1000) TO (100000)"],
        [change, f"DELETE FROM {table} WHERE id % 8 = 3"],
        [f"ALTER TABLE {root} DETACH PARTITION {table}"],
    )


def inherited(shop: "AlteredShop") -> Alteration:
    return Alteration(
        "inherited",
        ["CREATE TABLE customers_more () INHERITS (customers)"],
        ["INSERT INTO customers_more (id, name) VALUES (3, 'of the child')", "UPDATE customers SET name = 'of both' WHERE id < 5"],
        ["DROP TABLE customers_more"],
    )


# partitions


def _attached(name: str, begin: int, end: int, root: str = "orders") -> str:
    return f"ALTER TABLE {root} ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"


def _born(name: str, begin: int, end: int, root: str = "orders") -> str:
    return f"CREATE TABLE {name} PARTITION OF {root} FOR VALUES FROM ({begin}) TO ({end})"


def _inserted(number: int, into: str = "orders") -> str:
    return f"INSERT INTO {into} (id, customer, amount, status, note) VALUES ({number}, 1, 1, 'sent', {LARGE}) ON CONFLICT DO NOTHING"


def detached(shop: "AlteredShop") -> Alteration:
    name = shop.chance.choice([*PARTITIONS])
    return Alteration(
        f"{name} detached",
        [f"ALTER TABLE orders DETACH PARTITION {name}"],
        [f"UPDATE {name} SET amount = amount + 1", f"DELETE FROM {name} WHERE id % 2 = 0"],
        [_attached(name, *PARTITIONS[name])],
    )


def detached_with_its_partitions(shop: "AlteredShop") -> Alteration:
    return Alteration(
        "parted detached",
        ["ALTER TABLE orders DETACH PARTITION parted"],
        ["UPDATE parted SET amount = amount + 1", "DELETE FROM parted WHERE id % 2 = 0"],
        [_attached("parted", *BEHIND)],
    )


def attached_again(shop: "AlteredShop") -> Alteration:
    return Alteration("attached again", [_attached(each, *PARTITIONS[each]) for each in PARTITIONS])


def truncated_by_its_name(shop: "AlteredShop") -> Alteration:
    return Alteration("truncated by its name", [f"TRUNCATE {shop.chance.choice([*PARTITIONS, 'parted', 'parted0'])}"])


def dropped_and_made_again(shop: "AlteredShop") -> Alteration:
    name = shop.chance.choice([*PARTITIONS])
    begin, end = PARTITIONS[name]
    return Alteration(f"{name} dropped and made again", [(f"DROP TABLE {name}", _born(name, begin, end)), _inserted(begin + 1)])


def _further(shop: "AlteredShop") -> tuple[str, int, int, str]:
    """A name, a range and a parent of a partition that is not there yet, unless an earlier draw has made it."""
    number = shop.chance.randint(5, 9)
    return shop.chance.choice([(f"p{number}", 100 * number, 100 * number + 100, "orders"), ("parted1", 400, 500, "parted")])


def further(shop: "AlteredShop") -> Alteration:
    name, begin, end, root = _further(shop)
    born, filled = _born(name, begin, end, root), _inserted(begin + 1)
    return Alteration(
        f"{name} made",
        [(born, filled)] if shop.chance.random() < 0.3 else [born, filled],
        [f"UPDATE orders SET amount = 3 WHERE id = {begin + 1}", _inserted(begin + 2)],
        [f"DROP TABLE {name}"],
    )


def further_truncated(shop: "AlteredShop") -> Alteration:
    name, begin, end, root = _further(shop)
    made = _born(name, begin, end, root), _inserted(begin + 1), f"TRUNCATE {name}", _inserted(begin + 2)
    one = shop.chance.random() < 0.5
    return Alteration(f"{name} made and truncated", [made] if one else made, [_inserted(begin + 3)], [f"DROP TABLE {name}"])


def further_attached(shop: "AlteredShop") -> Alteration:
    name, begin, end, root = _further(shop)
    made = f"CREATE TABLE {name} (LIKE orders INCLUDING ALL)", _inserted(begin + 1, name), _attached(name, begin, end, root)
    one = shop.chance.random() < 0.5
    return Alteration(
        f"{name} filled and attached",
        [made] if one else made,
        [f"UPDATE orders SET amount = 3 WHERE id = {begin + 1}", _inserted(begin + 2)],
        [f"ALTER TABLE {root} DETACH PARTITION {name}", f"DROP TABLE {name}"],
    )


def further_detached_for_a_while(shop: "AlteredShop") -> Alteration:
    name, begin, end, root = _further(shop)
    return Alteration(
        f"{name} made and detached for a while",
        [_born(name, begin, end, root), _inserted(begin + 1), _inserted(begin + 2), f"ALTER TABLE {root} DETACH PARTITION {name}"],
        [f"UPDATE {name} SET amount = 8 WHERE id = {begin + 1}", f"DELETE FROM {name} WHERE id = {begin + 2}"],
        [_attached(name, begin, end, root)],
    )


def of_the_rest(shop: "AlteredShop") -> Alteration:
    return Alteration(
        "rest made",
        ["CREATE TABLE rest PARTITION OF orders DEFAULT", _inserted(2000)],
        ["UPDATE orders SET id = 2001, amount = 5 WHERE id = 2000", "UPDATE orders SET id = 2002 WHERE id = 12"],
        ["UPDATE orders SET id = 12 WHERE id = 2002", "DROP TABLE rest"],
    )


def of_another_table(shop: "AlteredShop") -> Alteration:
    name = shop.chance.choice([*PARTITIONS])
    there = [f"ALTER TABLE orders DETACH PARTITION {name}", _attached(name, *PARTITIONS[name], "archive")]
    return Alteration(
        f"{name} part of archive",
        there,
        [f"UPDATE archive SET amount = 23 WHERE id % 6 = 0 AND id >= {PARTITIONS[name][0]}", f"DELETE FROM {name} WHERE id % 11 = 0"],
        [f"ALTER TABLE archive DETACH PARTITION {name}", _attached(name, *PARTITIONS[name])],
    )


# the publication

_CHANGES: Final = ("UPDATE customers SET name = 'unseen' WHERE id < 6", "DELETE FROM orders WHERE id % 5 = 0")


def filtered(shop: "AlteredShop") -> Alteration:
    rows = shop.chance.choice(["false", f"id > {shop.chance.randint(0, 150)}"])
    filter_ = f"ALTER PUBLICATION s SET TABLE orders WHERE ({rows}), customers WHERE (id < 10)"
    return Alteration("filtered", [filter_], _CHANGES, [shop.publish])


def unfiltered_by_a_schema(shop: "AlteredShop") -> Alteration:
    add, drop = (f"ALTER PUBLICATION s {each} TABLES IN SCHEMA public" for each in ("ADD", "DROP"))
    return Alteration("unfiltered by a schema", [add], _CHANGES, [drop])


def out(shop: "AlteredShop") -> Alteration:
    return Alteration("out of the publication", ["ALTER PUBLICATION s SET TABLE other"], _CHANGES, [shop.publish])


def without_publication(shop: "AlteredShop") -> Alteration:
    return Alteration("without a publication", ["DROP PUBLICATION s"], _CHANGES, [shop.publication])


def published_in_part(shop: "AlteredShop") -> Alteration:
    whole = "ALTER PUBLICATION s SET (publish = 'insert, update, delete, truncate')"
    return Alteration("inserts alone are published", ["ALTER PUBLICATION s SET (publish = 'insert')"], _CHANGES, [whole])


def published_by_partitions(shop: "AlteredShop") -> Alteration:
    by_root, by_leaf = (f"ALTER PUBLICATION s SET (publish_via_partition_root = {each})" for each in ("true", "false"))
    return Alteration("published by partitions", [by_leaf], _CHANGES, [by_root])


# columns and types

_CHANGED: Final = "UPDATE customers SET score = score + 5 WHERE id < 7"


def column_more(shop: "AlteredShop") -> Alteration:
    add, drop = "ALTER TABLE customers ADD COLUMN more int DEFAULT 7", "ALTER TABLE customers DROP COLUMN more"
    return Alteration("column more", [add], [_CHANGED], [drop])


def column_less(shop: "AlteredShop") -> Alteration:
    add, drop = "ALTER TABLE customers ADD COLUMN bio text DEFAULT 'b'", "ALTER TABLE customers DROP COLUMN bio"
    return Alteration("column less", [drop], [_CHANGED], [add])


def column_renamed(shop: "AlteredShop") -> Alteration:
    table, name, other = shop.chance.choice([("customers", "name", "title"), ("orders", "customer", "client")])
    there, back = (f"ALTER TABLE {table} RENAME COLUMN {a} TO {b}" for a, b in ((name, other), (other, name)))
    return Alteration(f"{name} renamed", [there], [_CHANGED, "UPDATE customers SET title = 'titled' WHERE id < 8"], [back])


def columns_trade_names(shop: "AlteredShop") -> Alteration:
    traded = tuple(f"ALTER TABLE customers RENAME COLUMN {a} TO {b}" for a, b in (("name", "was"), ("bio", "name"), ("was", "bio")))
    return Alteration("columns trade names", [traded], [_CHANGED], [traded])


def widened(shop: "AlteredShop") -> Alteration:
    widen, narrow = (f"ALTER TABLE customers ALTER COLUMN score TYPE {each}" for each in ("bigint", "int"))
    beyond = "UPDATE customers SET score = 4000000000 WHERE id < 5"
    back = "UPDATE customers SET score = 1 WHERE score > 2000000000"
    return Alteration("widened", [widen], [beyond if shop.chance.random() < 0.5 else _CHANGED], [back, narrow])


def more_digits(shop: "AlteredShop") -> Alteration:
    alter = "ALTER TABLE orders ALTER COLUMN amount TYPE"
    return Alteration("more digits", [f"{alter} numeric(14,3) USING amount + 0.125"], [], [f"{alter} numeric(12,2)"])


_TYPES: Final = [
    ("customers", "score", "int", ["bigint", "smallint", "numeric(8,3)", "real", "double precision", "points"], "score"),
    ("customers", "score", "int", ["boolean"], "score::int"),
    ("customers", "score", "int", ["int[]"], "score[1]"),
    ("customers", "name", "text", ["varchar(30)", "char(40)", "name"], "rtrim(name)"),
    ("customers", "home", "place", ["text"], "home::place"),
    ("customers", "id", "int", ["bigint", "smallint"], "id"),
    ("orders", "amount", "numeric(12,2)", ["numeric(14,4)", "numeric", "numeric(12,0)", "double precision", "int"], "amount"),
    ("orders", "status", "status", ["text", "varchar(8)"], "status::text::status"),
    ("orders", "customer", "int", ["bigint", "numeric", "numeric(8,2)"], "customer"),
]
"""Tables, columns, their types, others that they get for a while, and how they get their own again."""
_USING: Final = {"boolean": "score > 5", "int[]": "ARRAY[score, 1]"}


def another_type(shop: "AlteredShop") -> Alteration:
    table, column, kind, others, again = shop.chance.choice(_TYPES)
    other = shop.chance.choice(others)
    alter = f"ALTER TABLE {table} ALTER COLUMN {column} TYPE"
    return Alteration(
        f"{column} is {other}",
        [f"{alter} {other} USING {_USING.get(other) or f'{column}::{other}'}"],
        [_CHANGED, "UPDATE orders SET amount = 7.5 WHERE id % 13 = 0"],
        [f"{alter} {kind} USING {again}"],
    )


def label_renamed(shop: "AlteredShop") -> Alteration:
    there, back = (f"ALTER TYPE status RENAME VALUE {each}" for each in ("'paid' TO 'settled'", "'settled' TO 'paid'"))
    return Alteration("label renamed", [there], ["UPDATE orders SET status = 'settled' WHERE id % 4 = 0"], [back])


def attribute_renamed(shop: "AlteredShop") -> Alteration:
    there, back = (f"ALTER TYPE place RENAME ATTRIBUTE {each} CASCADE" for each in ("street TO road", "road TO street"))
    return Alteration("attribute renamed", [there], ["UPDATE customers SET home.town = 'renamed' WHERE id < 5"], [back])


def attribute_less(shop: "AlteredShop") -> Alteration:
    there, back = (f"ALTER TYPE place {each} CASCADE" for each in ("DROP ATTRIBUTE town", "ADD ATTRIBUTE town text"))
    return Alteration("attribute less", [there], ["UPDATE customers SET home.street = 'alone' WHERE id < 5"], [back])


# identities and keys


def identity(shop: "AlteredShop") -> Alteration:
    table = shop.chance.choice(["orders", "customers", "p0", "p1", "parted0"])
    index = {"orders": "orders_pkey", "customers": "customers_code_key"}.get(table, f"{table}_code")
    kind = shop.chance.choice(["FULL", "NOTHING", f"USING INDEX {index}"])
    return Alteration(
        f"{table} {kind}",
        [f"ALTER TABLE {table} REPLICA IDENTITY {kind}"],
        [
            "UPDATE orders SET id = id + 1 WHERE id % 12 = 0 AND id % 100 < 98",
            "UPDATE customers SET id = id + 20 WHERE id = 3",
            f"DELETE FROM {shop.chance.choice(['orders', 'customers'])} WHERE id % 7 = 1",
            "UPDATE customers SET id = id - 20, name = 'back' WHERE id = 23",
        ],
        [f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT"],
    )


def another_primary_key(shop: "AlteredShop") -> Alteration:
    columns = shop.chance.choice(["code", "id, score", "id, code"])
    there, back = (f"ADD PRIMARY KEY ({each})" for each in (columns, "id"))
    drop = "ALTER TABLE customers DROP CONSTRAINT customers_pkey,"
    return Alteration(
        f"primary key {columns}",
        [f"{drop} {there}"],
        ["UPDATE customers SET id = id + 30 WHERE id = 4", "DELETE FROM customers WHERE id = 5"],
        [f"{drop} {back}"],
    )


# files, and transactions that stay open


def rewritten(shop: "AlteredShop") -> Alteration:
    statement = shop.chance.choice(
        [
            "ALTER TABLE customers ALTER COLUMN score TYPE int USING score + 1",
            "ALTER TABLE orders ALTER COLUMN amount TYPE numeric(12,2) USING amount * 2",
            f"VACUUM FULL {shop.chance.choice(['customers', 'p1'])}",
        ]
    )
    return Alteration("rewritten", [statement])


def truncated_and_filled(shop: "AlteredShop") -> Alteration:
    filled = "INSERT INTO customers (id, name, bio, score) SELECT i, 'filled', 'b', i FROM generate_series(2, 9) i"
    return Alteration("truncated and filled", [("TRUNCATE customers", filled)])


def held_open(shop: "AlteredShop") -> Alteration:
    shop.hold()
    return Alteration("held open")


def prepared(shop: "AlteredShop") -> Alteration:
    shop.prepare()
    return Alteration("prepared")


def let_go(shop: "AlteredShop") -> Alteration:
    shop.let_go()
    return Alteration("let go")


# the table that the results are merged into

_NEXT: Final = "UPDATE orders SET amount = amount + 0.25 WHERE id % 3 = 1"
"""Changes rows, so that something is merged."""
_CHANGES_ROWS: Final = {
    "amounts": "BEFORE INSERT OR UPDATE: NEW.amount := NEW.amount + 1; RETURN NEW;",
    "a few names": "BEFORE INSERT OR UPDATE: IF NEW.id % 32 = 0 THEN NEW.name := 'changed'; END IF; RETURN NEW;",
    "which rows are kept": "BEFORE INSERT OR UPDATE: RETURN CASE NEW.id % 5 WHEN 0 THEN NULL ELSE NEW END;",
    "rows later": "AFTER INSERT OR UPDATE: DELETE FROM enriched WHERE id = NEW.id; RETURN NEW;",
    "nothing": "BEFORE INSERT OR UPDATE: RETURN NEW;",
}
"""What triggers change, with the time at which they fire and what they do."""


def _of_target(name: str, there: Statement, back: Statement | None = None) -> Alteration:
    return Alteration(f"target {name}", [there], [_NEXT], () if back is None else [back])


def target_copied(shop: "AlteredShop") -> Alteration:
    return _of_target("copied", ("DROP TABLE IF EXISTS kept_enriched", "CREATE TABLE kept_enriched AS TABLE enriched"))


def target_restored(shop: "AlteredShop") -> Alteration:
    return _of_target(
        "restored",
        (
            "DROP TABLE IF EXISTS late_enriched",
            "CREATE TABLE late_enriched AS TABLE enriched",
            "TRUNCATE enriched",
            "INSERT INTO enriched TABLE kept_enriched",
        ),
        ("TRUNCATE enriched", "INSERT INTO enriched TABLE late_enriched"),
    )


def target_emptied(shop: "AlteredShop") -> Alteration:
    statement = shop.chance.choice(["TRUNCATE enriched", "DELETE FROM enriched", "DELETE FROM enriched WHERE NOT deleted"])
    return _of_target("emptied", statement)


def target_dropped(shop: "AlteredShop") -> Alteration:
    again = ("CREATE TABLE next_enriched (LIKE enriched INCLUDING ALL)", "DROP TABLE enriched CASCADE")
    statements = *again, "ALTER TABLE next_enriched RENAME TO enriched"
    return _of_target("dropped", statements if shop.chance.random() < 0.5 else "DROP TABLE enriched CASCADE")


def target_swapped(shop: "AlteredShop") -> Alteration:
    copied = ("INSERT INTO next_enriched TABLE enriched",) if shop.chance.random() < 0.5 else ()
    return _of_target(
        "swapped",
        (
            "CREATE TABLE next_enriched (LIKE enriched INCLUDING ALL)",
            *copied,
            "DROP VIEW enriched_live",
            "ALTER TABLE enriched RENAME TO was_enriched",
            "ALTER TABLE next_enriched RENAME TO enriched",
        ),
        ("DROP TABLE enriched CASCADE", "ALTER TABLE was_enriched RENAME TO enriched"),
    )


def target_rows_changed(shop: "AlteredShop") -> Alteration:
    there, back = (f"UPDATE enriched SET amount = amount {sign} 1" for sign in "+-")
    return _of_target("rows changed", there, back)


def target_of_other_types(shop: "AlteredShop") -> Alteration:
    column, kind, others = shop.chance.choice(
        [
            ("amount", "numeric(12,2)", ["numeric(8,1)", "numeric(20,4)", "double precision", "int"]),
            ("score", "int", ["bigint", "smallint", "double precision"]),
            ("name", "text", ["varchar(5)", "varchar(200)", "char(6)"]),
            ("id", "int", ["bigint", "smallint", "numeric"]),
        ]
    )
    there, back = (
        ("DROP VIEW IF EXISTS enriched_live", f"ALTER TABLE enriched ALTER COLUMN {column} TYPE {each}")
        for each in (shop.chance.choice(others), kind)
    )
    return _of_target(f"of another type: {there[1].rpartition('COLUMN ')[2]}", there, back)


def target_of_other_columns(shop: "AlteredShop") -> Alteration:
    there, back = shop.chance.choice(
        [
            ("RENAME COLUMN name TO title", "RENAME COLUMN title TO name"),
            ("ADD COLUMN mine int DEFAULT 3", "DROP COLUMN mine"),
            ("ADD COLUMN mine int NOT NULL DEFAULT 3, ALTER COLUMN mine DROP DEFAULT", "DROP COLUMN mine"),
            ("DROP COLUMN amount CASCADE", "ADD COLUMN amount numeric(12,2)"),
            ("DROP COLUMN deleted CASCADE", "ADD COLUMN deleted boolean NOT NULL DEFAULT false"),
        ]
    )
    return _of_target(there, f"ALTER TABLE enriched {there}", f"ALTER TABLE enriched {back}")


def target_constrained(shop: "AlteredShop") -> Alteration:
    there, back = shop.chance.choice(
        [
            ("ALTER TABLE enriched ADD CONSTRAINT mine CHECK (amount < 50) NOT VALID", "ALTER TABLE enriched DROP CONSTRAINT mine"),
            ("ALTER TABLE enriched ALTER COLUMN amount SET NOT NULL", "ALTER TABLE enriched ALTER COLUMN amount DROP NOT NULL"),
            ("CREATE UNIQUE INDEX mine ON enriched (customer)", "DROP INDEX mine"),
            ("CREATE UNIQUE INDEX mine ON enriched (id, customer)", "DROP INDEX mine"),
            ("CREATE RULE mine AS ON UPDATE TO enriched DO INSTEAD NOTHING", "DROP RULE mine ON enriched"),
            ("DROP VIEW enriched_live", None),
        ]
    )
    return _of_target(there, there, back)


def target_with_a_trigger(shop: "AlteredShop") -> Alteration:
    name = shop.chance.choice([*_CHANGES_ROWS])
    when, does = _CHANGES_ROWS[name].split(": ")
    return _of_target(
        f"with a trigger that changes {name}",
        (
            f"CREATE OR REPLACE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {does} END$$",
            f"CREATE TRIGGER mine {when} ON enriched FOR EACH ROW EXECUTE FUNCTION mine()",
        ),
        "DROP TRIGGER mine ON enriched",
    )


OF_TARGET: Final[Mapping[str, Sequence[Draw]]] = {
    "target's rows": [target_copied, target_copied, target_restored, target_restored, target_emptied, target_rows_changed],
    "target": [target_dropped, target_swapped, target_with_a_trigger, target_with_a_trigger, target_constrained],
    "target's columns": [target_of_other_types, target_of_other_columns],
}
"""The draws on the side of the table that the results are merged into, by groups."""
DRAWS: Final[Mapping[str, Sequence[Draw]]] = {
    "tables": [swapped, made_anew, in_another_schema, part_of_another_table, inherited],
    "partitions": [
        detached,
        detached_with_its_partitions,
        attached_again,
        truncated_by_its_name,
        dropped_and_made_again,
        of_the_rest,
        of_another_table,
    ],
    "further partitions": [further, further_truncated, further_attached, further_detached_for_a_while],
    "publication": [filtered, unfiltered_by_a_schema, out, without_publication, published_in_part, published_by_partitions],
    "columns": [column_more, column_less, column_renamed, columns_trade_names, widened, more_digits],
    "types": [another_type, another_type, label_renamed, attribute_renamed, attribute_less],
    "identities": [identity, identity, another_primary_key],
    "files": [rewritten, truncated_and_filled],
    "transactions": [held_open, prepared, let_go],
}
"""The draws, by groups."""
