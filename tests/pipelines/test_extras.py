"""A package of an extra that is not installed is one error, which says how to add it to this installation."""

import importlib
import re
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyarrow as pa
import pytest

from beam_joins import extras
from beam_joins.errors import InputError
from beam_joins.extras import MissingExtra, installing, needs
from beam_joins.io import WriteDelta
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.formats import msgpack
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.registry import growing_suffixes
from beam_joins.pipelines.systems.delta import write_delta
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from beam_joins.pipelines.systems.kafka.topics import kafka
from beam_joins.pipelines.yaml import __main__ as of_yaml
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run, run_of

POSTGRES = ("write_postgres", "postgres_table", "postgres_server", "slot_rounds", "slot_setup")


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("delta", "pip install 'deltalake>=1.6'"),
        ("ducklake", "pip install 'duckdb>=1.5' 'duckdb-extension-ducklake>=1.5'"),
        ("postgres", "pip install 'psycopg[binary]>=3.1'"),
        ("gcp", "pip install 'apache-beam[gcp]'"),
    ],
)
def test_the_command_installs_the_packages_of_the_extra_and_no_others(extra: extras.Extra, command: str) -> None:
    assert installing(extra) == command


def test_without_an_installation_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", absent)
    assert installing("kafka") == "pip install 'beam-joins[kafka]'"


def test_a_package_that_cannot_be_imported_is_told_with_the_reason() -> None:
    with (
        pytest.raises(MissingExtra, match=r"PostgreSQL needs psycopg, which cannot be imported \(no pq wrapper\): pip install"),
        needs("postgres"),
    ):
        raise ImportError("no pq wrapper\nattempts made: ...")


@pytest.mark.parametrize("module", POSTGRES)
def test_a_module_that_needs_psycopg_says_so_when_it_is_imported(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for each in POSTGRES:
        monkeypatch.delitem(sys.modules, f"beam_joins.pipelines.systems.postgres.{each}", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="^PostgreSQL needs psycopg: pip install "):
        importlib.import_module(f"beam_joins.pipelines.systems.postgres.{module}")


def test_a_missing_extra_is_an_import_error_and_a_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ImportError, match="^Kafka needs confluent-kafka: pip install ") as raised:
        kafka()
    assert isinstance(raised.value, InputError)
    monkeypatch.delitem(sys.modules, "confluent_kafka")
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(ImportError, match="^schema_registry= needs the client of confluent-kafka: pip install "):
        registry_settings("http://localhost:1")
    monkeypatch.setattr(write_delta, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="^Delta tables need deltalake: pip install "):
        WriteDelta("delta")


DELTA, LAKE = "Delta tables need deltalake", "DuckLake needs duckdb"
TABLE = ["table", "--input", "l.jsonl"]


@pytest.mark.parametrize(
    ("package", "arguments", "says"),
    [
        ("deltalake", ["table", "--input=delta:d", "--key=id", "--latest=x.jsonl"], DELTA),
        ("deltalake", ["table", "--input=delta:d", "--key=id", "--latest=x.jsonl", "--state-dir=s"], DELTA),
        ("deltalake", [*TABLE, "--to=delta:d"], DELTA),
        ("deltalake", [*TABLE, "--to=delta:d", "--state-dir=s", "--dry-run"], DELTA),
        ("duckdb", [*TABLE, "--to=ducklake:l?table=t"], LAKE),
        ("duckdb", [*TABLE, "--to=ducklake:l?table=t", "--state-dir=s"], LAKE),
        ("msgpack", ["table", "--input=m.msgpack", "--latest=x.jsonl"], "MessagePack files need msgpack"),
        ("msgpack", [*TABLE, "--latest=x.msgpack"], "MessagePack files need msgpack"),
        ("msgpack", ["explain", "m.msgpack", "m.msgpack"], "MessagePack files need msgpack"),
        ("rich", ["explain", "l.jsonl", "l.jsonl"], "beam-joins explain needs rich"),
    ],
)
def test_a_command_without_an_extra_is_one_sentence(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch, package: str, arguments: list[str], says: str
) -> None:
    for module in [name for name in sys.modules if re.search(r"^rich\.|beam_joins\.pipelines\..*(delta|duck_lake|terminal)", name)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    Path("m.msgpack").write_bytes(b"\x81\xa2id\x01")
    assert refused(beam_joins(*arguments)).startswith(f"{says}: pip install ")


def test_a_pipeline_in_yaml_without_its_packages_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.startswith(("jinja2", "apache_beam.yaml"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    (tmp_path / "p.yaml").write_text("pipeline: {type: chain, transforms: []}")
    main: Callable[[list[str]], int] = of_yaml.main
    said = refused(run_of(main, capsys)(tmp_path / "p.yaml"))
    assert said.startswith("Beam YAML needs the packages of apache-beam[yaml]: pip install ")


def test_files_of_messagepack_alone_need_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    assert ".jsonl" in growing_suffixes()
    (tmp_path / "a.msgpack").write_bytes(b"\x81\xa2id\x01")
    with pytest.raises(MissingExtra, match="^MessagePack files need msgpack: pip install "):
        find_changelog("rows", str(tmp_path / "a.msgpack"), Columns(key=("id",), timestamp="id"))
    with pytest.raises(MissingExtra, match="^MessagePack files need msgpack: pip install "):
        msgpack.MsgpackEncoder(pa.schema([]), pairs=False)
