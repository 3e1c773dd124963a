"""Blocks by reference: the same results as with blocks that travel, in one part or several; nothing is left
behind.
"""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, TableFromChangelog, TableToChanges
from beam_joins.coders.block import write_block
from beam_joins.errors import CorruptData, OutputError
from beam_joins.keys.hashes import hashes
from beam_joins.transforms.engine.blocks import block_files, block_folder
from beam_joins.transforms.engine.blocks.block_files import BlockFolder, reference_of
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.places import SPACE
from beam_joins.transforms.engine.files.claim import new_claim
from beam_joins.transforms.engine.stages import replay
from beam_joins.transforms.engine.stages.partitions import DEFAULT_PARTITIONS, partition_count, suggested_partitions
from beam_joins.transforms.engine.turns import parts
from beam_joins.transforms.engine.turns.parts import Parts, places_of
from tests.object_store import Forbidden
from tests.transforms.all_builds import all_of_them, one_of_a_kind
from tests.transforms.test_truncates import OPTIONS, ROWS, TABLE
from tests.transforms.unbounded_runs import arrivals, bounded, elements_of, given_on_prism, given_unbounded, history, one_stream

EVENTS = history(1, events=300, deletes=False)
FEW_BYTES = 2_000
"""What a turn may take in tests of parts."""


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """A folder for blocks, which is empty behind the test."""
    (folder := tmp_path / "blocks").mkdir()
    return folder


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All blocks go into files; gives how many bytes were written so far, one number a block."""
    monkeypatch.setattr(block_files, "SMALL_BYTES", 0)
    written: list[int] = []
    write = block_files.BlockFile.write

    def counted(self: block_files.BlockFile, block: bytes, *about: Any) -> bytes:
        written.append(len(block))
        return write(self, block, *about)

    monkeypatch.setattr(block_files.BlockFile, "write", counted)
    return written


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Turns may take few bytes; gives the numbers of parts so far, one for each partition that was split."""
    monkeypatch.setattr(parts, "TURN_FACTOR", (1 << 20) // FEW_BYTES)
    split: list[int] = []
    each_part = Parts._each_part

    def counted(self, batches, begin, ends, *others):
        split.append(len(ends))
        return each_part(self, batches, begin, ends, *others)

    monkeypatch.setattr(Parts, "_each_part", counted)
    return split


def in_order(elements):
    return sorted(map(repr, elements))


@pytest.fixture(scope="module")
def expected():
    """What all transforms give with blocks that travel, in one part."""
    return in_order(elements_of(FnApiRunner(), bounded, EVENTS, all_of_them, "--beam_joins_blocks=inline"))


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [1, 4])
def test_joins_of_each_kind_give_the_same_by_reference_and_in_parts(blocks, small_blocks, few_bytes, monkeypatch, ranges):
    monkeypatch.setattr(replay, "range_count", lambda partitions, size: ranges)
    inline = in_order(elements_of(FnApiRunner(), bounded, EVENTS, one_of_a_kind, "--beam_joins_blocks=inline"))
    small_blocks.clear()
    options = [f"--beam_joins_blocks={blocks}", "--beam_joins_partitions=1", "--beam_joins_memory=1"]
    assert in_order(elements_of(FnApiRunner(), bounded, EVENTS, one_of_a_kind, *options)) == inline
    assert len(few_bytes) > 10
    assert len(small_blocks) > 40
    assert list(blocks.iterdir()) == []


@pytest.mark.sweep
@pytest.mark.parametrize("place", ["DIR", "inline"])
def test_all_transforms_give_the_same_by_reference_and_in_parts(expected, blocks, small_blocks, few_bytes, place):
    options = [f"--beam_joins_blocks={blocks if place == 'DIR' else place}", "--beam_joins_partitions=1", "--beam_joins_memory=1"]
    assert in_order(elements_of(FnApiRunner(), bounded, EVENTS, all_of_them, *options)) == expected
    assert len(few_bytes) > 20
    assert len(small_blocks) > 100
    assert list(blocks.iterdir()) == []


@pytest.mark.sweep
def test_a_runner_that_repeats_bundles_reads_references_again(expected, blocks, small_blocks):
    repeated = elements_of(
        FnApiRunner(), bounded, EVENTS, all_of_them, f"--beam_joins_blocks={blocks}", "--direct_runner_bundle_repeat=1"
    )
    assert set(in_order(repeated)) == set(expected)
    assert small_blocks
    assert list(blocks.iterdir()) == []


