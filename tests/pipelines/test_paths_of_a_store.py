"""Commands, readers and writers with paths of an object store: they write what they write on a disk, or refuse the path."""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import InputError, StateFolder, StateRefused, TableFromChangelog
from beam_joins.io import ReadChangelog, ReadGrowingFiles, ReadParquet, WriteChangelog, WriteParquet
from beam_joins.pipelines.base.paths import matching
from beam_joins.pipelines.commands import rounds
from beam_joins.transforms.connect.files import open_file
from beam_joins.transforms.engine.files import reachability, stored_files
from tests.object_store import Forbidden, Store
from tests.pipelines.history import FORMATS, tree
from tests.pipelines.history import _write as write_as
from tests.pipelines.join_run import LEFT, RIGHT, refused
from tests.pipelines.orders_run import Run

ORDERS = [{"order_id": n, "customer_id": n % 3, "amount": 1.5, "op": "c", "lsn": n, "updated_at": n} for n in range(1, 9)]
CUSTOMERS = [{"customer_id": n, "name": f"c{n}", "tier": "a", "op": "c", "lsn": 20 + n, "updated_at": 20 + n} for n in range(3)]
ROWS = [{"id": n, "lsn": n, "name": f"{n}"} for n in range(1, 5)]
BY = ["--foreign-key", "customer_id", "--left-key", "order_id", "--right-key", "customer_id", "--select", "left.order_id, right.name"]


@pytest.fixture
def files(own_directory: Path, store: Store) -> None:
    """The same inputs on the disk and in the store: two changelogs in each format, and small ones."""
    for format_ in FORMATS:
        for side, rows in (("orders", ORDERS), ("customers", CUSTOMERS)):
            path = Path("in", format_, side, f"1.{format_}")
            path.parent.mkdir(parents=True)
            write_as(path, rows, format_, side)
    Path("in/gz").mkdir()
    Path("out").mkdir()
    Path("in/gz/1.jsonl.gz").write_bytes(gzip.compress(Path("in/jsonl/orders/1.jsonl").read_bytes(), mtime=0))
    for name, small in (("l", LEFT), ("r", RIGHT), ("rows", ROWS)):
        Path(f"in/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in small))
    for name, content in tree("in").items():
        store.put(f"bucket://{name}", content)


def on_both(command: Callable[[str], None], store: Store) -> None:
    """Do the same with paths on the disk and in the store, and compare all that was written, hidden files too."""
    for place in ("", "bucket://"):
        command(place)
    actual = {f"out/{name}": content for name, content in store.content("bucket://out/").items()}
    expected = tree()
    assert sorted(actual) == sorted(expected)
    for name, content in actual.items():
        assert _records(name, content) == _records(name, expected[name]), name


def _records(name: str, content: bytes) -> Any:
    """The content of a file without what tells two runs apart."""
    if name.endswith(".parquet"):
        return pq.read_table(pa.BufferReader(content)).to_pylist()
    return content


def done(ran: Any) -> None:
    assert ran.code == 0, ran.err


@pytest.mark.slow
@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "avro"])  # whose files say in which run they were written
def test_a_join_of_files_of_each_format(beam_joins: Run, store: Store, files: None, format_: str) -> None:
    def joined(place: str) -> None:
        given = [f"--{side}={place}in/{format_}/{name}/*" for side, name in (("left", "orders"), ("right", "customers"))]
        done(beam_joins("join", *given, *BY, "--output", f"{place}out/c.{format_}", "--latest", f"{place}out/l.{format_}"))

    on_both(joined, store)


