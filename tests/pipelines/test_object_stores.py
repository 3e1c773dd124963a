"""Inputs, results and states in a store of objects: what is written there is byte for byte what is written on a disk."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins.errors import InputError
from beam_joins.io import ReadChangelog, ReadParquet, WriteChangelog, WriteParquet
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.results.output_lock import lock_of, release, staging_of, take
from beam_joins.pipelines.results.publication import Publication
from beam_joins.transforms.engine.files import reachability, stored_files
from beam_joins.transforms.engine.files.claim import _renewals, claim_of, new_claim
from tests.object_store import Forbidden, NotFound, Store
from tests.pipelines.history import arrive, cut, tree
from tests.pipelines.orders_run import Run, one_sentence
from tests.pipelines.tables import SMALL, table_of

IN_A_STORE: list[Any] = ["--orders", "bucket://in/orders", "--customers", "bucket://in/customers/", "--state-dir", "bucket://state/s"]
BOTH: list[Any] = [*IN_A_STORE, "--changes", "bucket://out/changes", "--latest", "bucket://out/latest.jsonl"]
ROWS = [{"id": n, "lsn": n, "op": "u", "name": f"{n}"} for n in range(40)]


def upload(store: Store) -> None:
    for path, content in tree("in").items():
        store.put(f"bucket://{path}", content)


@pytest.mark.slow
def test_runs_with_a_state_write_into_a_store_what_they_write_on_a_disk(run: Run, small: SampleFiles, store: Store) -> None:
    store.put("bucket://in/orders/", b"")  # as the pages of a store make for a folder
    for number, piece in enumerate(cut(small, 2), 1):
        arrive(number, piece)
        upload(store)
        ran = run(*BOTH)
        assert ran.code == 0, ran.err
        local = ["--orders", "in/orders", "--customers", "in/customers", "--state-dir", "state"]
        assert run(*local, "--changes", "out/changes", "--latest", "out/latest.jsonl").code == 0
        assert {f"out/{name}": content for name, content in store.content("bucket://out/").items()} == tree()
    assert run(*BOTH).out.startswith("no new files")


@pytest.mark.slow
def test_a_run_alone_writes_into_a_store_what_it_writes_on_a_disk(run: Run, small: SampleFiles, store: Store) -> None:
    arrive(1, cut(small, 1)[0])
    upload(store)
    for prefix in ("", "bucket://"):
        files = ["--orders", f"{prefix}in/orders/*.jsonl", "--customers", f"{prefix}in/customers/001.jsonl"]
        ran = run(*files, "--output", f"{prefix}out/e.jsonl.gz", "--latest", f"{prefix}out/l.parquet", "--beam_joins_partitions=3")
        assert ran.code == 0, ran.err
    assert {f"out/{name}": content for name, content in store.content("bucket://out/").items()} == tree()


def _changelog(pipeline: beam.Pipeline, prefix: str) -> None:
    _ = table_of(pipeline, ROWS, SMALL) | WriteChangelog(f"{prefix}out/log.jsonl", key="id")


def _parquet(pipeline: beam.Pipeline, prefix: str) -> None:
    _ = pipeline | beam.Create([pa.table({"n": [1, 2]})]).with_output_types(pa.Table) | WriteParquet(f"{prefix}out/rows")


@pytest.mark.parametrize("write", [_changelog, _parquet])
def test_a_writer_writes_into_a_store_what_it_writes_on_a_disk_twice(
    own_directory: Path, store: Store, monkeypatch: pytest.MonkeyPatch, write: Callable[[beam.Pipeline, str], None]
) -> None:
    monkeypatch.setattr(Publication, "run", "same", raising=False)
    for prefix in ("", "bucket://", "bucket://"):
        with beam.Pipeline() as pipeline:
            write(pipeline, prefix)
    actual, expected = store.content("bucket://out/"), tree()
    assert {f"out/{name}" for name in actual} == {*expected}
    if write is _changelog:
        assert {f"out/{name}": content for name, content in actual.items()} == expected


@pytest.mark.parametrize("source", ["bucket://in/t", "bucket://in/t/", "bucket://in/t/*", "bucket://in/t/a.parquet"])
def test_a_folder_is_read_with_its_slash_and_without(store: Store, own_directory: Path, source: str) -> None:
    with beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create([pa.table({"id": [1, 2]})]).with_output_types(pa.Table) | WriteParquet("a")
    store.put("bucket://in/t/a.parquet", next(iter(tree(".").values())))
    if not source.endswith("*"):
        store.put("bucket://in/t/.a.parquet", b"hidden")
        store.put("bucket://in/t/note.txt", b"of another kind")
    assert ReadParquet(source).paths == ["bucket://in/t/a.parquet"]
    assert ReadParquet(source).schema.names == ["id"]
    with beam.Pipeline() as pipeline:
        read = pipeline | ReadChangelog(source, key="id", timestamp_by="id")
        assert read is not None


def test_a_folder_of_this_machine_is_read_too(own_directory: Path) -> None:
    for _ in range(2):
        with beam.Pipeline() as pipeline:
            _ = pipeline | beam.Create([pa.table({"id": [1, 2]})]).with_output_types(pa.Table) | WriteParquet("t/a")
    Path("t/note.txt").touch()
    assert [Path(path).name for path in ReadParquet("t").paths] == ["a-00000-of-00001.parquet"]


NO_BUCKET = "bucket://nowhere/a.jsonl cannot be reached: there is no bucket nowhere"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--orders", "bucket://nowhere/a.jsonl"], f"orders: {NO_BUCKET}"),
        (["--orders", "bucket://in/nothing"], "orders: there is no file bucket://in/nothing"),
        (["--output", "bucket://nowhere/a.jsonl"], f"--output: {NO_BUCKET}"),
        (["--output=", "--latest", "bucket://nowhere/a.jsonl"], f"--latest: {NO_BUCKET}"),
        (
            ["--output=", "--state-dir", "bucket://nowhere/s", "--latest", "l.jsonl"],
            "bucket://nowhere/s cannot be reached: there is no bucket nowhere",
        ),
        (["--output=", "--state-dir", "s3a://a/s", "--latest", "l.jsonl"], "cannot be reached: Beam has no file system for s3a://"),
        (["--output=", *IN_A_STORE[4:], "--latest", "bucket://in/l.jsonl", "--orders", "bucket://in"], "would read what is written"),
    ],
)
def test_what_is_not_there_is_told_before_anything_runs(
    run: Run, small: SampleFiles, store: Store, options: list[str], message: str
) -> None:
    given = ["--orders", small.orders, "--customers", small.customers, "--output", "e.jsonl", *options]
    assert message in one_sentence(run(*given))


@pytest.mark.parametrize("operation", ["list", "exists", "open"])
def test_a_store_that_hangs_ends_a_command_within_seconds(
    run: Run, small: SampleFiles, store: Store, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    from threading import Event

    monkeypatch.setattr(reachability, "SECONDS", 0.05)
    ends = Event()
    with store.before(lambda each, path: ends.wait() and None):
        ran = run("--orders", "bucket://in/a.jsonl", "--customers", small.customers, "--output", "e.jsonl")
    ends.set()
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "orders: bucket://in/a.jsonl cannot be reached: nothing has answered within" in ran.err


def test_a_lock_that_cannot_be_read_is_no_lock_that_is_missing(store: Store) -> None:
    output = "bucket://out/a.jsonl"
    other = new_claim()._replace(host="another")
    take(output, other)
    with store.failing("open", ".lock", lambda: Forbidden("not now")), pytest.raises(OSError, match="not now"):
        take(output, new_claim())
    with pytest.raises(InputError, match="is being written by another run"):
        take(output, new_claim())


@pytest.mark.parametrize(("seconds", "is_taken"), [(100, False), (-20, False), (-200, True)])
def test_the_claim_of_a_machine_that_is_gone_does_not_block_an_output_for_ever(store: Store, seconds: int, is_taken: bool) -> None:
    dead, mine = new_claim()._replace(host="a pod", until=time.time_ns() + seconds * 10**9), new_claim()
    store.put(lock_of("bucket://out/l.jsonl"), json.dumps(dead).encode())
    store.put(f"{staging_of('bucket://out/l.jsonl', dead)}/part", b"")
    with nullcontext() if is_taken else pytest.raises(InputError, match="is being written by another run, process .* on a pod"):
        take("bucket://out/l.jsonl", mine)
    assert any(name.endswith("/part") for name in store.names("bucket://out/")) is not is_taken
    release("bucket://out/l.jsonl", mine)


def test_each_worker_of_a_run_renews_its_claim(store: Store) -> None:
    mine, lock = new_claim(), lock_of("bucket://out/l.jsonl")
    take("bucket://out/l.jsonl", mine)
    _renewals.forget()  # another process of the run
    take("bucket://out/l.jsonl", mine)
    store.put(lock, json.dumps(mine._replace(until=0)).encode())
    _renewals.renew()
    assert (claim_of(store.objects[lock]) or mine).until
    release("bucket://out/l.jsonl", mine)
    assert lock not in store.objects


def test_the_next_run_of_an_output_removes_what_no_claim_is_of(store: Store, own_directory: Path) -> None:
    for folder in ("bucket://out", str(own_directory)):
        gone, other, dead = (new_claim()._replace(host=host, pid=2**22 + 1) for host in ("gone", "another", new_claim().host))
        output = f"{folder}/a.jsonl"
        take(f"{folder}/b.jsonl", other)  # of a living run, as far as this machine can tell
        take(output, dead)
        for claim in (gone, other, dead):
            stored_files.write_whole(f"{staging_of(output, claim)}/part", b"")
        mine = new_claim()
        take(output, mine)
        assert sorted(tree(folder) if folder.startswith("/") else store.objects) == sorted(
            [lock_of(f"{folder}/b.jsonl"), lock_of(output), f"{staging_of(output, other)}/part"]
        )


def test_a_publication_removes_its_directory_and_leaves_those_whose_names_begin_alike(store: Store) -> None:
    with Publication("bucket://out/a-*.jsonl", "bucket://out/a-b-*.jsonl") as publication:
        store.put(f"{publication.attempt('bucket://out/a-*.jsonl')}/part", b"")
        with Publication("bucket://out/a-c-*.jsonl") as other:
            store.put(f"{other.attempt('bucket://out/a-*.jsonl')}/part", b"")
            publication.release()
            assert other.is_held()
            assert all(other.run in path or "a-c-" in path for path in store.objects)
    assert store.objects == {}


@pytest.mark.slow
def test_a_run_that_is_refused_behind_its_work_leaves_nothing_hidden(run: Run, small: SampleFiles, store: Store) -> None:
    arrive(1, cut(small, 1)[0])
    upload(store)
    manifest = "bucket://state/s/manifest.json"

    def another(operation: str, path: str) -> None:
        if (operation == "upload" and path.endswith("report.json")) or ("report.json." in path and operation == "upload"):
            store.objects[manifest] = b"{}"

    with store.before(another):
        sentence = one_sentence(run(*BOTH))
    assert sentence == "another run has been committed to bucket://state/s meanwhile: this one counts for nothing, run it again"
    assert store.names("bucket://out/") == []
    assert store.names("bucket://state/s/") == ["manifest.json"]
    assert json.loads(store.objects[manifest]) == {}


def test_an_error_of_the_store_while_a_result_is_written_is_one_sentence(run: Run, small: SampleFiles, store: Store) -> None:
    files = ["--orders", small.orders, "--customers", small.customers, "--output", "bucket://out/e.jsonl"]
    with store.failing("upload", ".lock", lambda: NotFound("no\nmore")):
        ran = run(*files)
    assert (ran.code, ran.err.splitlines()) == (1, ["python -m pipelines.orders: cannot write bucket://out/e.jsonl: no"])
    assert store.names("bucket://out/") == []
