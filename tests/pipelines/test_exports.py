"""--metrics-file and --lineage-file: what Prometheus and OpenLineage read of a run is what its summary says."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from openlineage.client.naming import dataset as conventions
from prometheus_client.parser import text_string_to_metric_families

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.lineage_file import dataset_at
from beam_joins.pipelines.commands.metrics_file import FAMILIES, is_counter, read_metrics
from tests.pipelines.history import BOTH, arrive, cut
from tests.pipelines.join_run import BY, FILES, LEFT, RIGHT, TEA, refused
from tests.pipelines.orders_run import ENVIRONMENT, Run, read_lines, write
from tests.pipelines.test_read_delta import FEED

Samples: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float]
BAD = [{**RIGHT[0], "id": None}, {**RIGHT[0], "updated_at": "noon"}, {"id": "q", "op": "d", "lsn": 9, "updated_at": 9}]
OPTIONS = [*BY, "--how", "left", "--on-bad-record", "drop", "--latest", "now.parquet", "--output", "o.jsonl", "--json", "s.json"]
TABLE = ["table", "--input", "l.jsonl", "--latest", "t.jsonl"]
EVENT = {
    "eventTime": str,
    "eventType": str,
    "producer": str,
    "schemaURL": str,
    "run": dict,
    "job": dict,
    "inputs": list,
    "outputs": list,
}
"""The fields of OpenLineage's RunEvent; of these eventTime, producer, schemaURL, run and job are required."""


def samples(path: str = "m.prom") -> Samples:
    """The samples of a file by metric and labels, as Prometheus' own parser reads them."""
    text = Path(path).read_text()
    every = [each for family in text_string_to_metric_families(text) for each in family.samples]
    assert all(each.labels["pipeline"] == Path(path).stem for each in every)
    actual = {
        (each.name.removeprefix("beam_joins_"), frozenset((k, v) for k, v in each.labels.items() if k != "pipeline")): each.value
        for each in every
    }
    assert len(actual) == len(every), "each once"
    return actual


def value(name: str, path: str = "m.prom", **labels: str) -> float:
    return samples(path)[name, frozenset(labels.items())]


def counters(path: str = "m.prom") -> Samples:
    return {key: number for key, number in samples(path).items() if is_counter(key[0]) and key[0] != "runs_total"}


def events(path: str = "e.jsonl") -> list[dict[str, Any]]:
    """The events of a file, each of which has what the specification requires."""
    lines = read_lines(Path(path))
    for event in lines:
        assert {name: type(value) for name, value in event.items()} == EVENT
        datetime.fromisoformat(event["eventTime"])
        uuid.UUID(event["run"]["runId"])
        assert event["schemaURL"].endswith("/OpenLineage.json#/$defs/RunEvent")
        for each in (event["job"], *event["inputs"], *event["outputs"]):
            assert each["namespace"]
            assert each["name"]
        holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
        facets = [(kind, holder[kind]) for holder in holders for kind in ("facets", "inputFacets", "outputFacets") if kind in holder]
        for facet in (facet for _, each in facets for facet in each.values()):
            assert {"_producer", "_schemaURL"} < facet.keys()
            assert facet["_producer"] == event["producer"]
    return lines


def kinds(path: str = "e.jsonl") -> list[str]:
    return [event["eventType"] for event in events(path)]


def named(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in datasets]


