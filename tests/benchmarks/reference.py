"""The works in a few lines of plain Python: go through all changes in order, look at the tables after each."""

from collections import defaultdict

from benchmarks.works import CUSTOMER, ORDER, SHOP, WINDOW_MICROSECONDS

NOTHING = (None, None)


def history(orders, customers):
    """Every change of the join: key, position, time, and the order and its customer before and after it."""
    order_rows, customer_rows, results = {}, {}, {}
    changes = [*((row, True) for row in map(common, orders)), *((row, False) for row in map(common, customers))]
    for change, is_order in sorted(changes, key=lambda each: each[0]["seq"]):
        _put(order_rows if is_order else customer_rows, change)
        touched = [change["id"]] if is_order else [key for key, row in order_rows.items() if row["customer"] == change["id"]]
        for key in touched:
            order = order_rows.get(key)
            customer = customer_rows.get(order["customer"]) if order else None
            result = (order, customer) if customer else NOTHING
            if result != NOTHING or results.get(key, NOTHING) != NOTHING:
                yield key, change["seq"], change["ts"], results.get(key, NOTHING), result
            results[key] = result


def common(row):
    """A row of either form, with the names of the narrow one."""
    if "op" not in row:
        return row
    order = {"id": row["order_id"], "customer": row["customer_id"]} if "order_id" in row else {"id": row["customer_id"]}
    return {**row, **order, "seq": row["lsn"], "ts": row["updated_at"], "deleted": row["op"] == "d"}


def foreign_key(order_columns, customer_columns):
    def changelog(orders, customers):
        return [
            (key, position, order is None, *_picked(order, order_columns), *_picked(customer, customer_columns))
            for key, position, _, _, (order, customer) in history(orders, customers)
        ]

    return changelog


def labels(orders, customers):
    return [
        (key, position, order is None, order and f"{customer['name'].upper()}: {order['amount'] / 100:.2f}")
        for key, position, _, _, (order, customer) in history(orders, customers)
    ]


def enriched_changes(orders, customers):
    actual = []
    for key, position, time, before, now in history(orders, customers):
        op = "delete" if now == NOTHING else "insert" if before == NOTHING else "update"
        actual.append((key, op, enriched(*before), enriched(*now), time, position))
    return actual


def enriched_latest(orders, customers):
    last = {key: now for key, _, _, _, now in history(orders, customers)}
    return [tuple(enriched(*now).values()) for now in last.values() if now != NOTHING]


def enriched(order, customer):
    if order is None:
        return None
    return {**{name: order[name] for name in SHOP["orders"]}, "customer": {name: customer[name] for name in SHOP["customers"]}}


def foreign_key_final(orders, customers):
    last = {key: now for key, _, _, _, now in history(orders, customers)}
    return [(key, order["amount"], customer["name"]) for key, (order, customer) in last.items() if order]


def tables(left, right):
    lefts, rights, actual = {}, {}, []
    for change in sorted([*left, *right], key=lambda row: row["seq"]):
        key = change["id"]
        before = key in lefts or key in rights
        _put(lefts if "a" in change else rights, change)
        now = key in lefts or key in rights
        if before or now:
            actual.append((key, change["seq"], not now, lefts.get(key, {}).get("a"), rights.get(key, {}).get("b")))
    return actual


def four_tables(*tables):
    rows, actual = [{} for _ in tables], []
    changes = [(change, number) for number, table in enumerate(tables) for change in table]
    for change, number in sorted(changes, key=lambda each: each[0]["seq"]):
        key = change["id"]
        if change["deleted"] and key not in rows[number]:
            continue
        _put(rows[number], change)
        values = [each.get(key, {}).get(name) for each, name in zip(rows, "abcd", strict=True)]
        actual.append((key, change["seq"], all(key not in each for each in rows), *values))
    return actual


def pairs(left, right):
    """The inner join of rows in one place, computed anew behind each change."""
    sides, before, actual = ({}, {}), {}, []
    changes = [(row["seq"], number, row) for number, rows in enumerate((left, right)) for row in rows]
    for position, number, row in sorted(changes, key=lambda change: change[0]):
        _put(sides[number], row)
        now = {
            (one["id"], other["id"]): (one["a"], other["b"], one["seq"], other["seq"])
            for one in sides[0].values()
            for other in sides[1].values()
            if one["place"] == other["place"]
        }
        actual += [(*key, position, False, *met[:2]) for key, met in now.items() if before.get(key) != met]
        actual += [(*key, position, True, None, None) for key in before.keys() - now.keys()]
        before = now
    return actual


def streams(views, clicks):
    return [
        (view["key"], view["view"], click["click"], max(view["ts"], click["ts"]))
        for view in views
        for click in clicks
        if view["key"] == click["key"] and abs(view["ts"] - click["ts"]) <= WINDOW_MICROSECONDS
    ]


def changelog(left, right):
    rows, actual = defaultdict(lambda: None), []
    for change in sorted(left, key=lambda row: row["seq"]):
        old, new = rows[change["id"]], change["a"]
        if old is not None or new is not None:
            actual.append((change["id"], change["seq"], old, new))
        rows[change["id"]] = new
    return actual


NARROW = {"": foreign_key(["amount"], ["name"])}
WIDE = {"": foreign_key(ORDER, CUSTOMER)}
ENRICHED = {"changes": enriched_changes, "latest": enriched_latest}
WORKS = {
    "fk-uniform": NARROW,
    "fk-zipf": NARROW,
    "fk-final": {"": foreign_key_final},
    "tables": {"": tables},
    "tables-four": {"": four_tables},
    "many-few": {"": pairs},
    "many-hot": {"": pairs},
    "streams": {"": streams},
    "changelog": {"": changelog},
    "fk-records": {"": labels},
    "fk-wide": WIDE,
    "fk-short": WIDE,
    "fk-wide-large": WIDE,
    "orders-json": ENRICHED,
    "orders-latest": {"latest": enriched_latest},
    "orders-parquet": ENRICHED,
}


def _picked(row, columns):
    return [row and row[column] for column in columns]


def _put(rows, change):
    if change["deleted"]:
        rows.pop(change["id"], None)
    else:
        rows[change["id"]] = change
