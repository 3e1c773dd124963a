"""Leases of a state in a store: one run at a time, whoever is killed, stands still or begins in the same moment."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.files import claim
from beam_joins.transforms.engine.resumed.resumed_turn import BEGUN
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.object_store import Store

STATE = "bucket://state/here"
LOCK = f"{STATE}/lock"


def there(store: Store) -> claim.Claim | None:
    return claim.claim_of(store.objects[LOCK]) if LOCK in store.objects else None


def left_behind(store: Store, **changed: Any) -> claim.Claim:
    """The claim of a run that has not released it."""
    held = claim.new_claim()._replace(until=time.time_ns() + 10**12, **changed)
    store.put(LOCK, json.dumps(held).encode())
    return held


def test_a_second_run_is_refused_with_the_process_of_the_first_one_and_may_begin_behind_it(store: Store) -> None:
    with StateFolder(STATE):
        held = there(store)
        assert held is not None
        with pytest.raises(StateRefused, match=f"in use by another run, process {held.pid} on {held.host}: wait for its end"):
            StateFolder(STATE)
        assert there(store) == held
    assert there(store) is None
    StateFolder(STATE).close()


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "gone", "until": time.time_ns() - 3600 * 10**9},
        {"pid": 2**22 + 1},
        {"host": socket.gethostname(), "process": "began at another time"},
    ],
    ids=["its lease has ended", "its process has ended", "its process is another one"],
)
def test_the_lease_of_a_run_that_is_gone_is_taken_over(store: Store, changed: dict[str, Any]) -> None:
    dead = left_behind(store)._replace(**changed)
    store.put(LOCK, json.dumps(dead).encode())
    with StateFolder(STATE):
        held = there(store)
        assert held is not None
        assert held.token != dead.token
    assert there(store) is None


@pytest.mark.parametrize("operation", ["open", "delete"])
def test_a_lease_that_the_store_does_not_remove_refuses_others_and_not_the_process_that_has_ended_it(
    store: Store, operation: str
) -> None:
    folder = StateFolder(STATE)
    with store.failing(operation, "/lock", lambda: OSError("the store said no")):
        folder.close()
    left = there(store)
    assert left is not None
    assert left.is_dead
    with StateFolder(STATE):
        held = there(store)
        assert held is not None
        assert held.token != left.token
        assert not held.is_dead
    assert there(store) is None


def test_the_lease_of_another_machine_holds_until_its_end_and_some_slack_of_clocks(store: Store) -> None:
    dead = left_behind(store, host="elsewhere")
    for seconds, is_refused in ((-20, True), (20, True), (40, False)):
        store.put(LOCK, json.dumps(dead._replace(until=time.time_ns() - seconds * 10**9)).encode())
        if is_refused:
            with pytest.raises(StateRefused, match="on elsewhere"):
                StateFolder(STATE)
        else:
            StateFolder(STATE).close()


def test_a_lease_is_renewed_by_its_process_until_another_run_has_it(store: Store) -> None:
    with StateFolder(STATE):
        first = there(store)
        claim._renewals.renew()
        second = there(store)
        assert first is not None
        assert second is not None
        assert (second.token, (second.until or 0) > (first.until or 0)) == (first.token, True)
        other = left_behind(store, token="0" * 12)
        for _ in range(2):
            claim._renewals.renew()
        assert there(store) == other
        assert LOCK not in claim._renewals._claims
    assert there(store) == other, "whoever has it keeps it"


def test_of_two_runs_that_begin_in_the_same_moment_one_has_the_lease(store: Store) -> None:
    StateFolder(STATE).close()  # which has asked whether the store answers
    opened = list[bool]()
    number = 0

    def second(operation: str, path: str) -> None:
        nonlocal number
        number -= 1
        if not number:
            try:
                StateFolder(STATE).close()
            except StateRefused:
                opened.append(False)
            else:
                opened.append(True)

    for at in range(1, 12):
        number = at
        with store.before(second):
            try:
                StateFolder(STATE).close()
            except StateRefused as refused:
                assert "another run, which began in the same moment" in str(refused)
                opened.append(False)
        store.objects.pop(LOCK, None)
    assert opened.count(True) < 11
    assert False in opened


class Killed(BaseException):
    """As if the process ended."""


class Machines:
    """Runs on machines of their own, which are killed or stand still between any two operations of the store; a clock that only
    they have.
    """

    def __init__(self, seed: int, runs: int) -> None:
        self.draw, self.clock = Random(seed), 10**18
        self.ended = dict[int, bool | None]()
        """The runs that have ended: whether they count, ``None`` where that was not heard of."""
        self.errors = list[Exception]()
        self._turn = {number: threading.Semaphore(0) for number in range(runs)}
        self._back = threading.Semaphore(0)
        self._of_thread = threading.local()

    def operation(self, operation: str, path: str) -> None:
        number = getattr(self._of_thread, "number", None)
        if number is not None:
            self._wait(number)
            if self.draw.random() < 0.004:
                raise Killed

    def _wait(self, number: int) -> None:
        self._back.release()
        self._turn[number].acquire()

    def _run(self, number: int) -> None:
        self._of_thread.number = number
        self._turn[number].acquire()
        try:
            self.ended[number] = one_run(number)
        except Killed:
            self.ended[number] = None
        except Exception as error:
            self.errors.append(error)
            self.ended[number] = None
        finally:
            self._of_thread.number = None
            self._back.release()

    def all_run(self) -> None:
        threads = {number: threading.Thread(target=self._run, args=(number,), daemon=True) for number in self._turn}
        for thread in threads.values():
            thread.start()
        while left := [number for number in threads if number not in self.ended]:
            some = self.draw.choice(left)
            self.clock += self.draw.choice([0, 1, 200]) * 10**9  # the others stand still
            for _ in range(self.draw.choice([1, 2, 5, 20, 300])):
                self._turn[some].release()
                self._back.acquire()
                if some in self.ended:
                    break

    def claim(self) -> claim.Claim:
        number = self._of_thread.number
        return claim.Claim(f"{self.draw.randrange(16**12):012x}", f"machine {number}", 7, "", self.clock)


def one_run(number: int) -> bool | None:
    """Whether a run that adds its number to the records counts, ``None`` where it cannot tell."""
    try:
        folder = StateFolder(STATE)
    except StateRefused:
        return False
    folder._groups = []
    folder.inputs["rows"] = [*folder.inputs.get("rows", ()), number]
    folder.files.put(f"{folder._attempt}/{BEGUN}", b"1")
    try:
        folder.commit()
    except StateRefused as refused:
        folder.close()
        return None if "perhaps behind this one" in str(refused) else False
    folder.close()
    return True


@pytest.fixture
def machines(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], Machines]]:
    StateFolder(STATE).close()

    def made(seed: int, runs: int) -> Machines:
        each = Machines(seed, runs)
        monkeypatch.setattr(claim.time, "time_ns", lambda: each.clock)
        monkeypatch.setattr("beam_joins.transforms.engine.resumed.state_files.new_claim", each.claim)
        monkeypatch.setattr(claim._renewals, "add", lambda path, mine: None)
        return each

    yield made
    monkeypatch.undo()


def wrong(store: Store, machines: Machines) -> list[str]:
    """What the records say that the ends of the runs do not."""
    with store.before(machines.operation):
        machines.all_run()
    machines.clock += 10**13
    machines._of_thread.number = None
    store.objects.pop(LOCK, None)
    rows = StateFolder(STATE).inputs.get("rows", [])
    message = [f"{number} counts and is {rows.count(number)} times there" for number, counts in machines.ended.items() if counts]
    message = [each for each in message if not each.endswith("is 1 times there")]
    message += [
        f"{number} does not count and is there" for number, counts in machines.ended.items() if counts is False and number in rows
    ]
    return [*message, *(f"{number} is there twice" for number in {*rows} if rows.count(number) > 1)]


@pytest.mark.parametrize("seed", range(12))
def test_runs_at_once_that_are_killed_or_stand_still_lose_and_double_no_record(
    store: Store, machines: Callable[[int, int], Machines], seed: int
) -> None:
    assert not wrong(store, machines(seed, (2, 3, 10)[seed % 3]))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12, 400))
def test_many_runs_at_once_that_are_killed_or_stand_still_lose_and_double_no_record(
    store: Store, machines: Callable[[int, int], Machines], seed: int
) -> None:
    assert not wrong(store, machines(seed, (2, 3, 10)[seed % 3]))
