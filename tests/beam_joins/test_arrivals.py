"""Keys that are checked at the end of a transaction: a row may come to a key before the row that was there leaves it."""

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.tables.changelog import ABSENT_DELETE, SUPERSEDED, ChangelogState, step, upsert
from beam_joins.tables.key_handover import Life
from tests.examples import examples

SCHEMA = pa.schema(
    [
        *(("key", pa.int64()), ("value", pa.string()), ("timestamp", pa.int64()), ("position", pa.int64())),
        *(("within", pa.binary()), ("arrives", pa.string())),
    ]
)
Rows = dict[int, str]
STATEMENTS = ("insert", "update", "delete", "shift", "rotate", "move")


class Server:
    """A table with a deferrable key, as PostgreSQL has it, and the log of its changes, with ``old_rows`` or without.

    ``later``: the key is checked at the end of the transaction, not of the statement. ``named``: all changes have
    positions of their own, and the name of their transaction.
    """

    def __init__(self, *, old_rows: bool, later: bool = False, truncates: bool = False, named: bool = False) -> None:
        self._old_rows, self._later, self._named = old_rows, later, named
        self._statements = (*STATEMENTS, "truncate") if truncates else STATEMENTS
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
            life = Life(arrives, before or "", value or "") if self._old_rows else Life(arrives)
            life = life._replace(transaction=f"t{len(self.contents)}" if self._named else "")
            log.append({"key": key, "value": value, "arrives": life.text(), **place(number)})

        def place(number: int) -> dict[str, Any]:
            if self._named:
                return {"timestamp": 0, "position": len(self.log) + len(log), "within": b""}
            return {"timestamp": 0, "position": len(self.contents), "within": number.to_bytes(2, "big")}

        number = len(log)
        kind = draw.choice(self._statements)
        if kind == "truncate":
            rows.clear()
            log.append({"truncate": True, **place(number)})
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


def parts_of(log: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table | None]:
    """The rows of a log, and its truncates."""
    truncates = [{name: row[name] for name in ("timestamp", "position", "within")} for row in log if "truncate" in row]
    rows = [row for row in log if "truncate" not in row]
    return pa.Table.from_pylist(rows, SCHEMA), pa.Table.from_pylist(truncates) if truncates else None


def stepped(state: ChangelogState, log: list[dict[str, Any]]) -> tuple[Any, pa.Table, ChangelogState]:
    rows, truncates = parts_of(log)
    return step(state, rows, "updates", truncates=truncates)


def changes_of(batches: list[Any]) -> list[Any]:
    return sorted((change for batch in batches for change in batch), key=lambda change: (change.key, change.position))


KINDS = [
    {"old_rows": old_rows, "later": later, "truncates": truncates}
    for old_rows, later in ((False, False), (True, False), (True, True))
    for truncates in (False, True)
]


@pytest.mark.slow
@examples(200)
@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 12), max_size=3), st.sampled_from(KINDS))
def test_the_table_is_the_servers_at_every_commit_in_any_order_of_arrival_and_cut_anywhere(
    draw: random.Random, cuts: list[int], kind: dict[str, bool]
) -> None:
    server = Server(**kind)
    for _ in range(12):
        server.transaction(draw)
    arrived = draw.sample(server.log, len(server.log))
    rows, truncates = parts_of(arrived)
    batch, dropped = upsert(rows, "updates", truncates=truncates)
    assert {*dropped["reason"].to_pylist()} <= {ABSENT_DELETE, SUPERSEDED}
    state, batches = ChangelogState(), []
    for low, high in pairwise([-1, *sorted(cuts), 1 << 40]):
        made, dropped, state = stepped(state, [row for row in arrived if low < row["position"] <= high])
        assert {*dropped["reason"].to_pylist()} <= {ABSENT_DELETE, SUPERSEDED}
        batches.append(made)
    assert changes_of(batches) == changes_of([batch]), "cut or not, the changes are the same"
    again, _, _ = stepped(state, draw.sample(arrived, len(arrived)))
    assert len(again.key) == 0, "a log that is sent again changes nothing"
    for position, expected in enumerate(server.contents):
        assert content([batch], position) == expected