def test_the_metrics_are_those_of_the_summary_and_those_of_several_runs_add_up(beam_joins: Run) -> None:
    write("r.jsonl", *RIGHT, *BAD)
    assert beam_joins("join", *OPTIONS, "--metrics-file", "m.prom").code == 0
    first, message = samples(), json.loads(Path("s.json").read_text())
    expected: Samples = {}

    def add(name: str, number: float, **labels: str) -> None:
        expected[name, frozenset(labels.items())] = number

    stages = {"bad_record": "read right rows", "null_key": "table of right rows"}
    for side, counts in message["inputs"].items():
        add("records_read_total", counts["read_records"], input=side)
        for reason, records in counts["dropped_records"].items():
            add("records_dropped_total", records, input=side, reason=reason, stage=stages[reason])
        for reason, records in counts["passed_over_records"].items():
            add("records_passed_over_total", records, input=side, reason=reason)
        for rows in {"rows", "unmatched_rows", "unreferring_rows"} & counts.keys():
            add(f"table_{rows}", counts[rows], input=side)
    for output, counts in message["outputs"].items():
        add("records_written_total", counts["written_records"], output=output)
        add("result_size_bytes", counts["size_bytes"], output=output)
    add("runs_total", 1, outcome="succeeded")
    add("last_run_success", 1)
    assert {key: first[key] for key in expected} == expected
    assert message["inputs"]["right"]["dropped_records"] == {"bad_record": 1, "null_key": 1}
    assert message["inputs"]["right"]["passed_over_records"] == {"absent_deletes": 1}
    dropped = {key: number for key, number in first.items() if key[0] == "records_dropped_total" and number}
    assert len(dropped) == 2, "the others are there, and zero"
    assert value("rows_in_total", stage="read left rows") == value("rows_in_total", stage="table of left rows") == len(LEFT)
    assert value("rows_out_total", stage="write latest") == 3
    assert value("unmatched_total", stage="join") == 3
    assert value("last_run_duration_seconds") == pytest.approx(message["total_seconds"], abs=0.01)
    assert value("last_run_processor_seconds") > 0
    assert value("last_run_peak_memory_bytes", process="command") > 1 << 26
    assert abs(value("last_run_end_timestamp_seconds") - time.time()) < 60
    once = counters()
    assert beam_joins("join", *OPTIONS, "--metrics-file", "m.prom").code == 0
    of_counts = {key: number for key, number in counters().items() if key[0] != "worker_seconds_total"}
    assert of_counts == {key: 2 * number for key, number in once.items() if key in of_counts}
    assert value("table_rows", input="left") == 3, "a gauge is of the last run"
    assert value("runs_total", outcome="succeeded") == 2


def test_a_failed_run_says_so_and_adds_nothing_to_the_counts(beam_joins: Run) -> None:
    options = ["join", *BY, "--latest", "now.jsonl", "--metrics-file", "m.prom", "--lineage-file", "e.jsonl"]
    assert beam_joins(*options).code == 0
    before, good = counters(), value("last_success_timestamp_seconds")
    gauges = {key: number for key, number in samples().items() if key[0].startswith(("table_", "result_"))}
    write("r.jsonl", *RIGHT, BAD[1])
    ran = beam_joins(*options)
    assert ran.code == 2
    assert value("last_run_success") == 0
    assert value("runs_total", outcome="failed") == value("runs_total", outcome="succeeded") == 1
    assert counters() == before
    assert value("last_success_timestamp_seconds") == good < value("last_run_end_timestamp_seconds")
    assert {key: number for key, number in samples().items() if key in gauges} == gauges
    assert kinds() == ["START", "COMPLETE", "START", "FAIL"]
    failed = events()[-1]
    assert failed["run"]["runId"] == events()[-2]["run"]["runId"] != events()[0]["run"]["runId"]
    error = failed["run"]["facets"]["errorMessage"]
    assert error["message"] == ran.err.partition(": ")[2].rstrip("\n")
    assert error["programmingLanguage"] == "PYTHON"
    assert all(not each["outputFacets"] for each in failed["outputs"])
    assert beam_joins(*options, "--on-bad-record", "drop").code == 0
    assert value("last_run_success") == 1


def test_a_run_that_fails_before_its_inputs_are_there_is_a_run(beam_joins: Run) -> None:
    ran = beam_joins(
        "join", *FILES[:2], "--right", "nowhere.jsonl", "--latest", "n.jsonl", "--metrics-file", "m.prom", "--lineage-file", "e.jsonl"
    )
    assert refused(ran) == "right rows: there is no file nowhere.jsonl"
    assert value("last_run_success") == value("records_read_total", input="left") == 0
    assert kinds() == ["START", "FAIL"]
    assert named(events()[0]["inputs"]) == [("file", os.path.abspath("l.jsonl")), ("file", os.path.abspath("nowhere.jsonl"))]
    assert "errorMessage" not in events()[0]["run"]["facets"]


