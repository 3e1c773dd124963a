"""Packages that a program does not import, and those that it needs."""

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from beam_joins.pipelines.base.hidden_packages import hide_packages

NAMES = ("pandas", "google.cloud", "google.auth", "apitools", "google.protobuf", "pyarrow")


def hidden(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    hide_packages(arguments)
    names = {*NAMES}
    for name in NAMES:
        with suppress(ModuleNotFoundError):
            assert sys.meta_path[0].find_spec(name, None) is None
            names.remove(name)
    return names


def test_pandas_and_the_packages_of_google_are_hidden_where_no_argument_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hidden(["join", "--left", "a.jsonl", "--state-dir=state"], monkeypatch) == {
        "pandas",
        "google.cloud",
        "google.auth",
        "apitools",
    }


@pytest.mark.parametrize(
    "argument",
    ["gs://bucket/a.jsonl", "--state-dir=gs://bucket/state", "--to=bigquery://project/set?table=t", "--runner=DataflowRunner"],
)
def test_an_address_or_a_runner_of_google_needs_its_packages(argument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hidden(["join", argument], monkeypatch) == {"pandas"}


@pytest.mark.parametrize("argument", ["{}/views.sql", "--options={}/views.toml"])
def test_so_does_one_in_a_file_of_options(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / Path(argument.partition("/")[2])
    path.write_text("left = 'a.jsonl'")
    assert "google.cloud" in hidden([argument.format(tmp_path)], monkeypatch)
    path.write_text("left = 'gs://bucket/a.jsonl'")
    assert hidden([argument.format(tmp_path)], monkeypatch) == {"pandas"}


def test_what_beam_says_of_packages_of_google_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden([], monkeypatch)
    says = ["apitools not found, and bigquery client libraries are not available despite the import", "another message"]
    records = [logging.LogRecord("root", logging.WARNING, "", 1, text, (), None) for text in says]
    assert [bool(logging.getLogger().filter(record)) for record in records] == [False, True]
