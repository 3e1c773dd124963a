"""Keys that are checked at the end of a transaction: a row may come to a key before the row that was there leaves it."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.changelog import State, step, upsert
from tests.examples import examples

SCHEMA = pa.schema(
    [
        *(("key", pa.int64()), ("value", pa.string()), ("timestamp", pa.int64()), ("position", pa.int64())),
        *(("within", pa.binary()), ("arrives", pa.bool_())),
    ]
)
Rows = dict[int, str]


class Server:
    """A table with a deferrable key, as PostgreSQL has it, and the log of its changes."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []
        self.log: list[dict[str, Any]] = []
        self.contents: list[Rows] = []

    def transaction(self, draw: random.Random) -> None:
        """Some statements, if the keys are unique behind them."""
        rows, log = [*self.rows], list[dict[str, Any]]()
        for _ in range(draw.randrange(1, 4)):
            self._statement(draw, rows, log)
        if len({key for key, _ in rows}) == len(rows):
            self.rows = rows
            self.log += log
            self.contents.append(dict(rows))

    def _statement(self, draw: random.Random, rows: list[tuple[int, str]], log: list[dict[str, Any]]) -> None:
        def write(key: int, value: str | None, arrives: bool, number: int) -> None:
            place = {"timestamp": 0, "position": len(self.contents), "within": number.to_bytes(2, "big")}
            log.append({"key": key, "value": value, "arrives": arrives, **place})

        number = len(log)
        kind = draw.choice(["insert", "update", "delete", "shift", "rotate"])
        if kind == "insert" and (free := {*range(6)} - {key for key, _ in rows}):
            rows.append((draw.choice(sorted(free)), f"v{draw.randrange(3)}"))
            write(*rows[-1], True, number)
        elif kind in ("update", "delete") and rows:
            at = draw.randrange(len(rows))
            key, _ = rows.pop(at)
            write(key, None if kind == "delete" else f"v{draw.randrange(3)}", False, number)
            if kind == "update":
                rows.append((key, log[-1]["value"]))
        elif kind in ("shift", "rotate"):  # each row once, in any order, as one statement does
            keys = sorted(key for key, _ in rows)
            to = {key: key + 1 for key in keys}
            if kind == "rotate":
                to = dict(zip(keys, draw.sample(keys, len(keys)), strict=True))
            draw.shuffle(rows)
            for at, (key, value) in enumerate(rows):
                if to[key] != key:
                    number = len(log)
                    write(key, None, False, number)
                    write(to[key], value, True, number)
                    rows[at] = (to[key], value)


def content(batches: list[Any], position: int) -> Rows:
    rows: Rows = {}
    for batch in batches:
        columns = (column.to_pylist() for column in (batch.key, batch.new, batch.position))
        for key, new, at in sorted(zip(*columns, strict=True), key=lambda change: change[2]):
            if at <= position:
                rows.pop(key, None) if new is None else rows.__setitem__(key, new)
    return rows


@pytest.mark.slow
@examples(400)
@given(st.randoms(use_true_random=False), st.integers(0, 12))
def test_the_table_is_the_servers_at_every_commit_in_any_order_of_arrival_and_cut_anywhere(draw: random.Random, cut: int) -> None:
    server = Server()
    for _ in range(12):
        server.transaction(draw)
    arrived = draw.sample(server.log, len(server.log))
    batch, dropped = upsert(pa.Table.from_pylist(arrived, SCHEMA), "updates")
    assert len(dropped) == 0
    state, batches = State(), []
    for part in ([row for row in arrived if row["position"] < cut], [row for row in arrived if row["position"] >= cut]):
        made, dropped, state = step(state, pa.Table.from_pylist(part, SCHEMA), "updates")
        assert len(dropped) == 0
        batches.append(made)
    again, _, _ = step(state, pa.Table.from_pylist(draw.sample(arrived, len(arrived)), SCHEMA), "updates")
    assert len(again.key) == 0, "a log that is sent again changes nothing"
    for position, expected in enumerate(server.contents):
        assert content([batch], position) == expected
        assert content(batches, position) == expected


def test_the_same_change_twice_is_one() -> None:
    moves = [(1, "Ada", 0, b"a", True), (1, None, 1, b"a", False), (2, "Ada", 1, b"a", True), (2, "Ada", 1, b"a", True)]
    moves.append((2, None, 1, b"b", False))
    names = ("key", "value", "position", "within", "arrives")
    rows = pa.Table.from_pylist([dict(zip(names, row, strict=True), timestamp=0) for row in moves], SCHEMA)
    batch, dropped = upsert(rows, "updates")
    assert content([batch], 1) == {}, "a row that has come and has gone"
    assert dropped["reason"].to_pylist() == ["duplicate_position"]
