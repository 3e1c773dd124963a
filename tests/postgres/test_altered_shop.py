"""Whatever is done to tables, partitions, publication and server between two runs, a run is right or refused."""

import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from beam_joins.errors import InputError
from beam_joins.pipelines.commands import programs as commands
from beam_joins.pipelines.systems.postgres.slot_rounds import advance, read_round
from beam_joins.pipelines.systems.postgres.table_snapshots import Slot
from tests import programs
from tests.pipelines.orders_run import Ran, Run
from tests.postgres.altered_shop import SELECT, WHOLE, Altered, AlteredShop
from tests.postgres.slot_tables import asked, run

pytestmark = pytest.mark.postgres
SWEEP = [pytest.param(n, 250, marks=pytest.mark.sweep) for n in range(2, 6)]
TABLES = "public.orders", "public.customers"
_SECONDS = 60
"""The most that a table that is followed may take to be right."""


class Reader(Protocol):
    """Reads the shop, round by round."""

    def refused(self, done: list[str], *, again: bool = False) -> str:
        """The sentence with which the tables were refused, behind what was done; empty once they are read and right. They are
        read anew if ``again``.
        """

    def begin(self) -> None:
        """Begin anew: the shop has another slot."""


@pytest.fixture
def shop(seed: int) -> Iterator[AlteredShop]:
    shop = AlteredShop(programs.needed("PostgreSQL with wal2json", programs.postgres()), random.Random(seed))
    shop.start()
    try:
        yield shop
    finally:
        shop.stop()


@pytest.mark.parametrize(("seed", "rounds"), [(1, 150), *[pytest.param(n, 1000, marks=pytest.mark.sweep) for n in range(2, 6)]])
def test_a_round_of_the_log_is_right_or_refused_whatever_was_altered_before_it(tmp_path: Path, shop: AlteredShop, rounds: int) -> None:
    assert altered(shop, rounds, Rounds(shop, tmp_path))["right"] > rounds // 2


@pytest.mark.parametrize(("seed", "rounds"), [(1, 20), *SWEEP])
def test_so_is_a_run(beam_joins: Run, shop: AlteredShop, rounds: int) -> None:
    assert altered(shop, rounds, Runs(shop, beam_joins))["right"] > rounds // 3


@pytest.mark.parametrize(("seed", "rounds"), [(1, 10), *SWEEP])
def test_so_it_is_while_it_follows(beam_joins: Run, shop: AlteredShop, rounds: int) -> None:
    follower = Follower(shop, beam_joins)
    try:
        assert altered(shop, rounds, follower)["right"] > rounds // 3
    finally:
        follower.end()