@examples(60)
@given(
    st.randoms(use_true_random=False), st.lists(st.integers(0, 60), max_size=8), st.booleans(), st.sampled_from(KINDS), st.booleans()
)
def test_a_log_may_be_cut_within_transactions_and_one_with_old_rows_may_begin_anywhere(
    draw: random.Random, cuts: list[int], begins_late: bool, kind: dict[str, bool], named: bool
) -> None:
    server = Server(**kind, named=named)
    for _ in range(12):
        server.transaction(draw)
    begins_late &= kind["old_rows"]
    first = server.log[cuts[0]]["position"] if begins_late and cuts and cuts[0] < len(server.log) else 0
    log = [row for row in server.log if row["position"] >= first]
    state, rows = ChangelogState(), Rows()
    for low, high in pairwise([0, *sorted(cuts), len(log)]):
        batch, _, state = stepped(state, log[low:high])
        rows = content([batch], 1 << 40, rows)
    written = {row["key"] for row in log if "key" in row}
    assert rows == {key: value for key, value in server.rows if key in written}


@examples(60)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_transactions_with_old_rows_may_come_late_and_what_is_not_applied_is_told(
    draw: random.Random, later: bool, truncates: bool
) -> None:
    server = Server(old_rows=True, later=later, truncates=truncates)
    for _ in range(8):
        server.transaction(draw)
    when = {row["position"]: draw.randrange(3) for row in server.log}
    state, rows, told = ChangelogState(), Rows(), set[int]()
    for now in range(3):
        batch, dropped, state = stepped(state, [row for row in server.log if when[row["position"]] == now])
        rows = content([batch], 1 << 40, rows)
        told.update(dropped.filter(pc.equal(dropped["reason"], "late_stale"))["key"].to_pylist())
    # a row older than the last record of its key is only told: a transaction may have brought another there, and deleted that
    there = dict(server.rows)
    assert {key: value for key, value in rows.items() if key not in told} == {
        key: value for key, value in there.items() if key not in told
    }


def test_a_late_row_below_a_row_that_came_and_went_is_told_as_stale() -> None:
    def record(position: int, within: bytes, value: str | None, life: Life) -> dict[str, Any]:
        return {"key": 0, "value": value, "timestamp": 0, "position": position, "within": within, "arrives": life.text()}

    came, went = record(1, b"\0", "b", Life(True, after="b")), record(1, b"\1", None, Life(before="b"))
    _, _, state = stepped(ChangelogState(), [came, went])
    batch, dropped, _ = stepped(state, [record(0, b"\0", "a", Life(True, after="a"))])
    assert (len(batch.key), dropped["reason"].to_pylist()) == (0, ["late_stale"])


def row(key: int, value: str | None, position: int, n: int, life: Life) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": 0, "position": position, "within": bytes([n]), "arrives": life.text()}


@pytest.mark.parametrize("old_rows", [True, False])
def test_a_row_that_comes_to_an_occupied_key_may_leave_it_in_a_later_step(old_rows: bool) -> None:
    def life(arrives: bool, before: str, after: str) -> Life:
        return Life(arrives, before, after) if old_rows else Life(arrives)

    log = [row(2, "five", 1, 0, life(True, "", "five")), row(1, "seven", 1, 1, life(True, "", "seven"))]
    log += [row(1, None, 2, 0, life(False, "seven", "")), row(2, "seven", 2, 1, life(True, "", "seven"))]
    log += [row(2, None, 2, 2, life(False, "seven" if old_rows else "", "")), row(3, "seven", 2, 3, life(True, "", "seven"))]
    stays = {2: "five"} if old_rows else {2: "seven"}  # without hashes the first of the rows is the one that leaves
    for cut in range(len(log)):
        state, rows = ChangelogState(), Rows()
        for part in (log[:cut], [], log[cut:], log):
            batch, _, state = stepped(state, part)
            rows = content([batch], 1 << 40, rows)
        assert rows == {**stays, 3: "seven"}, cut
        assert not state.several.rows() or cut == 0


def test_a_truncate_empties_the_keys_that_rows_have_traded() -> None:
    log = [row(1, "a", 1, 0, Life(True, after="a")), row(2, "b", 1, 1, Life(True, after="b"))]
    log += [row(1, None, 2, 0, Life(before="a")), row(2, "a", 2, 1, Life(True, after="a"))]
    log += [row(2, None, 2, 2, Life(before="b")), row(1, "b", 2, 3, Life(True, after="b"))]
    log += [{"truncate": True, "timestamp": 0, "position": 3, "within": b"\0"}, row(9, "z", 3, 1, Life(True, after="z"))]
    rows, truncates = parts_of(log)
    batch, _ = upsert(rows, "updates", truncates=truncates)
    assert [content([batch], position) for position in (1, 2, 3)] == [{1: "a", 2: "b"}, {1: "b", 2: "a"}, {9: "z"}]


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
    assert dropped["reason"].to_pylist() == ["duplicate_position", ABSENT_DELETE, SUPERSEDED]


