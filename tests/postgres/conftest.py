"""The command in a directory of a test's own, and a database of a test's own."""

import uuid
from pathlib import Path

import psycopg
import pytest

from beam_joins.pipelines.commands import programs
from tests.pipelines.orders_run import Run, run_of


@pytest.fixture
def beam_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command beam-joins, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return run_of(programs.main, capsys)


@pytest.fixture
def database(postgres: str) -> str:
    """An empty database."""
    name = f"d{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.replace("dbname=postgres", f"dbname={name}")
