"""A PostgreSQL server of a test's own: on loopback, in a directory that is removed, with logical decoding by
wal2json.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_prepared_transactions": "5",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
    "listen_addresses": "127.0.0.1",
}
PLUGINS = {"output_plugin_libraries": "'pgoutput, test_decoding, wal2json'"}
"""The plugins that roles may use, of servers that ask for them: PostgreSQL 15.20, 16.15, 17.11, 18.6 and later ones."""


class Server(NamedTuple):
    """A server: what to connect with, and how it is stopped and started again."""

    conninfo: str
    stop: Callable[[str], None]
    start: Callable[[], None]


@contextmanager
def server(bin_: Path, port: int | None = None, copy: Path | None = None, *, promoted: bool = True) -> Iterator[str]:
    """A server, on the port of one that has stopped or a free one; gives what to connect with. It has the data of a ``copy``, and is
    ``promoted`` then, or goes on with its timeline.
    """
    with restartable(bin_, port, copy, promoted=promoted) as running:
        yield running.conninfo


@contextmanager
def restartable(bin_: Path, port: int | None = None, copy: Path | None = None, *, promoted: bool = True) -> Iterator[Server]:
    """The same, as a server that can be stopped, in a mode of ``pg_ctl``, and started again."""
    directory = Path(tempfile.mkdtemp(prefix="beam-joins-postgres-"))
    # PostgreSQL refuses to run as root
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(directory, user)
    data, log = directory / "data", directory / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port or free.getsockname()[1]

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], check=True, capture_output=True, user=user, cwd=directory)

    try:
        if copy is None:
            run(bin_ / "initdb", "--pgdata", data, "--username", "test", "--auth", "trust", "--no-sync")
        else:
            shutil.copytree(copy, data)
            if promoted:
                (data / "standby.signal").touch()
            run_as_root = ["chown", "--recursive", user, data] if user is not None else ["true"]
            subprocess.run(list(map(str, run_as_root)), check=True)
            data.chmod(0o700)
        settings = {**SETTINGS, **_known(bin_, PLUGINS), "unix_socket_directories": directory, "port": port}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        is_running = False

        def start() -> None:
            nonlocal is_running
            # pg_ctl hands its pipes to the server, so nothing may wait for their end
            started = [str(bin_ / "pg_ctl"), "--pgdata", str(data), "--log", str(log), "--wait", "--options", options, "start"]
            subprocess.run(started, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd=directory)
            is_running = True

        def stop(mode: str) -> None:
            nonlocal is_running
            is_running = False
            run(bin_ / "pg_ctl", "--pgdata", data, "--mode", mode, "--wait", "stop")

        start()
        try:
            if copy is not None and promoted:
                run(bin_ / "pg_ctl", "--pgdata", data, "--wait", "promote")
            yield Server(f"host=127.0.0.1 port={port} user=test dbname=postgres", stop, start)
        finally:
            if is_running:
                stop("immediate")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _known(bin_: Path, settings: dict[str, str]) -> dict[str, str]:
    """The settings that a server knows."""
    described = subprocess.run([bin_ / "postgres", "--describe-config"], check=True, capture_output=True, text=True).stdout
    known = {line.partition("\t")[0] for line in described.splitlines()}
    return {name: value for name, value in settings.items() if name in known}