def test_an_error_that_nothing_explains_is_a_failed_run_too(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("beam_joins.pipelines.commands.run_once.run_alone", broken)
    with pytest.raises(ZeroDivisionError):
        beam_joins(*TABLE, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl")
    assert value("runs_total", outcome="failed") == 1
    assert events()[-1]["run"]["facets"]["errorMessage"]["message"] == "ZeroDivisionError"


def test_a_run_that_is_interrupted_is_aborted(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.commands.run_once.run_alone", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr("beam_joins.pipelines.commands.run_command.leave_threads_behind", lambda code: None)
    ran = beam_joins(*TABLE, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl")
    assert ran.code == 143
    assert value("runs_total", outcome="interrupted") == 1
    assert value("last_run_success") == 0
    assert kinds() == ["START", "ABORT"]


DIES = """
import os, sys
from prometheus_client import exposition
from beam_joins.pipelines.commands.programs import main

def die(*_):
    os._exit(9)

class Os:
    def __getattr__(self, name):
        return die if name in ("rename", "replace") else getattr(os, name)

exposition.os = Os()  # for the client alone
main(sys.argv[1:])
"""


@pytest.mark.process
@pytest.mark.gate
def test_a_run_that_is_killed_while_it_writes_leaves_the_old_metrics_whole(beam_joins: Run) -> None:
    options = [*TABLE, "--metrics-file", "m.prom"]
    assert beam_joins(*options).code == 0
    before = Path("m.prom").read_bytes()
    died = subprocess.run([sys.executable, "-c", DIES, *options], env=ENVIRONMENT, check=False)
    assert died.returncode == 9
    assert Path("m.prom").read_bytes() == before
    left = [path.name for path in Path().glob("m.prom*")]
    assert len(left) == 2, "the new file was written, under another name"
    assert not [name for name in left if name.endswith(".prom") and name != "m.prom"], "which node_exporter does not read"


def test_runs_with_a_state_have_a_number_and_a_lag_and_one_without_files_keeps_them(beam_joins: Run) -> None:
    Path("in").mkdir()
    now = round(time.time() * 1e6)
    write("in/1.jsonl", {**TEA, "updated_at": now - 60_000_000}, {**TEA, "id": 2, "lsn": 2, "updated_at": now - 90_000_000})
    options = ["table", "--input", "in", "--state-dir", "state", "--latest", "now.parquet", "--changes", "out"]
    options += ["--metrics-file", "m.prom", "--lineage-file", "e.jsonl"]
    assert beam_joins(*options).code == 0
    assert value("run_number") == 1
    assert value("latest_event_timestamp_seconds") == pytest.approx((now - 60_000_000) / 1e6)
    assert 60 <= value("last_run_lag_seconds") < 180
    assert (value("state_rows"), value("state_size_bytes") > 0) == (4, True), "of the table and of its final rows"
    before = samples()
    assert "nothing to do" in beam_joins(*options).out
    assert value("last_success_timestamp_seconds") > before["last_success_timestamp_seconds", frozenset()]
    changed = {key[0] for key, number in samples().items() if number != before[key]}
    assert changed == {"last_success_timestamp_seconds"}
    assert kinds() == ["START", "COMPLETE"], "a run without anything to do is none"
    write("in/2.jsonl", {**TEA, "id": 3, "lsn": 7, "updated_at": now}, {**TEA, "id": 4, "lsn": 1, "updated_at": now})
    assert beam_joins(*options).code == 0
    assert (value("run_number"), value("records_read_total", input="input"), value("table_rows", input="input")) == (2, 4, 4)
    assert value("records_late_total", input="input", reason="late_applied") == 1
    start, end = events()[-2:]
    assert named(end["inputs"]) == [("file", os.path.abspath("in"))], "the folder is the dataset, not each file"
    assert named(end["outputs"]) == [("file", os.path.abspath("out")), ("file", os.path.abspath("now.parquet"))]
    assert start["job"]["name"] == events()[0]["job"]["name"]


def test_with_follow_each_round_is_a_run(beam_joins: Run) -> None:
    Path("in").mkdir()
    write("in/1.jsonl", TEA)

    def stop() -> None:
        give_up = time.monotonic() + 90
        while not Path("in/2.jsonl").exists() and time.monotonic() < give_up:
            time.sleep(0.05)
            if Path("m.prom").exists() and value("run_number") == 1:
                write("in/2.tmp", {**TEA, "id": 2, "lsn": 2})
                Path("in/2.tmp").rename("in/2.jsonl")
        while time.monotonic() < give_up and value("run_number") < 2:
            time.sleep(0.05)
        if Path("m.prom").exists():  # else the run has failed, and nobody waits for a signal
            signal.raise_signal(signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    state = ["--state-dir", "state", "--latest", "now.jsonl", "--follow", "--whole-files", "--every", "100ms"]
    ran = beam_joins("table", "--input", "in/*.jsonl", *state, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl")
    stopper.join()
    assert ran.code == 0, ran
    assert (value("runs_total", outcome="succeeded"), value("records_read_total", input="input")) == (2, 2)
    assert kinds() == ["START", "COMPLETE"] * 2
    runs = [event["run"]["runId"] for event in events()]
    assert list(Counter(runs).values()) == [2, 2]


def test_a_round_that_fails_ends_a_command_that_follows_as_a_failed_run(beam_joins: Run) -> None:
    Path("in").mkdir()
    Path("in/1.jsonl").write_text("{oops\n")
    state = ["--state-dir", "state", "--latest", "now.jsonl", "--follow", "--whole-files", "--every", "100ms"]
    ran = beam_joins("table", "--input", "in", *state, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl")
    assert ran.code == 2
    assert (value("last_run_success"), value("runs_total", outcome="failed")) == (0, 1)
    assert kinds() == ["START", "FAIL"]


def test_events_have_the_columns_of_typed_files_and_the_numbers_of_records(beam_joins: Run) -> None:
    orders = {**TEA, "of": {"shop": "x", "n": 1}}
    pq.write_table(pa.Table.from_pylist([{**orders, "id": n, "lsn": n} for n in range(1, 6)]), "l.parquet")
    options = ["--left", "l.parquet", *FILES[2:], "--foreign-key", "by", "--how", "left", "--select", "left.id, left.of, right.name"]
    results = ["--output", "o.parquet", "--latest", "now.jsonl", "--lineage-file", "e.jsonl"]
    assert beam_joins("join", *options, *results).code == 0
    start, complete = events()
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] < complete["eventTime"]
    assert {**start, "eventTime": "", "eventType": "", "inputs": [], "outputs": []} == {
        **complete, "eventTime": "", "eventType": "", "inputs": [], "outputs": [],
    }  # fmt: skip
    left, right = complete["inputs"]
    types = {each["name"]: each["type"] for each in left["facets"]["schema"]["fields"]}
    assert (types["id"], types["by"], types["op"]) == ("int64", "string", "string")
    assert "schema" not in right["facets"], "JSON lines do not tell types"
    assert [each["inputFacets"]["inputStatistics"]["rowCount"] for each in complete["inputs"]] == [5, 2]
    changes, latest = complete["outputs"]
    assert [each["outputFacets"]["outputStatistics"]["rowCount"] for each in (changes, latest)] == [8, 5]
    assert [each["outputFacets"]["outputStatistics"]["size"] for each in (changes, latest)] == [
        os.path.getsize(each) for each in ("o.parquet", "now.jsonl")
    ]
    fields = {each["name"]: each for each in changes["facets"]["schema"]["fields"]}
    assert list(fields) == pq.read_schema("o.parquet").names
    new = {each["name"]: each for each in fields["new"]["fields"]}
    assert (fields["new"]["type"], list(new), new["id"]["type"]) == ("struct", ["id", "of", "name"], "int64")
    assert [each["name"] for each in new["of"]["fields"]] == ["shop", "n"]
    assert start["outputs"][0]["facets"] == changes["facets"]


def test_a_namespace_of_the_environment_is_that_of_the_job(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert beam_joins(*TABLE, "--lineage-file", "e.jsonl").code == 0
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "nightly")
    assert beam_joins(*TABLE, "--lineage-file", "e.jsonl").code == 0
    jobs = [event["job"] for event in events()[::2]]
    assert [job["namespace"] for job in jobs] == ["beam_joins", "nightly"]
    assert {job["name"] for job in jobs} == {f"table:{os.path.abspath('t.jsonl')}"}


@pytest.mark.slow
def test_tables_at_addresses_are_datasets_at_their_paths(beam_joins: Run) -> None:
    orders = pa.table({"id": pa.array([7, 8], pa.int64()), "by": pa.array([1, 2], pa.int64())})
    people = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]})
    for path, rows in (("orders", orders), ("people", people)):
        write_deltalake(path, rows, configuration=FEED)
    command = ["join", "--left", "delta:orders", "--left-key", "id", "--right", "delta:people", "--right-key", "id"]
    command += ["--foreign-key", "by", "--how", "left", "--state-dir", "state", "--to", "delta:joined"]
    ran = beam_joins(*command, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl", "--json", "s.json")
    assert ran.code == 0, ran
    written = json.loads(Path("s.json").read_text())["outputs"]["to"]["written_records"]
    assert (value("records_read_total", input="left"), value("records_read_total", input="right")) == (2, 1)
    assert value("records_written_total", output="to") == written >= 2
    event = events()[-1]
    assert named(event["inputs"]) == [("file", os.path.abspath("orders")), ("file", os.path.abspath("people"))]
    assert named(event["outputs"]) == [("file", os.path.abspath("joined"))]
    assert [each["inputFacets"]["inputStatistics"]["rowCount"] for each in event["inputs"]] == [2, 1]
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == written
    fields = [[each["name"] for each in dataset["facets"]["schema"]["fields"]] for dataset in (*event["inputs"], *event["outputs"])]
    assert fields[-1] == ["left_id", "by", "right_id", "name"]
    assert fields[1][:2] == ["id", "name"]


@pytest.mark.parametrize(
    ("address", "table", "convention"),
    [
        ("/data/o.jsonl", "", conventions.LocalFileSystem("/data/o.jsonl")),
        ("s3://lake/a/b.parquet", "", conventions.S3("lake", "a/b.parquet")),
        ("delta:gs://lake/orders", "", conventions.GCS("lake", "orders")),
        ("azfs://s/c/a/b", "", conventions.WASBS("c", "s", "a/b")),
        ("abfss://c@s.dfs.core.windows.net/a/b", "", conventions.ABFSS("c", "s", "a/b")),
        ("kafka://b:9093/shop.orders", "shop.orders", conventions.Kafka("b", "9093", "shop.orders")),
        ("kafka://b,c/orders", "orders", conventions.Kafka("b", "9092", "orders")),
        ("postgres://me@db/shop", "sales.orders", conventions.Postgres("db", "5432", "shop", "sales", "orders")),
        ("postgresql://me:pw@db:5433/my%20shop?sslmode=require", "o", conventions.Postgres("db", "5433", "my shop", "public", "o")),
        ("postgres:///shop", "orders", conventions.Postgres("localhost", "5432", "shop", "public", "orders")),
    ],
)
def test_datasets_are_named_by_the_conventions_of_openlineage(address: str, table: str, convention: conventions.DatasetNaming) -> None:
    assert dataset_at(address, table) == (convention.get_namespace(), convention.get_name())


@pytest.mark.process
def test_standard_streams_are_no_datasets(tmp_path: Path) -> None:
    rows = "".join(f"{json.dumps(row)}\n" for row in LEFT)
    command = [sys.executable, "-m", "beam_joins", "table", "--input", "-", "--latest", "-"]
    command += ["--lineage-file", str(tmp_path / "e.jsonl"), "--metrics-file", str(tmp_path / "m.prom")]
    ran = subprocess.run(command, input=rows, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 3), ran
    event = events(str(tmp_path / "e.jsonl"))[-1]
    assert (event["inputs"], event["outputs"], event["job"]["name"]) == ([], [], "table")
    assert value("records_written_total", str(tmp_path / "m.prom"), output="latest") == 3


def test_the_options_are_those_of_all_commands_and_of_files_with_options(run: Run, small: Any) -> None:
    arrive(1, cut(small, 1)[0])
    Path("o.toml").write_text('metrics-file = "m.prom"\nlineage-file = "e.jsonl"\n')
    assert run(*BOTH, "--options", "o.toml").code == 0
    assert value("records_read_total", input="orders") == len(small.orders.read_text().splitlines())
    assert value("runs_total", outcome="succeeded") == 1
    assert kinds() == ["START", "COMPLETE"]


def test_a_dry_run_writes_neither(beam_joins: Run) -> None:
    options = ["--metrics-file", "m.prom", "--lineage-file", "e.jsonl", "--dry-run"]
    assert beam_joins(*TABLE, *options).code == 0
    assert beam_joins(*TABLE, *options, "--key", "nowhere").code == 2
    assert not Path("m.prom").exists()
    assert not Path("e.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics-file", "m.txt"], "--metrics-file: m.txt must end in .prom, as node_exporter reads no other files"),
        (["--metrics-file", "nowhere/m.prom"], "--metrics-file: nowhere/m.prom is no file in a directory that is there: name another"),
        (["--lineage-file", "."], "--lineage-file: . is no file in a directory that is there: name another one, or make"),
        (["--lineage-file", "t.jsonl"], "--latest and --lineage-file are both t.jsonl: give them different names"),
        (["--lineage-file", "l.jsonl"], "--lineage-file: --input l.jsonl would read what is written to l.jsonl: name another place"),
        (["--lineage-file", "rows.prom"], "--lineage-file: rows.prom has other lines than events of OpenLineage: name another file"),
        (["--metrics-file", "other.prom"], "--metrics-file: other.prom has metrics of another program: name another file"),
        (["--metrics-file", "rows.prom"], "--metrics-file: rows.prom has no metrics: name another file"),
    ],
)
@pytest.mark.parametrize("state", [[], ["--state-dir", "state"]])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_run(
    beam_joins: Run, options: list[str], message: str, state: list[str]
) -> None:
    Path("other.prom").write_text("node_load1 0.5\n")
    Path("rows.prom").write_text('{"id": 1}\n')
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert refused(beam_joins(*TABLE, *options, *state)).startswith(message)
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize("options", [["in", "--state-dir", "state"], ["in/*.jsonl"]])
def test_a_file_that_an_input_would_find_is_refused_and_not_made(beam_joins: Run, options: list[str]) -> None:
    Path("in").mkdir()
    write("in/1.jsonl", TEA)
    ran = beam_joins("table", "--input", *options, "--latest", "now.jsonl", "--lineage-file", "in/e.jsonl")
    assert refused(ran).startswith(f"--lineage-file: --input {options[0]} would read what is written to in/e.jsonl")
    assert not Path("in/e.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "package", "message"),
    [
        (["--metrics-file", "m.prom"], "prometheus_client", "--metrics-file needs prometheus-client: pip install "),
        (["--lineage-file", "e.jsonl"], "openlineage.client.event_v2", "--lineage-file needs openlineage-python: pip install "),
    ],
)
def test_a_missing_extra_is_one_sentence(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch, option: list[str], package: str, message: str
) -> None:
    for module in ("metrics_file", "lineage_file"):
        monkeypatch.delitem(sys.modules, f"beam_joins.pipelines.commands.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    for dry in ([], ["--dry-run"]):
        assert refused(beam_joins(*TABLE, *option, *dry)).startswith(message)
    assert not Path("t.jsonl").exists()


def test_metrics_that_cannot_be_written_fail_the_command_whose_results_stay(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    assert beam_joins(*TABLE, "--lineage-file", "e.jsonl").code == 0  # the module is there
    monkeypatch.setattr("beam_joins.pipelines.commands.metrics_file.write_to_textfile", full)
    ran = beam_joins(*TABLE, "--metrics-file", "m.prom", "--lineage-file", "e.jsonl")
    assert (ran.code, ran.err) == (1, "python -m pipelines.table: cannot write m.prom: No space left on device\n")
    assert kinds() == ["START", "COMPLETE"] * 2
    assert len(read_lines(Path("t.jsonl"))) == 3
    Path("l.jsonl").write_text("{oops\n")
    ran = beam_joins(*TABLE, "--metrics-file", "m.prom")
    assert ran.code == 2
    assert ran.err.splitlines()[0] == "python -m pipelines.table: cannot write m.prom: No space left on device"
    assert "not JSON" in ran.err.splitlines()[1]


def test_metrics_of_other_versions_are_left_out_and_the_pipeline_is_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    lines = ['rows_in_total{pipeline="old",stage="join"} 7', "gone_total 3", 'rows_out_total{pipeline="old"} 2']
    path.write_text("".join(f"beam_joins_{line}\n" for line in lines))
    assert read_metrics(str(path)) == {("rows_in_total", ("join",)): 7.0}
    path.chmod(0o000)
    if os.access(path, os.R_OK):
        return  # of root nothing is hidden
    with pytest.raises(InputError, match="cannot read"):
        read_metrics(str(path))


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, (about, labels) in FAMILIES.items():
        assert name == name.lower()
        assert about.endswith(".")
        assert {"micros", "millis", "kb", "mb", "percent"}.isdisjoint(name.split("_")), "base units"
        assert not [label for label in labels if label in name.split("_")], "labels are no part of names"
    units = [name for name in FAMILIES if "seconds" in name or "bytes" in name]
    assert all(name.removesuffix("_total").endswith(("_seconds", "_bytes")) for name in units), "the unit stands last"
