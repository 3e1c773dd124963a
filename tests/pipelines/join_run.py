"""What the tests of beam-joins join and beam-joins table share: small inputs, and how to read what came out."""

import json
from pathlib import Path
from typing import Any

from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Ran, read_lines

TEA: Row = {"id": 1, "by": "a", "n": 5, "op": "c", "lsn": 1, "updated_at": 1}
LEFT = [TEA, {**TEA, "id": 2, "by": "z", "lsn": 2}, {**TEA, "id": 3, "by": None, "lsn": 3}, {**TEA, "by": "b", "op": "u", "lsn": 6}]
RIGHT = [{"id": key, "name": name, "op": "c", "lsn": lsn, "updated_at": lsn} for key, name, lsn in (("a", "Ann", 4), ("b", "Bob", 5))]
NUMBERS = [
    {"id": "a", "n": 1, "op": "c", "lsn": 1, "updated_at": 1},
    {"id": "b", "n": 2, "op": "c", "lsn": 2, "updated_at": 2},
    {"id": "a", "op": "d", "lsn": 6, "updated_at": 6},
]
PRICES = [{"id": key, "p": p, "op": "c", "lsn": lsn, "updated_at": lsn} for key, p, lsn in (("b", 7, 4), ("d", 9, 5))]
FILES = ["--left", "l.jsonl", "--right", "r.jsonl"]
BY = [*FILES, "--foreign-key", "by"]


def changes(path: str) -> list[Any]:
    """The changes of a file as (position, key, operation, values of the new row), in the order of positions
    and keys.
    """
    actual = []
    for change in read_lines(Path(path)):
        key, new = change["key"], change["new"]
        key = list(key.values()) if isinstance(key, dict) else key
        actual.append((change["position"], key, change["op"], new and list(new.values())))
    return sorted(actual, key=lambda each: (each[0], json.dumps(each[1])))


def refused(ran: Ran) -> str:
    """The one sentence that a wrong option leads to."""
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
    return ran.err.partition(": ")[2].rstrip("\n")