def altered(shop: AlteredShop, rounds: int, reader: Reader) -> Counter[str]:
    """Alter the shop and have it read in each of some rounds; a round that is refused is repeated with what was done undone, or
    the tables read again, or all begun anew.
    """
    chance, seen, sentences = shop.chance, Counter[str](), Counter[str]()
    done: list[Altered] = []

    def refused(*more: str, again: bool = False) -> str:
        run(shop.conninfo, "CHECKPOINT")  # only what has been flushed is decoded
        sentence = reader.refused([*(each.name for each in done), *more], again=again)
        if not sentence:
            seen[more[0] if more else "right"] += 1
            done.clear()
        return sentence

    assert not refused(), "as it was built"  # else a key that is altered first is the one that orders refer to
    for _ in range(rounds):
        done += [shop.alter() if chance.random() < 0.4 else shop.change_rows() for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.02:
            shop.start()  # another server at the address of the first one
            done.append(Altered("another server"))
        if not (sentence := refused()):
            continue
        sentences[re.sub(r"\d+", "N", sentence)] += 1
        if chance.random() < 0.5 and shop.undo(done) and not refused("undone"):
            continue
        if chance.random() < 0.5 and not refused("read again", again=True):
            continue
        shop.build()
        run(shop.conninfo, "SELECT pg_drop_replication_slot('s')", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        reader.begin()
        done[:] = [Altered("begun anew")]
        assert not refused(), sentence
    print(seen, *sentences.most_common(), sep="\n")
    return seen


class Rounds:
    """Reads the rounds of the slot, and keeps the tables in memory."""

    def __init__(self, shop: AlteredShop, folder: Path) -> None:
        self._shop, self._folder, self._state = shop, str(folder), None
        self._tables: dict[str, dict[Any, dict[str, Any]]] = {}

    def refused(self, done: list[str], *, again: bool = False) -> str:
        slot, state = Slot(psycopg.conninfo.make_conninfo(self._shop.conninfo, options="-c lock_timeout=1s"), "s", "s"), self._state
        before: Any = {**state, "tables": {}} if state is not None and again else state
        try:
            read = read_round(slot, dict.fromkeys(TABLES, ("id",)), before, self._folder)
        except InputError as error:
            return str(error)
        self._state: Any = read.state
        for table in TABLES:
            rows = {} if again else self._tables.setdefault(table, {})
            self._tables[table] = rows
            for file in read.files_of(table, ("id",)):
                for change in file.reader.first(file):
                    _apply(change, rows)
        advance(slot, read)
        for table, rows in self._tables.items():
            now, right = (
                {tuple(sorted((name, _plain(value)[:40].rstrip()) for name, value in row.items())) for row in each}
                for each in (rows.values(), self._shop.texts(table.removeprefix("public.")))
            )
            assert now == right, (table, done, read.anew, now - right, right - now)
        return ""

    def begin(self) -> None:
        self._state = None
        self._tables = {}


def _plain(value: Any) -> str:
    """A value as a text that is the same however many digits a number is written with, and whether a cast to text has taken the
    spaces behind a char(n).
    """
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return format(Decimal(str(value)).normalize(), "f")
    except InvalidOperation:
        return str(value).rstrip()


def _apply(change: dict[str, Any], rows: dict[Any, dict[str, Any]]) -> None:
    operation, left_out = change["(operation)"], change["(left out)"]
    row = {name: value for name, value in change.items() if not name.startswith("(")}
    if operation == "t":
        rows.clear()
    elif operation == "d":
        rows.pop(row["id"], None)
    else:
        for name in json.loads(left_out or "[]"):
            row[name] = rows[row["id"]][name]
        rows[row["id"]] = row


class Runs:
    """Reads the shop by runs of a command, which merges the join into a table."""

    def __init__(self, shop: AlteredShop, beam_joins: Run) -> None:
        self._shop, self._beam_joins = shop, beam_joins
        shop.has_target()

    @property
    def options(self) -> list[str]:
        """The options of the command."""
        source, target = f"{self._shop.address}&slot=s", f"{self._shop.address}&table=enriched"
        left, right = ["--left", source, "--left-table", TABLES[0]], ["--right", source, "--right-table", TABLES[1]]
        joined = ["--foreign-key", "customer", "--how", "left", "--select", SELECT]
        return ["join", *left, *right, *joined, "--to", target, "--state-dir", "state"]

    def refused(self, done: list[str], *, again: bool = False) -> str:
        return self.sentence(done, self._beam_joins(*self.options, *(["--read-again=left", "--read-again=right"] if again else [])))

    def sentence(self, done: list[str], ran: Ran) -> str:
        """The sentence with which a run was refused; empty for one that was right."""
        if ran.code == 0:
            assert self.joined() == self._shop.truth(), (done, ran)
            return ""
        assert ran.code in (1, 2), (done, ran)  # 1: the target does not hold what is merged
        *_, sentence = ran.err.strip().splitlines()
        assert "Traceback" not in ran.err, (done, ran)
        assert len(sentence) > 40, (done, ran)
        return sentence

    def joined(self) -> Any:
        """The rows of the target."""
        return asked(self._shop.conninfo, f"{WHOLE.replace('status::text', 'status')} FROM enriched_live")

    def begin(self) -> None:
        shutil.rmtree("state", ignore_errors=True)
        run(self._shop.conninfo, "DROP TABLE IF EXISTS enriched CASCADE")


def follow(folder: str, options: list[str]) -> None:
    """Runs until somebody ends the process, or it is refused."""
    os.chdir(folder)
    with Path("followed.txt").open("w", buffering=1) as said:
        sys.stderr = said
        try:
            code = commands.main([*options, "--follow", "--every", "100ms"])
        except Exception:
            traceback.print_exc(file=said)
            raise
    sys.exit(code)


class Follower(Runs):
    """Reads the shop by a process that follows it, which is started when it is needed."""

    _process: Any = None

    def refused(self, done: list[str], *, again: bool = False) -> str:
        if again:
            self.end()
            return super().refused(done, again=True)
        if self._process is None:
            warm = multiprocessing.get_context("forkserver")
            warm.set_forkserver_preload(
                ["beam_joins.pipelines.commands.incremental_runs", "beam_joins.pipelines.commands.follow", "psycopg"]
            )
            self._process = warm.Process(target=follow, args=[os.getcwd(), self.options])
            self._process.start()
        until, change = time.monotonic() + _SECONDS, time.monotonic() + _SECONDS / 3
        while self._process.is_alive():
            if time.monotonic() > change:  # a target that cannot be merged into is told when something is merged
                self._shop.change_all_rows()
                change += _SECONDS
            try:
                if self.joined() == self._shop.truth():
                    return ""
            except psycopg.Error:  # nothing is merged yet, or a table or column is not there
                pass
            if time.monotonic() > until:
                raise AssertionError(done, self.joined(), self._shop.truth(), Path("followed.txt").read_text())
            time.sleep(0.1)
        code = self._process.exitcode
        self._process = None
        return self.sentence(done, Ran(code, "", Path("followed.txt").read_text()))

    def begin(self) -> None:
        self.end()
        super().begin()

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
        self._process = None
