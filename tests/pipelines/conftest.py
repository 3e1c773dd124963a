"""Fixtures of the tests of the commands."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beam_joins.pipelines.commands import programs
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles, write_sample
from beam_joins.pipelines.orders import main
from tests.pipelines import merged_tables
from tests.pipelines.big_query import BigQuery, served
from tests.pipelines.join_run import LEFT, RIGHT
from tests.pipelines.orders_run import BAD, GOOD, Run, run_of, write
from tests.pipelines.stores import emulators
from tests.pipelines.streaming.registry import Registry


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(own_directory: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, in a directory of its own."""
    return run_of(main, capsys)


@pytest.fixture
def beam_joins(own_directory: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command beam-joins, in a directory of its own with two changelogs."""
    write("l.jsonl", *LEFT)
    write("r.jsonl", *RIGHT)
    return run_of(programs.main, capsys)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_sample(tmp_path_factory.mktemp("small"), orders=2_000, customers=300, seed=5)


@pytest.fixture(scope="session")
def small_avro(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_sample(tmp_path_factory.mktemp("avro"), orders=2_000, customers=300, seed=5, format="avro")


@pytest.fixture
def with_bad_lines(own_directory: Path) -> list[object]:
    lines = [json.dumps({**GOOD, "order_id": number, "lsn": number}) for number in range(1, 11)]
    Path("o.jsonl").write_text("\n".join([*lines[:4], "", *BAD.values(), *lines[4:]]) + "\n")
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    return ["--orders", "o.jsonl", "--customers", "c.jsonl", "--min-amount", "1", "--output", "out/e.jsonl"]


@pytest.fixture
def big_query(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BigQuery]:
    """A server that the clients of BigQuery in this process find, with a project ``shop`` and a dataset ``sales``."""
    with served() as (server, address):
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", address)
        yield server


@pytest.fixture(scope="session")
def emulator_of_big_query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of a client of an emulator of BigQuery."""
    with emulators.big_query(tmp_path_factory.mktemp("bigquery")) as environment:
        yield environment


@pytest.fixture
def emulated_big_query(emulator_of_big_query: Mapping[str, str], own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator that the clients of BigQuery in this process find, with a project ``shop`` and a dataset ``sales``."""
    for name, value in emulator_of_big_query.items():
        monkeypatch.setenv(name, value)
    with merged_tables.big_query() as client:
        client.delete_dataset("sales", delete_contents=True, not_found_ok=True)
        client.create_dataset("sales")


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A schema registry that holds nothing yet."""
    with Registry.started() as started:
        yield started
