"""Results of python -m pipelines.orders appear together or not at all, one run at a time, and failures to
write are one sentence.
"""

import errno
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.formats.file_format import BytesWriter
from beam_joins.pipelines.formats.output_records import TextRecords
from beam_joins.pipelines.results.output_files import Output, Staging
from beam_joins.pipelines.results.output_lock import held, lock_of, release, staging_of, take
from beam_joins.pipelines.results.publication import Move, rename_all
from beam_joins.pipelines.results.sorted_output import write_pieces
from beam_joins.transforms.engine.files.claim import Claim, new_claim
from tests.pipelines.orders_run import Ran, Run, inputs, nothing_is_left, one_sentence


def claim_of_another_process() -> Claim:
    """The claim of one that lives as long as the test."""
    return new_claim()._replace(pid=os.getppid(), process="")


def failed(ran: Ran) -> str:
    assert (ran.code, ran.out) == (1, ""), ran
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.err.removeprefix("python -m pipelines.orders: ").rstrip("\n")


def names(directory: str) -> list[str]:
    return sorted(os.listdir(directory))


def test_a_claim_of_another_machine_is_never_given_up(own_directory: Path) -> None:
    take("e.jsonl", new_claim()._replace(host="elsewhere", pid=2**22 + 1))
    with pytest.raises(InputError, match=r"process 4194305 on elsewhere: .* delete .*/\.e\.jsonl\.lock"):
        take("e.jsonl", new_claim())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells processes with one number apart by what Linux says of them")
def test_a_process_that_has_got_the_number_of_a_dead_one_is_not_taken_for_it(own_directory: Path) -> None:
    earlier = claim_of_another_process()._replace(process="1")
    take("e.jsonl", earlier)
    Path(staging_of("e.jsonl", earlier)).mkdir()
    take("e.jsonl", mine := new_claim())
    assert held("e.jsonl", mine)
    assert not Path(staging_of("e.jsonl", earlier)).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2, 3, 4, 5]", b'["../../etc", "h", 1, "", 0]', b"\xff"])
def test_a_lock_that_is_none_of_ours_is_replaced(own_directory: Path, content: bytes) -> None:
    Path(lock_of("e.jsonl")).write_bytes(content)
    take("e.jsonl", mine := new_claim())
    release("e.jsonl", new_claim())
    assert held("e.jsonl", mine)
    release("e.jsonl", mine)
    assert names(".") == []


def test_if_one_result_cannot_be_named_none_is(own_directory: Path) -> None:
    Path("keep").mkdir()
    for name in ("a", "new-a", "new-b", "c", "stale"):
        Path(name).write_text(f"of {name}")
    moves = [Move("new-a", "a"), Move("new-b", "b"), Move("missing", "c")]
    with pytest.raises(FileNotFoundError):
        rename_all(moves, ["a", "c", "stale"], "keep")
    assert {name: Path(name).read_text() for name in names(".") if name != "keep"} == {
        name: f"of {name}" for name in ("a", "c", "new-a", "new-b", "stale")
    }
    rename_all(moves[:2], ["a", "stale"], "keep")
    assert {name: Path(name).read_text() for name in names(".") if name != "keep"} == {"a": "of new-a", "b": "of new-b", "c": "of c"}