@pytest.mark.sweep
@pytest.mark.usefixtures("prism")
def test_prism_reads_references(expected, blocks, small_blocks):
    assert in_order(given_on_prism(bounded, EVENTS, all_of_them, f"--beam_joins_blocks={blocks}")) == expected
    assert small_blocks
    assert list(blocks.iterdir()) == []


def test_unbounded_input_has_its_blocks_in_the_state(blocks, small_blocks):
    events = history(6, events=40)
    build = lambda left, right: left | TableFromChangelog() | TableToChanges()  # noqa: E731
    assert given_unbounded("direct", one_stream, arrivals(events, 1), build)
    assert small_blocks == []


def test_a_truncate_is_in_all_parts(few_bytes):
    more = [{"id": n, "op": "u", "n": n, "lsn": 2} for n in range(10, 300)]
    expected = [*TABLE, *(change for n in range(10, 300) for change in made_and_emptied(n))]
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_memory=1", "--beam_joins_partitions=1"])) as p:
        log = p | beam.Create([pa.Table.from_pylist([*ROWS[::-1], *more])]).with_output_types(pa.Table)
        table = log | TableFromChangelog(**OPTIONS, apply_as_truncates={"op": ["t"]})
        assert_that(table | TableToChanges(), equal_to(expected))
    assert few_bytes


def made_and_emptied(n):
    return Change(n, None, {"n": n}, 2, 2), Change(n, {"n": n}, None, 3, 3)


def test_rows_of_one_key_are_not_split_for_ever(blocks):
    rows = pa.record_batch({"key": ["hot"] * 5000 + ["cold"], "timestamp": list(range(5001))})
    split = Parts(10 * 1000, BlockFolder(str(blocks), frees=True))
    given = [part.rows["rows"] for part in split.of([write_block(rows, "rows")] * 3)]
    assert sorted(len(part) for part in given) in ([3, 15000], [15003])
    assert list(blocks.iterdir()) == []


def test_parts_of_a_partition_have_what_meets_in_one_part(tmp_path, blocks):
    keys = [f"k{n % 500}" for n in range(20_000)]
    left = pa.record_batch(
        {"key": list(range(20_000)), "reference": keys, "timestamp": list(range(20_000)), "value": ["x" * 50] * 20_000}
    )
    right = pa.record_batch({"key": keys, "timestamp": list(range(20_000)), "value": ["y" * 50] * 20_000})
    given = [write_block(left, "left"), write_block(right, "right")]
    for folder in (None, BlockFolder(str(blocks), frees=True), BlockFolder(str(tmp_path / "none"), frees=True)):
        seen: list[set[str]] = []
        counts = {"left": 0, "right": 0}
        for _, part in Parts(1_000_000, folder).of(given):
            lefts, rights = set(part["left"]["reference"].to_pylist()), set(part["right"]["key"].to_pylist())
            assert lefts == rights
            assert sum(table.nbytes for table in part.values()) < 4 * 100_000
            seen.append(lefts)
            counts = {name: counts[name] + len(part[name]) for name in counts}
        assert len(seen) > 10
        assert len(set().union(*seen)) == sum(map(len, seen)) == 500
        assert counts == {"left": 20_000, "right": 20_000}
        assert list(blocks.iterdir()) == []


