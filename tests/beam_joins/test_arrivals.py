"""Keys that are checked at the end of a transaction: a row may come to a key before the row that was there leaves it."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.arrivals import Life
from beam_joins.changelog import ABSENT_DELETE, State, step, upsert
from tests.examples import examples

SCHEMA = pa.schema(
    [
        *(("key", pa.int64()), ("value", pa.string()), ("timestamp", pa.int64()), ("position", pa.int64())),
        *(("within", pa.binary()), ("arrives", pa.string())),
    ]
)
Rows = dict[int, str]


class Server:
    """A table with a deferrable key, as PostgreSQL has it, and the log of its changes, with ``old_rows`` or without.

    ``later``: the key is checked at the end of the transaction, not of the statement.
    """

    def __init__(self, *, old_rows: bool, later: bool = False) -> None:
        self._old_rows, self._later = old_rows, later
        self.rows: list[tuple[int, str]] = []
        self.log: list[dict[str, Any]] = []
        self.contents: list[Rows] = []

    def transaction(self, draw: random.Random) -> None:
        """Some statements, if the keys are unique behind them."""
        rows, log = [*self.rows], list[dict[str, Any]]()
        for _ in range(draw.randrange(1, 4)):
            self._statement(draw, rows, log)
            if not self._later and not _are_unique(rows):
                return
        if _are_unique(rows):
            self.rows = rows
            self.log += log
            self.contents.append(dict(rows))

    def _statement(self, draw: random.Random, rows: list[tuple[int, str]], log: list[dict[str, Any]]) -> None:
        def write(key: int, value: str | None, before: str | None, arrives: bool, number: int) -> None:
            place = {"timestamp": 0, "position": len(self.contents), "within": number.to_bytes(2, "big")}
            life = Life(arrives, before or "", value or "") if self._old_rows else Life(arrives)
            log.append({"key": key, "value": value, "arrives": life.text(), **place})

        number = len(log)
        kind = draw.choice(["insert", "update", "delete", "shift", "rotate", "move"])
        if kind == "insert" and (free := {*range(6)} - {key for key, _ in rows if not self._later}):
            rows.append((draw.choice(sorted(free)), f"v{draw.randrange(5)}"))
            write(*rows[-1], None, True, number)
        elif kind in ("update", "delete") and rows:
            at = draw.randrange(len(rows))
            key, value = rows.pop(at)
            write(key, None if kind == "delete" else f"v{draw.randrange(5)}", value, False, number)
            if kind == "update":
                rows.insert(at, (key, log[-1]["value"]))
        elif kind in ("shift", "rotate", "move"):  # each row once, in any order, as one statement does
            keys = sorted(key for key, _ in rows)
            to = {key: key + 1 for key in keys}
            if kind == "rotate":
                to = dict(zip(keys, draw.sample(keys, len(keys)), strict=True))
            draw.shuffle(rows)
            for at, (key, value) in enumerate(rows):
                if to[key] != key and (kind != "move" or at == 0):
                    number = len(log)
                    write(key, None, value, False, number)
                    write(to[key], value, None, True, number)
                    rows[at] = (to[key], value)


def _are_unique(rows: list[tuple[int, str]]) -> bool:
    return len({key for key, _ in rows}) == len(rows)


def content(batches: list[Any], position: int, before: Rows | None = None) -> Rows:
    rows = dict(before or {})
    for batch in batches:
        columns = (column.to_pylist() for column in (batch.key, batch.new, batch.position))
        for key, new, at in sorted(zip(*columns, strict=True), key=lambda change: change[2]):
            if at <= position:
                rows.pop(key, None) if new is None else rows.__setitem__(key, new)
    return rows


@pytest.mark.slow
@examples(400)
@given(st.randoms(use_true_random=False), st.integers(0, 12), st.sampled_from([(False, False), (True, False), (True, True)]))
def test_the_table_is_the_servers_at_every_commit_in_any_order_of_arrival_and_cut_anywhere(
    draw: random.Random, cut: int, kind: tuple[bool, bool]
) -> None:
    server = Server(old_rows=kind[0], later=kind[1])
    for _ in range(12):
        server.transaction(draw)
    arrived = draw.sample(server.log, len(server.log))
    batch, dropped = upsert(pa.Table.from_pylist(arrived, SCHEMA), "updates")
    assert {*dropped["reason"].to_pylist()} <= {ABSENT_DELETE}
    state, batches = State(), []
    for part in ([row for row in arrived if row["position"] < cut], [row for row in arrived if row["position"] >= cut]):
        made, dropped, state = step(state, pa.Table.from_pylist(part, SCHEMA), "updates")
        assert {*dropped["reason"].to_pylist()} <= {ABSENT_DELETE}
        batches.append(made)
    again, _, _ = step(state, pa.Table.from_pylist(draw.sample(arrived, len(arrived)), SCHEMA), "updates")
    assert len(again.key) == 0, "a log that is sent again changes nothing"
    for position, expected in enumerate(server.contents):
        assert content([batch], position) == expected
        assert content(batches, position) == expected


@examples(200)
@given(st.randoms(use_true_random=False), st.integers(0, 60), st.booleans())
def test_a_log_with_old_rows_may_begin_anywhere_and_be_cut_within_a_transaction(
    draw: random.Random, cut: int, begins_late: bool
) -> None:
    server = Server(old_rows=True)
    for _ in range(12):
        server.transaction(draw)
    first = server.log[cut]["position"] if begins_late and cut < len(server.log) else 0
    log = [row for row in server.log if row["position"] >= first]
    state, rows = State(), Rows()
    for part in (log[:cut], log[cut:]):
        batch, _, state = step(state, pa.Table.from_pylist(part, SCHEMA), "updates")
        rows = content([batch], 1 << 40, rows)
    written = {row["key"] for row in log}
    assert rows == {key: value for key, value in server.rows if key in written}


def test_a_change_that_comes_again_at_another_place_is_one() -> None:
    comes = Life(arrives=True, after="Ada", again=True).text()
    log = [(2, "Ada", comes), (2, "Ada", comes), (2, None, Life(before="Ada").text()), (3, "Ada", comes)]
    rows = [
        {"key": key, "value": value, "timestamp": 0, "position": 1, "within": bytes([n]), "arrives": life}
        for n, (key, value, life) in enumerate(log)
    ]
    assert content([upsert(pa.Table.from_pylist(rows, SCHEMA), "updates")[0]], 1) == {3: "Ada"}


def test_the_same_change_twice_is_one() -> None:
    moves = [(1, "Ada", 0, b"a", "i,,,"), (1, None, 1, b"a", None), (2, "Ada", 1, b"a", "i,,,"), (2, "Ada", 1, b"a", "i,,,")]
    moves.append((2, None, 1, b"b", None))
    names = ("key", "value", "position", "within", "arrives")
    rows = pa.Table.from_pylist([dict(zip(names, row, strict=True), timestamp=0) for row in moves], SCHEMA)
    batch, dropped = upsert(rows, "updates")
    assert content([batch], 1) == {}, "a row that has come and has gone"
    assert dropped["reason"].to_pylist() == ["duplicate_position", ABSENT_DELETE]
