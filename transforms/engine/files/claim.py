"""A run's claim on a folder or an output. In a store it is a lease: an object that the run writes again and again, and that
others may replace when it has not been written for a while.
"""

import json
import os
import re
import socket
import threading
import time
import uuid
from contextlib import suppress
from typing import Final, NamedTuple

from beam_joins.transforms.engine.files.stored_files import read_version, remove_files, write_over

LEASE: Final = 120.0
"""The seconds that a claim in a store holds after it was written, which its run does four times as often."""
_SLACK: Final = 30.0
"""The seconds by which the clocks of two machines may differ."""
_TOKEN: Final = re.compile(r"[0-9a-f]{12}")
_given_up: Final = dict[str, set[str]]()
"""The tokens of the claims that this process has given up, and the paths where these may still be: a run has one claim for all of
its outputs.
"""


class Claim(NamedTuple):
    """A run's claim: ``token`` is its own; ``host``, ``pid`` and ``process`` (when that began) say where it
    runs; ``at`` in ns since 1970, and in a store ``until`` too.
    """

    token: str
    host: str
    pid: int
    process: str
    at: int
    until: int | None = None

    @property
    def is_dead(self) -> bool:
        """Whether the process of the claim has ended, as far as this machine can tell, or its lease has, or this process has given
        it up.
        """
        if self.token in _given_up:
            return True
        if self.until is not None and time.time_ns() > self.until + _SLACK * 1e9:
            return True
        if self.host != socket.gethostname():
            return False
        beginning = _beginning_of(self.pid)
        return beginning is None or bool(beginning and self.process and beginning != self.process)

    def same_process(self, other: "Claim") -> bool:
        """Whether two claims belong to the same process."""
        return self[1:4] == other[1:4]


class ClaimInStore(NamedTuple):
    """The claim in an object, if it is one, and the version of the object."""

    claim: Claim | None = None
    version: str | None = None


def new_claim() -> Claim:
    """The claim of a run that this process starts."""
    pid = os.getpid()
    return Claim(uuid.uuid4().hex[:12], socket.gethostname(), pid, _beginning_of(pid) or "", time.time_ns())


def claim_of(content: bytes) -> Claim | None:
    """The claim in the content of a file; a claim that was cut off, or is none of ours, counts as none."""
    try:
        token, host, pid, process, at, *until = json.loads(content)
    except (ValueError, TypeError):
        return None
    return Claim(token, host, pid, process, at, *until) if isinstance(pid, int) and _TOKEN.fullmatch(str(token)) else None


def claim_at(path: str) -> ClaimInStore:
    """The claim at a path in a store. Raises ``OSError``."""
    there = read_version(path)
    return ClaimInStore() if there is None else ClaimInStore(claim_of(there[0]), there[1])


def take_lease(path: str, mine: Claim, version: str | None) -> bool:
    """Whether a claim could be written at a path in a store whose object was of this version; from then on this process
    renews it. Raises ``OSError``.
    """
    if not _write(path, mine, version):
        return False
    _renewals.add(path, mine)
    return True


def share_lease(path: str, mine: Claim) -> None:
    """Have this process renew a claim too that another process of the run has written at a path in a store."""
    _renewals.add(path, mine)


def end_lease(path: str, mine: Claim) -> None:
    """Release the claim at a path in a store, if it is still there; to this process it is dead also where the store does not answer.
    Raises ``OSError``.
    """
    give_up(path, mine)
    there = claim_at(path).claim
    if there is not None and there.token == mine.token:
        remove_files([path])
    paths = _given_up[mine.token]
    paths.remove(path)
    if not paths:
        del _given_up[mine.token]


def give_up(path: str, mine: Claim) -> None:
    """Count a claim as that of a process that has ended: it stays at its path until a later run, also one of this process, takes the
    path over.
    """
    _renewals.remove(path, mine)
    _given_up.setdefault(mine.token, set()).add(path)


def _write(path: str, mine: Claim, version: str | None) -> bool:
    until = time.time_ns() + round(LEASE * 1e9)
    return write_over(path, json.dumps(mine._replace(until=until)).encode(), version)


class _Renewals:
    """The leases that this process renews, by their paths."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._lock = threading.Lock()
        self._renews: threading.Thread | None = None

    def add(self, path: str, mine: Claim) -> None:
        with self._lock:
            self._claims[path] = mine
            if self._renews is None:
                self._renews = threading.Thread(target=self._run, daemon=True, name="beam_joins leases")
                self._renews.start()

    def remove(self, path: str, mine: Claim) -> None:
        with self._lock:
            if self._claims.get(path) == mine:
                del self._claims[path]

    def _run(self) -> None:
        while True:
            time.sleep(LEASE / 4)
            self.renew()

    def renew(self) -> None:
        for path, mine in list(self._claims.items()):
            with suppress(OSError):  # it is tried again
                there = claim_at(path)
                if there.claim is None or there.claim.token != mine.token:
                    self.remove(path, mine)  # another run has taken it over
                elif path in self._claims:
                    _write(path, mine, there.version)


_renewals = _Renewals()
os.register_at_fork(after_in_child=_renewals.forget)


def _beginning_of(pid: int) -> str | None:
    """The start time of a process, which tells it from a later one with the same number, where the system says it;
    None if there is no such process.
    """
    try:
        with suppress(PermissionError):  # another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return None if state in "ZX" else fields[18]