def test_if_one_of_two_outputs_cannot_be_published_both_stay_as_they_were(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("out").mkdir()
    for name in ("e", "l"):
        Path(f"out/{name}.jsonl").write_text("before")
    replace = os.replace

    def refuses(source: str, target: str) -> None:
        if target.endswith("/l.jsonl") and "earlier-" not in source:
            raise OSError(errno.EIO, os.strerror(errno.EIO), target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuses)
    sentence = failed(run(*inputs(small), "--output", "out/e.jsonl", "--latest", "out/l.jsonl"))
    assert "Input/output error" in sentence
    assert {name: Path("out", name).read_text() for name in names("out")} == {"e.jsonl": "before", "l.jsonl": "before"}


@pytest.mark.parametrize("method", ["write", "close"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BytesWriter, method, full)
    assert failed(run(*inputs(small), "--output", "out/e.jsonl")) == "cannot write out/e.jsonl: No space left on device"
    assert nothing_is_left(Path("out"))


def published(*parts: list[int]) -> None:
    """A result of parts with records of these positions, put together."""
    output = Output("changes", "out/e.jsonl", TextRecords())
    with Staging([output]) as staging:
        paths = []
        for numbers in parts:
            rows = {"position": numbers, "key": numbers, "record": [f"{number}\n".encode() for number in numbers]}
            paths += [path for path, _ in write_pieces(pa.table(rows), "changes", staging.attempt(output.claimed))]
        staging.publish_parts({"changes": paths})


@pytest.mark.parametrize("window", [1, 2, 100])
@pytest.mark.parametrize("parts", [[], [[0, 1]], [[2, 5], [0, 3, 4], [1]]])
def test_the_parts_of_a_result_become_one_file_in_order(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch, parts: list[list[int]], window: int
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output._WINDOW", window)
    published(*parts)
    assert Path("out/e.jsonl").read_text() == "".join(f"{number}\n" for number in range(sum(map(len, parts))))
    assert names("out") == ["e.jsonl"]


def test_many_records_at_one_position_are_merged_some_at_a_time(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output._WINDOW", 50)
    monkeypatch.setattr(BytesWriter, "write", lambda self, lines: written.append(b"".join(lines.to_pylist())))
    chance = random.Random(1)
    keys = sorted(chance.randrange(-(2**63), 2**63) for _ in range(1_000))
    output = Output("changes", "out/e.jsonl", TextRecords())
    with Staging([output]) as staging:
        paths = []
        for some in (keys[::2], keys[1::2]):
            rows = {"position": [7] * len(some), "key": some, "record": [f"{key}\n".encode() for key in some]}
            paths += [path for path, _ in write_pieces(pa.table(rows), "changes", staging.attempt(output.claimed))]
        output.merge(paths, staging.whole(output), removes=False)
    assert b"".join(written).split() == [str(key).encode() for key in keys]
    assert max(len(each.splitlines()) for each in written) < 100


def test_a_part_is_removed_as_soon_as_it_is_in_the_whole(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present: list[int] = []
    write = BytesWriter.write

    def seen(self: BytesWriter, lines: pa.Array) -> None:
        present.append(len(list(Path("out").rglob("*.arrow"))))
        write(self, lines)

    monkeypatch.setattr(BytesWriter, "write", seen)
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output._WINDOW", 2)
    published([0, 1], [2, 3], [4, 5])
    assert present == [3, 2, 1]  # the parts that are not in the whole yet


def test_a_disk_that_fills_up_while_the_parts_are_joined_is_one_sentence(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BytesWriter, "write", full)
    with pytest.raises(OutputError, match=r"^cannot write out/e.jsonl: No space left on device$"):
        published([0], [1])
    assert nothing_is_left(Path("out"))


def test_a_home_that_cannot_be_written_is_not_needed(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null/home")
    assert run(*inputs(small), "--output", "e.jsonl").code == 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a directory in which even root cannot make a file")
def test_a_result_does_not_take_the_place_of_a_pipe_and_a_summary_goes_into_pipes_and_through_links(
    run: Run, small: SampleFiles, own_directory: Path
) -> None:
    os.mkfifo("pipe.jsonl")
    inputs = ["--orders", small.orders, "--customers", small.customers]
    sentence = one_sentence(run(*inputs, "--latest", "pipe.jsonl"))
    assert sentence == "--latest: pipe.jsonl is a device or a pipe, which a file would replace: name a file"
    os.symlink("target.json", "link.json")
    assert run(*inputs, "--latest", "now.jsonl", "--json", "link.json").code == 0
    assert os.path.islink("link.json")
    with ThreadPoolExecutor() as threads:
        said = threads.submit(Path("pipe.jsonl").read_text)
        assert run(*inputs, "--latest", "now.jsonl", "--json", "pipe.jsonl").code == 0
        assert json.loads(said.result())["inputs"] == json.loads(Path("target.json").read_text())["inputs"]


def test_a_directory_in_which_nothing_can_be_made_is_named(run: Run, small: SampleFiles) -> None:
    assert failed(run(*inputs(small), "--output", "/proc/e.jsonl")).startswith("cannot write /proc/e.jsonl: ")


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("gs://bucket/x.jsonl", "its client is not installed: pip install 'apache-beam[gcp]'"),
        ("s3://bucket/x.jsonl", "its client is not installed: pip install 'apache-beam[aws]'"),
        ("azfs://account/container/x.jsonl", "its client is not installed: pip install 'apache-beam[azure]'"),
        ("abfs://container/x.jsonl", "Beam has no file system for abfs://: write azfs://ACCOUNT/CONTAINER/PATH"),
        ("hdfs://host/x.jsonl", "its client is not installed: pip install 'apache-beam[hadoop]'"),
        ("nfs://host/x.jsonl", "Beam has no file system for nfs://"),
    ],
)
@pytest.mark.parametrize("option", ["--orders", "--output"])
def test_a_path_whose_library_is_missing_is_refused(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch, path: str, remedy: str, option: str
) -> None:
    def missing(path: str) -> None:
        raise ValueError("Unable to get filesystem from specified path")

    monkeypatch.setattr("apache_beam.io.filesystems.FileSystems.get_filesystem", missing)
    sentence = one_sentence(run(*inputs(small), option, path))
    assert sentence == f"{option.removeprefix('--') if option == '--orders' else option}: {path} cannot be reached: {remedy}"


def test_a_run_that_was_overtaken_writes_nothing(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    close = BytesWriter.close

    def overtaken(writer: BytesWriter) -> None:
        close(writer)
        Path(lock_of("out/e.jsonl")).unlink(missing_ok=True)

    monkeypatch.setattr(BytesWriter, "close", overtaken)
    assert "out/e.jsonl has been taken over by another run" in one_sentence(run(*inputs(small), "--output", "out/e.jsonl"))
    assert nothing_is_left(Path("out"))
