"""The whole orders job again, by hand: plain dicts, one position after the other, no Beam and nothing of
ours.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

Row = dict[str, Any]


class Answer(NamedTuple):
    """What the job must say: changes as (key, op, old, new, position), the final rows, and what was dropped."""

    changes: list[tuple[Any, str, Row | None, Row | None, int]]
    latest: dict[Any, Row]
    dropped: dict[tuple[str, str], int]


def naive_orders(
    orders: list[Row], customers: list[Row], *, how: str = "inner", keep: Callable[[Row], bool] = lambda order: True
) -> Answer:
    dropped: dict[tuple[str, str], int] = {}
    order_changes = _by_position("orders", orders, "order_id", dropped)
    customer_changes = _by_position("customers", customers, "customer_id", dropped)
    order_table: dict[Any, Row] = {}
    customer_table: dict[Any, Row] = {}
    joined: dict[Any, Row] = {}
    changes = []
    no_reference = 0
    for position in sorted({*order_changes, *customer_changes}):
        touched = set()
        for key, new in order_changes.get(position, {}).items():
            old, kept = order_table.get(key), new if new is not None and keep(new) else None
            if old is None and kept is None:
                continue
            touched.add(key)
            if kept is None:
                del order_table[key]
            else:
                order_table[key] = kept
                no_reference += how == "inner" and kept["customer_id"] is None
        for key, new in customer_changes.get(position, {}).items():
            if new is None and key not in customer_table:
                continue
            if new is None:
                del customer_table[key]
            else:
                customer_table[key] = new
            touched |= {order_key for order_key, order in order_table.items() if order["customer_id"] == key}
        for key in touched:
            old, row = joined.get(key), None
            if order := order_table.get(key):
                customer = customer_table.get(order["customer_id"])
                row = {**order, "customer": customer} if customer or how == "left" else None
            if old is None and row is None:
                continue
            changes.append((key, "insert" if old is None else "delete" if row is None else "update", old, row, position))
            if row is None:
                del joined[key]
            else:
                joined[key] = row
    if no_reference:
        dropped["join", "null_foreign_key"] = no_reference
    return Answer(changes, joined, dropped)


def _by_position(place: str, rows: list[Row], key: str, dropped: dict[tuple[str, str], int]) -> dict[int, dict[Any, Row | None]]:
    """Per position and key the new value, or None for a delete."""
    message: dict[int, dict[Any, Row]] = {}
    for row in rows:
        reason = None
        if row[key] is None:
            reason = "null_key"
        else:
            before = message.setdefault(row["lsn"], {}).get(row[key])
            assert before is None or before == row, "the sample repeats itself only word by word"
            reason = None if before is None else "duplicate_position"
            message[row["lsn"]][row[key]] = row
        if reason:
            dropped[place, reason] = dropped.get((place, reason), 0) + 1
    return {
        position: {k: None if row["op"] == "d" else _value(row) for k, row in by_key.items()} for position, by_key in message.items()
    }


def _value(row: Row) -> Row:
    return {column: value for column, value in row.items() if column not in ("op", "lsn")}


def in_order(changes: list[tuple[Any, str, Row | None, Row | None, int]]) -> list[str]:
    return sorted(json.dumps(change) for change in changes)
