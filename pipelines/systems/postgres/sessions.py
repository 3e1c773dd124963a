"""Sessions with PostgreSQL servers. A new one takes longer than the statements of a small round, and its server process has to read
the catalog anew: so rounds keep them for each other.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from beam_joins.extras import needs
from beam_joins.pipelines.base.shared_by_rounds import shared_by_rounds

with needs("postgres"):
    import psycopg

_CONNECT_SECONDS: Final = 10
"""The longest time of an attempt to connect, in seconds, unless the user says another."""
_IDLE_SECONDS: Final = 30.0
"""A session that nobody has used for so long is not used again: networks drop idle connections without a word."""
_MOST_SECONDS: Final = 300.0
"""A session that is older is not used again: the name of a server may have become that of another one."""

_FORGET: Final = "DISCARD TEMP"
"""A temporary table that stays would keep others from dropping the types of its columns."""


class _Sessions:
    """The sessions that rounds share."""

    def __init__(self) -> None:
        self.waiting = dict[Any, list[tuple[Any, float]]]()
        """Those that wait for their next user, by what they were opened with, each with the time when its last one ended it."""
        self.opened = WeakKeyDictionary[Any, tuple[Any, float]]()
        """What each of these, and of those in use, was opened with, and when."""

    def close(self) -> None:
        """Close those that wait."""
        for each in self.waiting.values():
            for connection, _ in each:
                connection.close()


@contextmanager
def session(conninfo: str, settings: Sequence[str], **options: Any) -> Iterator[Any]:
    """A session within the block, as :func:`open_session` opens it."""
    connection = open_session(conninfo, settings, **options)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    end_session(connection)


def open_session(conninfo: str, settings: Sequence[str], **options: Any) -> Any:
    """A session that commits by itself, and begins with statements that put its settings; one that is kept, where there is any.

    Its user calls :func:`end_session`, or closes it, as after an error. One for replication is never kept, as it has slots of its own.
    """
    of = conninfo, *settings, *sorted(options.items())
    kept = None if "replication" in options else shared_by_rounds(_Sessions)
    while kept is not None and kept.waiting.get(of):
        connection, since = kept.waiting[of].pop()
        _, begun = kept.opened[connection]
        now = time.monotonic()
        if now - since <= _IDLE_SECONDS and now - begun <= _MOST_SECONDS:
            with suppress(psycopg.OperationalError):  # the server has ended it
                _put(connection, settings)
                return connection
        connection.close()
    named = psycopg.conninfo.conninfo_to_dict(conninfo)
    if "connect_timeout" not in named and "PGCONNECT_TIMEOUT" not in os.environ:
        options["connect_timeout"] = _CONNECT_SECONDS
    connection = psycopg.connect(conninfo, autocommit=True, **options)
    _put(connection, settings)
    if kept is not None:
        kept.opened[connection] = of, time.monotonic()
    return connection


def end_session(connection: Any) -> None:
    """End a session, or keep it for the next user, without its temporary tables, unless it is in the middle of something."""
    kept, idle = shared_by_rounds(_Sessions), psycopg.pq.TransactionStatus.IDLE
    if kept is not None and connection in kept.opened and connection.info.transaction_status == idle:
        with suppress(psycopg.Error):
            connection.execute(_FORGET)
            of, _ = kept.opened[connection]
            kept.waiting.setdefault(of, []).append((connection, time.monotonic()))
            return
    connection.close()


def _put(connection: Any, settings: Sequence[str]) -> None:
    for statement in settings:
        connection.execute(statement)