def holed(draw: random.Random) -> tuple[list[dict[str, Any]], int, Rows]:
    """A log with old rows whose first records a topic has compacted, how many of them were read before that, and the last row
    of each key.
    """
    rows, log, number = Rows(), list[dict[str, Any]](), 0
    for position in range(draw.randrange(2, 7)):
        for n in range(draw.randrange(1, 5)):
            key, number = draw.randrange(3), number + 1
            value = None if key in rows and draw.random() < 0.5 else f"v{number}"
            log.append(row(key, value, position, n, Life(key not in rows, rows.get(key, ""), value or "", alone=True)))
            rows.pop(key, None) if value is None else rows.__setitem__(key, value)
    head = draw.randrange(len(log) + 1)
    read = draw.randrange(head + 1)
    last = {each["key"]: n for n, each in enumerate(log[:head])}
    kept = [each for n, each in enumerate(log[:head]) if last[each["key"]] == n and (each["value"] or draw.random() < 0.5)]
    left = log[:read] + [each for each in kept if each not in log[:read]] + log[head:]
    expected = {each["key"]: each["value"] for each in left}
    return left, read, {key: value for key, value in expected.items() if value is not None}


@examples(300)
@given(st.randoms(use_true_random=False))
def test_of_a_compacted_log_the_last_record_of_each_key_counts_in_one_step_and_in_many(draw: random.Random) -> None:
    log, read, expected = holed(draw)
    batch, _ = upsert(parts_of(log)[0], "updates")
    assert content([batch], 1 << 40) == expected
    while 0 < read < len(log) and log[read - 1]["position"] == log[read]["position"]:
        read -= 1  # a step that ends within a transaction may see another order
    state, rows = ChangelogState(), Rows()
    for some in (log[:read], log[read:]):
        batch, _, state = stepped(state, some)
        rows = content([batch], 1 << 40, rows)
    assert rows == expected


def test_a_whole_changelog_may_end_within_a_transaction_that_has_brought_a_row_to_an_occupied_key() -> None:
    log = [row(2, "Ben", 1, 0, Life(True, after="Ben")), row(2, "Ada", 2, 0, Life(True, after="Ada"))]
    log += [row(2, None, 2, 1, Life(before="Ada")), row(2, "Eve", 2, 2, Life(True, after="Eve"))]
    assert content([upsert(parts_of(log)[0], "updates")[0]], 2) == {2: "Eve"}


@pytest.mark.parametrize(("before", "stays"), [("Ada", True), ("Ben", False)])
def test_of_equal_rows_that_trade_keys_the_one_that_came_stays_and_of_others_none_that_an_insert_has_replaced(
    before: str, stays: bool
) -> None:
    log = [row(2, before, 1, 0, Life(True, after=before, alone=True)), row(2, "Ada", 2, 0, Life(True, after="Ada", alone=True))]
    log.append(row(2, None, 2, 1, Life(before="Ada")))
    assert content([upsert(parts_of(log)[0], "updates")[0]], 2) == ({2: "Ada"} if stays else {})


def test_equal_rows_that_trade_keys_are_both_there_wherever_a_step_ends() -> None:
    log = [row(n, "Ada", 1, n, Life(True, after="Ada", alone=True)) for n in (1, 2)]
    for key, other in ((1, 2), (2, 1)):
        leaves, comes = Life(before="Ada"), Life(True, after="Ada", alone=True)
        log += [row(key, None, 2, 2 * key, leaves), row(other, "Ada", 2, 2 * key + 1, comes)]
    for cut in range(len(log)):
        state, rows = ChangelogState(), Rows()
        for part in (log[:cut], [], log[cut:], log, [row(9, "Eve", 3, 0, Life(True, after="Eve", alone=True))]):
            batch, _, state = stepped(state, part)
            rows = content([batch], 1 << 40, rows)
        assert rows == {1: "Ada", 2: "Ada", 9: "Eve"}, cut
