"""Sessions that rounds share."""

from contextlib import suppress

import psycopg
import pytest

from beam_joins.pipelines.base.shared_by_rounds import rounds_share
from beam_joins.pipelines.systems.postgres import sessions
from beam_joins.pipelines.systems.postgres.sessions import end_session, open_session, session

SETTINGS = ("SET TimeZone TO 'UTC'",)


def process_of(conninfo: str, *settings: str) -> int:
    with session(conninfo, settings or SETTINGS) as connection:
        return int(connection.info.backend_pid)


def test_rounds_use_a_session_again_and_a_run_alone_does_not(postgres: str) -> None:
    assert process_of(postgres) != process_of(postgres)
    with rounds_share():
        first = process_of(postgres)
        assert process_of(postgres) == first
        assert process_of(postgres, "SET TimeZone TO 'CET'") != first
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [first]).fetchone() is None


def test_two_that_need_a_session_at_once_have_two(postgres: str) -> None:
    with rounds_share(), session(postgres, SETTINGS) as one, session(postgres, SETTINGS) as other:
        assert one.info.backend_pid != other.info.backend_pid


def test_a_session_has_its_settings_for_each_user(postgres: str) -> None:
    with rounds_share():
        with session(postgres, SETTINGS) as connection:
            connection.execute("SET TimeZone TO 'CET'")
        with session(postgres, SETTINGS) as connection:
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_a_session_has_no_temporary_tables_of_an_earlier_user(postgres: str) -> None:
    with rounds_share():
        with session(postgres, SETTINGS) as connection:
            connection.execute("CREATE TEMPORARY TABLE staged (id int)")
            first = connection.info.backend_pid
        with session(postgres, SETTINGS) as connection:
            assert connection.info.backend_pid == first
            assert connection.execute("SELECT to_regclass('pg_temp.staged')").fetchone() == (None,)


def test_a_session_that_has_failed_or_is_in_a_transaction_is_not_used_again(postgres: str) -> None:
    with rounds_share():
        first = process_of(postgres)
        with suppress(ValueError), session(postgres, SETTINGS) as connection:
            raise ValueError
        assert connection.closed
        connection = open_session(postgres, SETTINGS)
        connection.execute("BEGIN")
        end_session(connection)
        assert connection.closed
        assert process_of(postgres) != first


def test_a_session_that_the_server_has_ended_is_replaced(postgres: str) -> None:
    with rounds_share():
        first = process_of(postgres)
        with psycopg.connect(postgres) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
        assert process_of(postgres) != first


@pytest.mark.parametrize("limit", ["_IDLE_SECONDS", "_MOST_SECONDS"])
def test_a_session_that_is_idle_for_long_or_old_is_not_used_again(limit: str, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, limit, -1.0)
    with rounds_share():
        assert process_of(postgres) != process_of(postgres)


def test_a_session_for_replication_is_never_used_again(postgres: str) -> None:
    with rounds_share():
        with session(postgres, (), replication="database") as one:
            pass
        assert one.closed