def test_blocks_of_a_range_are_a_part_of_their_partition(blocks, small_blocks, monkeypatch):
    folder = BlockFolder(str(blocks), frees=True)
    keys = pa.array(range(8_000))
    rows = pa.record_batch({"key": keys, "timestamp": keys})
    routed = list[tuple[int, bytes]]()
    unsized = 1, rows.slice(5_000, 100)
    for ranges, some in ((4, rows.slice(0, 5_000)), unsized, (4, rows.slice(5_100))):
        writer = BlockWriter(2, ranges=ranges, file=folder.file())
        writer.send("rows", hashes(some["key"]), some)
        if ranges == 4:
            writer.send_to_all("rows", rows.slice(0, 1), "all")
        routed += [block for _, block, _ in writer.flush()]
        monkeypatch.setattr(block_files, "SMALL_BYTES", 1 << 30)  # the blocks of the others are too small for a file
    assert {partition for partition, _ in routed} == {0, 1}
    seen = list[int]()
    for number in (0, 1):
        parts_of = list(Parts(1 << 30, folder, ("all",)).of([block for partition, block in routed if partition == number]))
        assert [part.end for part in parts_of] == [SPACE * n // 4 for n in (1, 2, 3, 4)]
        for begin, part in zip((0, *(part.end for part in parts_of)), parts_of, strict=False):
            at = places_of(part.rows["rows"])
            assert begin <= at.min() <= at.max() < part.end
            assert part.rows["all"]["key"].to_pylist() == [0, 0]
            assert set((hashes(part.rows["rows"]["key"].combine_chunks()) % 2).tolist()) == {number}
            seen += part.rows["rows"]["key"].to_pylist()
    assert sorted(seen) == keys.to_pylist()


def test_a_bundle_that_is_run_again_writes_another_file(blocks):
    folder = BlockFolder(str(blocks), frees=True)
    first, again = folder.file(), folder.file()
    one, two = first.write(b"a" * 5000, 1), first.write(b"b" * 6000, 1)
    other = again.write(b"a" * 5000, 1)
    assert reference_of(one).file == reference_of(two).file != reference_of(other).file
    assert [folder.read(each) for each in (one, two, other)] == [b"a" * 5000, b"b" * 6000, b"a" * 5000]
    assert folder.read(first.write(b"small", 1)) == b"small"


def test_the_space_of_blocks_is_given_back(blocks):
    folder = BlockFolder(str(blocks), frees=True)
    file = folder.file()
    one, two = file.write(b"a" * 1_000_000, 1), file.write(b"b" * 1_000_000, 1)
    before = os.stat(file.path).st_blocks
    folder.free([one, b"a block"])
    assert os.stat(file.path).st_blocks < 0.6 * before
    assert folder.read(two) == b"b" * 1_000_000


def test_blocks_that_are_gone_are_said_to_be(blocks):
    folder = BlockFolder(str(blocks), frees=True)
    reference = (file := folder.file()).write(b"a" * 5000, 1)
    os.remove(file.path)
    with pytest.raises(CorruptData, match="the blocks of this run in .* are gone"):
        folder.read(reference)


def test_where_the_folder_is_not_blocks_travel_as_they_are(tmp_path):
    assert BlockFolder(str(tmp_path / "elsewhere"), frees=True).file().write(b"a" * 5000, 1) == b"a" * 5000


def test_a_full_disk_is_said_in_a_sentence_that_names_the_option():
    folder = BlockFolder("/dev", frees=True)
    file = folder.file()
    file._file = io.FileIO("/dev/full", "wb")
    with pytest.raises(OutputError, match=r"to /dev: No space left on device; name .*--beam_joins_blocks=DIR"):
        file.write(b"a" * 5000, 1)


def test_blocks_in_a_store_give_the_same_and_nothing_is_left(store, small_blocks):
    inline = in_order(elements_of(FnApiRunner(), bounded, EVENTS, one_of_a_kind, "--beam_joins_blocks=inline"))
    small_blocks.clear()
    options = ["--beam_joins_blocks=bucket://out/blocks/", "--beam_joins_partitions=2"]
    assert in_order(elements_of(FnApiRunner(), bounded, EVENTS, one_of_a_kind, *options)) == inline
    assert len(small_blocks) > 40
    assert store.counts["open"] >= len(small_blocks)
    assert store.names("bucket://out/") == []


def test_a_run_removes_the_blocks_in_a_store_whose_runs_have_ended(store):
    claims = {"ended": new_claim()._replace(host="b", until=1), "lives": new_claim()._replace(host="b", until=1 << 62)}
    for name in ("ended", "lives", "cut"):
        store.put(f"bucket://out/beam_joins-blocks-{name}/block", b"1")
    for name, claim in claims.items():
        store.put(f"bucket://out/beam_joins-blocks-{name}/lock", json.dumps(claim).encode())
    store.put("bucket://out/other", b"1")
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_blocks=bucket://out"])) as p:
        _ = p | beam.Create([("a", "b")]) | TableFromChangelog()
    assert store.names("bucket://out/") == ["beam_joins-blocks-lives/block", "beam_joins-blocks-lives/lock", "other"]


def test_blocks_in_a_store_are_there_when_their_bundle_has_ended_and_refuse_in_a_sentence(store):
    folder = BlockFolder("bucket://out/b", frees=False)
    reference = (file := folder.file()).write(b"a" * 5000, 1)
    with pytest.raises(CorruptData, match="the blocks of this run in bucket://out/b are gone"):
        folder.read(reference)
    file.close()
    assert folder.read(reference) == b"a" * 5000
    file = folder.file()
    with (
        store.failing("upload", "", Forbidden),
        pytest.raises(OutputError, match=r"to bucket://out/b: Forbidden; name .*--beam_joins_blocks=DIR"),
    ):
        file.write(b"a" * 5000, 1)
        file.close()


@pytest.mark.parametrize("runner", [FnApiRunner, BundleBasedDirectRunner])
def test_a_run_that_fails_leaves_nothing(blocks, small_blocks, runner):
    def raises(key: str, value: str) -> str:
        assert list(blocks.iterdir())
        raise RuntimeError("no such thing")

    with pytest.raises(Exception, match="no such thing"):  # noqa: SIM117
        with beam.Pipeline(runner=runner(), options=PipelineOptions([f"--beam_joins_blocks={blocks}"])) as p:
            table = p | beam.Create([("a", "b")]) | TableFromChangelog()
            _ = table | TableToChanges() | beam.Map(lambda change: raises(change.key, change.new))
    assert list(blocks.iterdir()) == []


KILLED = """
import sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from beam_joins import Change, TableFromChangelog, TableToChanges

def wait(change):
    print("here", flush=True)
    time.sleep(600)

with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_blocks=" + sys.argv[1]])) as p:
    _ = p | beam.Create([("a", "b")]) | TableFromChangelog() | TableToChanges() | beam.Map(wait)
"""


@pytest.mark.process
def test_an_interrupted_run_leaves_nothing_and_the_next_run_removes_what_a_killed_one_has_left(blocks):
    for number, left in ((signal.SIGINT, 0), (signal.SIGKILL, 1)):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(blocks)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout.readline() == b"here\n"
        with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_blocks={blocks}"])) as p:
            _ = p | beam.Create([("a", "b")]) | TableFromChangelog()
        assert len(list(blocks.iterdir())) == 1, "a run that goes on keeps its folder"
        process.send_signal(number)
        process.wait(60)
        process.stdout.close()
        assert len(list(blocks.iterdir())) == left
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_blocks={blocks}"])) as p:
        _ = p | beam.Create([("a", "b")]) | TableFromChangelog()
    assert list(blocks.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--beam_joins_blocks=", "give a folder that all workers reach"),
        ("--beam_joins_memory=0", "--beam_joins_memory=0: give a positive number of megabytes"),
    ],
)
def test_a_wrong_place_or_amount_is_refused(option, sentence):
    p = beam.Pipeline(options=PipelineOptions([option]))
    with pytest.raises(ValueError, match=sentence):
        _ = p | beam.Create([("k", 1)]) | TableFromChangelog()


