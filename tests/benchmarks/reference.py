"""The works in a few lines of plain Python: go through all changes in order, look at the tables after each."""

from collections import defaultdict

from benchmarks.works import WINDOW_MICROSECONDS


def foreign_key(orders, customers):
    order_rows, customer_rows, results, found = {}, {}, {}, []
    for change in sorted([*orders, *customers], key=lambda row: row["seq"]):
        if "customer" in change:
            _put(order_rows, change)
            touched = [change["id"]]
        else:
            _put(customer_rows, change)
            touched = [key for key, row in order_rows.items() if row["customer"] == change["id"]]
        for key in touched:
            order = order_rows.get(key)
            customer = customer_rows.get(order["customer"]) if order else None
            result = (order["amount"], customer["name"]) if customer else None
            if result or results.get(key):
                found.append((key, change["seq"], result is None, *(result or (None, None))))
            results[key] = result
    return found


def foreign_key_final(orders, customers):
    order_rows, customer_rows = {}, {}
    for change in sorted([*orders, *customers], key=lambda row: row["seq"]):
        _put(order_rows if "customer" in change else customer_rows, change)
    return [
        (key, row["amount"], customer_rows[row["customer"]]["name"])
        for key, row in order_rows.items()
        if row["customer"] in customer_rows
    ]


def tables(left, right):
    lefts, rights, found = {}, {}, []
    for change in sorted([*left, *right], key=lambda row: row["seq"]):
        key = change["id"]
        before = key in lefts or key in rights
        _put(lefts if "a" in change else rights, change)
        now = key in lefts or key in rights
        if before or now:
            found.append((key, change["seq"], not now, lefts.get(key, {}).get("a"), rights.get(key, {}).get("b")))
    return found


def streams(views, clicks):
    return [
        (view["key"], view["view"], click["click"], max(view["ts"], click["ts"]))
        for view in views
        for click in clicks
        if view["key"] == click["key"] and abs(view["ts"] - click["ts"]) <= WINDOW_MICROSECONDS
    ]


def changelog(left, right):
    rows, found = defaultdict(lambda: None), []
    for change in sorted(left, key=lambda row: row["seq"]):
        old, new = rows[change["id"]], change["a"]
        if old is not None or new is not None:
            found.append((change["id"], change["seq"], old, new))
        rows[change["id"]] = new
    return found


WORKS = {
    "fk-uniform": foreign_key,
    "fk-zipf": foreign_key,
    "fk-final": foreign_key_final,
    "tables": tables,
    "streams": streams,
    "changelog": changelog,
}


def _put(rows, change):
    if change["deleted"]:
        rows.pop(change["id"], None)
    else:
        rows[change["id"]] = change