RUN = ["--state-dir", "{}state/s", "--changes", "{}out/changes", "--latest", "{}out/latest.jsonl"]
COMMANDS: dict[str, list[str]] = {
    "a join in runs": ["join", "--left={}in/jsonl/orders", "--right={}in/csv/customers/", *BY, *RUN],
    "a table of a gzip file": ["table", "--input={}in/gz/1.jsonl.gz", "--key=order_id", "--output={}out/a.csv.gz"],
    "a table in parts": [
        "table",
        "--input={}in/rows.jsonl",
        "--timestamp-by=",
        "--apply-as-deletes=",
        "--output={}out/a.jsonl",
        "--parts",
    ],
    "upserts": ["table", "--input={}in/l.jsonl", "--output={}out/a.jsonl", "--output-records=upserts"],
    "pairs": ["table", "--input={}in/l.jsonl", "--output={}out/a.jsonl", "--output-records=pairs"],
    "orders": ["orders", "--orders={}in/jsonl/orders/1.jsonl", "--customers={}in/jsonl/customers/*.jsonl", "--output={}out/a.jsonl"],
    "blocks": ["table", "--input={}in/l.jsonl", "--latest={}out/a.jsonl", "--beam_joins_blocks={}out/blocks"],
    "a dry run": ["table", "--input={}in/l.jsonl", "--latest={}out/a.jsonl", "--dry-run"],
    "a dry run of runs": ["join", "--left={}in/jsonl/orders", "--right={}in/jsonl/customers", *BY, *RUN, "--dry-run"],
    "explain": ["explain", "{}in/l.jsonl", "{}in/r.jsonl", "--foreign-key=by", "--svg={}out/a.svg"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(beam_joins: Run, store: Store, files: None, name: str) -> None:
    on_both(lambda place: done(beam_joins(*(each.format(place) for each in COMMANDS[name]))), store)
    assert ("dry run" in name) == (store.names("bucket://out/") == [])


def test_summary_and_report_are_written(beam_joins: Run, store: Store, files: None) -> None:
    about = ["--json=bucket://out/s.json", "--report=bucket://out/r.html"]
    done(beam_joins("table", "--input=bucket://in/l.jsonl", "--latest=bucket://out/a.jsonl", *about))
    assert json.loads(store.objects["bucket://out/s.json"])["outputs"]["latest"]["paths"] == ["bucket://out/a.jsonl"]
    assert store.objects["bucket://out/r.html"].startswith(b"<!doctype html>")


def test_a_state_is_shown_verified_and_copied(beam_joins: Run, store: Store, files: None) -> None:
    run = ["table", "--input=bucket://in/rows.jsonl", "--timestamp-by=", "--apply-as-deletes=", "--latest=bucket://out/a.jsonl"]
    done(beam_joins(*run, "--state-dir=bucket://state/s"))
    done(beam_joins("state", "copy", "bucket://state/s", "bucket://state/t"))
    with store.failing("open", ".arrow", lambda: AssertionError("a file of the state is read")):
        shown = [beam_joins("state", "show", f"bucket://state/{name}") for name in "st"]
    assert shown[0] == shown[1]
    assert "4 rows" in shown[0].out
    assert beam_joins("state", "check", "bucket://state/t").out.endswith("files as written\n")
    assert beam_joins(*run, "--state-dir=bucket://state/t").out.startswith("no new files")
    store.objects.pop(next(path for path in store.objects if path.startswith("bucket://state/t/runs")))
    assert beam_joins("state", "check", "bucket://state/t").code == 1


def test_files_that_arrive_are_followed(beam_joins: Run, store: Store, files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("bucket://in/day/1.jsonl", store.objects["bucket://in/l.jsonl"])
    arriving = [json.dumps({**LEFT[0], "id": 9, "lsn": 9}).encode() + b"\n"]

    def wait(interruption: Any, seconds: float) -> None:
        if seconds > rounds.LOOK_SECONDS:  # between two rounds
            if arriving:
                store.put("bucket://in/day/2.jsonl", arriving.pop())
            else:
                interruption.by = 15

    monkeypatch.setattr(rounds.Interruption, "wait", wait)
    following = ["--state-dir=bucket://state/s", "--changes=bucket://out/c", "--follow", "--every=9m", "--whole-files"]
    ran = beam_joins("table", "--input=bucket://in/day", *following)
    assert [line.partition(", 0 late")[0] for line in ran.out.splitlines()] == [
        "run 1: 1 file, 4 records, 4 changes",
        "run 2: 1 file, 1 record, 1 change",
        "stopped after 2 runs; the results are in bucket://out/c",
    ]
    assert store.names("bucket://out/") == ["c/changes-000001.jsonl", "c/changes-000002.jsonl"]


READERS: dict[str, Callable[[str], Any]] = {
    "ReadChangelog of rows": lambda place: ReadChangelog(f"{place}in/rows.jsonl", key="id", sequence_by="lsn"),
    "ReadGrowingFiles": lambda place: ReadGrowingFiles(f"{place}in/*.jsonl", timestamp_by="lsn", follow=False),
    "ReadGrowingFiles of Parquet": lambda place: ReadGrowingFiles(
        f"{place}in/parquet/orders/*.parquet", timestamp_by="updated_at", follow=False
    ),
    "ReadParquet": lambda place: ReadParquet(f"{place}in/parquet/orders/*.parquet"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_what_it_reads_on_a_disk(store: Store, files: None, name: str) -> None:
    def read(place: str) -> None:
        with beam.Pipeline() as pipeline:
            rows = pipeline | READERS[name](place)
            texts = rows | beam.Map(lambda row: str(row.to_pylist() if hasattr(row, "to_pylist") else row))
            _ = texts | beam.combiners.ToList() | beam.Map(lambda all_of: stored_files.write_whole(f"{root}out/a", _text(all_of)))

    root = ""

    def both(place: str) -> None:
        nonlocal root
        root = place or f"{Path.cwd()}/"
        read(place)

    on_both(both, store)
    assert store.objects["bucket://out/a"]


def _text(rows: list[str]) -> bytes:
    return "\n".join(sorted(rows)).encode()


NOWHERE = "cannot be reached: there is no bucket nowhere"
REFUSED: dict[str, tuple[list[str], str]] = {
    "metrics": (["table", "--input=l.jsonl", "--latest=a.jsonl", "--metrics-file=bucket://out/a.prom"], "is not on this machine"),
    "lineage": (["table", "--input=l.jsonl", "--latest=a.jsonl", "--lineage-file=bucket://out/a"], "is not on this machine"),
    "lines": (
        ["table", "--input=in", "--state-dir=s", "--latest=a.jsonl", "--follow", "--json=bucket://out/a"],
        "no line can be added to bucket://out/a: name a local file",
    ),
    "summary": (["table", "--input=l.jsonl", "--latest=a.jsonl", "--json=bucket://nowhere/a"], NOWHERE),
    "report": (["table", "--input=l.jsonl", "--latest=a.jsonl", "--report=bucket://nowhere/a.html"], NOWHERE),
    "blocks": (
        ["table", "--input=l.jsonl", "--latest=a.jsonl", "--beam_joins_blocks=bucket://nowhere/b"],
        "--beam_joins_blocks: bucket://nowhere/b cannot be reached: there is no bucket nowhere",
    ),
    "memory": (["table", "--input=l.jsonl", "--latest=a.jsonl", "--beam_joins_memory=0"], "give a positive number of megabytes"),
    "sample": (["sample", "--out=bucket://out/a"], "bucket://out/a is not on this machine: name a local directory"),
    "explain": (["explain", "bucket://nowhere/l.jsonl", "r.jsonl"], NOWHERE),
    "show": (["state", "show", "bucket://nowhere/s"], NOWHERE),
    "check": (["state", "check", "s3a://a/s"], "cannot be reached: Beam has no file system for s3a://"),
    "copy": (["state", "copy", "bucket://state/s", "bucket://nowhere/t"], NOWHERE),
    "no state": (["state", "show", "bucket://state/s"], "bucket://state/s has no state: no run with this folder has ended"),
    "extra": (["state", "show", "s3://a/s"], "its client is not installed: pip install 'apache-beam[aws]'"),
    "extra of Azure": (["state", "show", "azfs://a/c/s"], "its client is not installed: pip install 'apache-beam[azure]'"),
    "dry run": (["table", "--input=l.jsonl", "--state-dir=bucket://nowhere/s", "--dry-run"], NOWHERE),
    "ducklake": (["table", "--input=l.jsonl", "--to=ducklake:bucket://out/t?table=x"], "give the path of a DuckDB file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_path_that_is_of_no_use_is_refused_in_a_sentence(
    beam_joins: Run, store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments, message = REFUSED[name]
    monkeypatch.setattr(reachability, "find_spec", lambda module: None)  # no client is installed
    assert message in refused(beam_joins(*arguments))
    assert list(store.objects) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReadParquet("bucket://nowhere/a.parquet"),
        lambda: ReadGrowingFiles("bucket://nowhere/a.jsonl", timestamp_by="at"),
        lambda: StateFolder("bucket://nowhere/s"),
        lambda: StateFolder.summary("bucket://nowhere/s"),
        lambda: beam.Pipeline() | ReadChangelog("bucket://nowhere/a.jsonl", key="id", sequence_by="lsn"),
        lambda: beam.Pipeline() | beam.Create([pa.table({"n": [1]})]) | WriteParquet("bucket://nowhere/a"),
        lambda: _table(beam.Pipeline()) | WriteChangelog("bucket://nowhere/a.jsonl"),
        lambda: _table(beam.Pipeline(options=PipelineOptions(["--beam_joins_state=bucket://nowhere/s"]))),
    ],
)
def test_a_bucket_that_is_not_there_is_told_when_the_pipeline_is_built(store: Store, make: Callable[[], Any]) -> None:
    with pytest.raises((InputError, StateRefused), match=re.escape(NOWHERE)):
        make()


def _table(pipeline: beam.Pipeline) -> Any:
    rows = pa.table({"id": [1, 2], "lsn": [1, 2]})
    return pipeline | beam.Create([rows]).with_output_types(pa.Table) | TableFromChangelog(key="id", sequence_by="lsn")


@contextmanager
def dies(store: Store, ending: str) -> Iterator[None]:
    """The server goes away when something is read or written whose path ends so."""
    gone: list[str] = []

    def call(operation: str, path: str) -> None:
        gone.extend([path] if path.endswith(ending) else [])
        if gone:
            raise Forbidden("the server is gone\nand more")

    with store.before(call):
        yield


@pytest.mark.parametrize("ending", ["manifest.json", "commit.json", ".arrow", "begun", "latest.jsonl", "report.json"])
def test_a_server_that_goes_away_in_a_run_is_one_sentence(beam_joins: Run, store: Store, files: None, ending: str) -> None:
    run = [each.format("bucket://") for each in COMMANDS["a join in runs"]]
    with dies(store, ending):
        ran = beam_joins(*run)
    assert ran.code in (1, 2)
    assert re.fullmatch(r"python -m pipelines.join: .*bucket://\S+:? .*the server is gone[^\n]*\n", ran.err), ran.err
    assert ran.out == ""


def test_a_file_that_cannot_be_read_to_its_end_is_named(store: Store, files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_file("bucket://in/rows.jsonl") as file:
        assert file.read(2) == b'{"'
        monkeypatch.setattr(type(file.raw._file), "read", lambda self, size=-1: (_ for _ in ()).throw(Forbidden("no more")))
        with pytest.raises(OSError, match="no more") as raised:
            file.read()
    assert raised.value.filename == "bucket://in/rows.jsonl"


@pytest.mark.parametrize(
    "pattern", ["in/*.csv", "in/**/*.csv", "in/*/*.csv", "in/.tmp/*.csv", "in/**/.x/*.csv", "in/.*", "in/a/b/1.csv"]
)
def test_a_pattern_finds_the_names_that_it_finds_on_a_disk(own_directory: Path, store: Store, pattern: str) -> None:
    for name in ("in/1.csv", "in/.1.csv", "in/a/1.csv", "in/a/b/1.csv", "in/.tmp/1.csv", "in/a/.tmp/1.csv", "in/a/.x/1.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
        store.put(f"bucket://{name}", b"")
    on_disk = [os.path.relpath(file.path) for file in matching(pattern)]
    assert on_disk
    assert [file.path.removeprefix("bucket://") for file in matching(f"bucket://{pattern}")] == on_disk