@pytest.mark.parametrize(
    ("options", "refers", "frees"),
    [
        ([], True, True),
        (["--direct_runner_bundle_repeat=2"], True, False),
        (["--streaming"], False, False),
        (["--beam_joins_blocks=inline"], False, False),
        (["--environment_type=DOCKER"], False, False),
        (["--runner=PortableRunner", "--environment_type=LOOPBACK"], True, False),
        (["--runner=PortableRunner", "--environment_type=DOCKER"], False, False),
        (["--runner=PortableRunner", "--experiments=beam_joins_one_machine"], True, False),
    ],
)
def test_blocks_are_in_files_where_all_workers_are_on_this_machine(options, refers, frees):
    options = PipelineOptions(options)
    folder = block_folder.block_folder(beam.Pipeline(options=options), "inline" if "inline" in str(options._flags) else None)
    assert (folder is not None) == refers
    assert bool(folder and folder.frees) == frees
    assert folder is None or not os.path.exists(folder.path), "it is made when the pipeline runs"


def test_the_number_of_partitions_follows_from_the_size_that_a_reader_says():
    assert partition_count(None) == DEFAULT_PARTITIONS
    assert partition_count(None, 300 << 30) == suggested_partitions(300 << 30) > 1000
    assert partition_count(7, 3 << 30) == 7
