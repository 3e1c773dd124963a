"""Results of python -m pipelines.orders appear together or not at all, one run at a time, and failures to write are one sentence."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_joins.pipelines.changelog_files.claim import Claim, held, lock_of, new_claim, release, staging_of, take
from beam_joins.pipelines.changelog_files.json_lines import JsonLinesWriter
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.publishing import Move, publish
from beam_joins.pipelines.command.input_error import InputError, OutputError
from beam_joins.pipelines.sample import SampleFiles, write_sample
from tests.pipelines.orders_run import ENVIRONMENT, Ran, Run, inputs, nothing_is_left, one_sentence


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, which lives as long as the test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def claim_of(process: subprocess.Popen[bytes]) -> Claim:
    return new_claim()._replace(pid=process.pid, process="")


def failed(ran: Ran) -> str:
    assert (ran.code, ran.out) == (1, ""), ran
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.err.removeprefix("python -m pipelines.orders: ").rstrip("\n")


def names(directory: str) -> list[str]:
    return sorted(os.listdir(directory))


def test_a_second_run_to_the_same_output_is_refused(run: Run, small: SampleFiles, other: subprocess.Popen[bytes]) -> None:
    take("out/l.jsonl", claim_of(other))
    sentence = one_sentence(run(*inputs(small), "--output", "out/e.jsonl", "--latest", "out/l.jsonl"))
    assert sentence.startswith(f"out/l.jsonl is being written by another run, process {other.pid} on ")
    assert names("out") == [".l.jsonl.lock"], "the claim on the other output is given free"
    assert run(*inputs(small), "--output", "out/e.jsonl").code == 0


def test_what_a_killed_run_has_left_is_removed_by_the_next(run: Run, small: SampleFiles) -> None:
    files = write_sample(Path("in"), orders=60_000, customers=6_000)
    command = [sys.executable, "-m", "beam_joins.pipelines.orders", *map(str, inputs(files)), "--output", "out/e.jsonl"]
    with subprocess.Popen(command, env=ENVIRONMENT) as running:
        give_up = time.monotonic() + 60
        while not list(Path().glob("out/.beam_joins-*")) and time.monotonic() < give_up:
            time.sleep(0.05)
        assert "is being written by another run" in one_sentence(run(*inputs(small), "--output", "out/e.jsonl"))
        running.send_signal(signal.SIGKILL)
    assert len(names("out")) == 2, "a lock and a directory"
    assert run(*inputs(small), "--output", "out/e.jsonl").code == 0
    assert names("out") == ["e.jsonl"]


def test_a_claim_of_another_machine_is_never_given_up(own_directory: Path) -> None:
    take("e.jsonl", new_claim()._replace(host="elsewhere", pid=2**22 + 1))
    with pytest.raises(InputError, match=r"process 4194305 on elsewhere: .* delete .*/\.e\.jsonl\.lock"):
        take("e.jsonl", new_claim())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells processes with one number apart by what Linux says of them")
def test_a_process_that_has_got_the_number_of_a_dead_one_is_not_taken_for_it(
    own_directory: Path, other: subprocess.Popen[bytes]
) -> None:
    earlier = claim_of(other)._replace(process="1")
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
        publish(moves, ["a", "c", "stale"], "keep")
    assert {name: Path(name).read_text() for name in names(".") if name != "keep"} == {
        name: f"of {name}" for name in ("a", "c", "new-a", "new-b", "stale")
    }
    publish(moves[:2], ["a", "stale"], "keep")
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

    monkeypatch.setattr(JsonLinesWriter, method, full)
    assert failed(run(*inputs(small), "--output", "out/e.jsonl")) == "cannot write out/e.jsonl: No space left on device"
    assert nothing_is_left(Path("out"))


def published(parts: int) -> None:
    """A result of so many parts, put together."""
    output = Output("changes", "out/e.jsonl", "json lines")
    with Staging([output]) as staging:
        paths = [f"{staging.beside(output)}/{number}-e.jsonl" for number in range(parts)]
        for number, path in enumerate(paths):
            Path(path).write_text(f"{number}\n")
        staging.publish({"changes": paths}, one_file=True)


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_the_parts_of_a_result_become_one_file(own_directory: Path, parts: int) -> None:
    published(parts)
    assert Path("out/e.jsonl").read_text() == "".join(f"{number}\n" for number in range(parts))
    assert names("out") == ["e.jsonl"]


def test_a_part_is_removed_as_soon_as_it_is_in_the_whole(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[int] = []
    copy = shutil.copyfileobj

    def seen(source: Any, target: Any, length: int) -> None:
        there.append(len(list(Path("out").rglob("*-e.jsonl"))))
        copy(source, target, length)

    monkeypatch.setattr("shutil.copyfileobj", seen)
    published(3)
    assert there == [4, 3, 2]  # the parts not copied yet, and the whole


def test_a_disk_that_fills_up_while_the_parts_are_joined_is_one_sentence(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OutputError, match=r"^cannot write out/e.jsonl: No space left on device$"):
        published(2)
    assert nothing_is_left(Path("out"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_a_disk_that_is_really_full_is_one_sentence(run: Run, small: SampleFiles) -> None:
    Path("out").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", "out"], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        assert failed(run(*inputs(small), "--output", "out/e.jsonl")) == "cannot write out/e.jsonl: No space left on device"
        assert nothing_is_left(Path("out"))
    finally:
        subprocess.run(["umount", "out"], check=True)


def test_a_home_that_cannot_be_written_is_not_needed(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null/home")
    assert run(*inputs(small), "--output", "e.jsonl").code == 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a directory in which even root cannot make a file")
def test_a_directory_in_which_nothing_can_be_made_is_named(run: Run, small: SampleFiles) -> None:
    assert failed(run(*inputs(small), "--output", "/proc/e.jsonl")).startswith("cannot write /proc/e.jsonl: ")


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("gs://bucket/x.jsonl", "pip install 'apache-beam[gcp]'"),
        ("s3://bucket/x.jsonl", "pip install 'apache-beam[aws]'"),
        ("abfs://bucket/x.jsonl", "pip install 'apache-beam[azure]'"),
        ("hdfs://host/x.jsonl", "pip install 'apache-beam[hadoop]'"),
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
    close = JsonLinesWriter.close

    def overtaken(writer: JsonLinesWriter) -> None:
        close(writer)
        Path(lock_of("out/e.jsonl")).unlink(missing_ok=True)

    monkeypatch.setattr(JsonLinesWriter, "close", overtaken)
    assert "out/e.jsonl has been taken over by another run" in one_sentence(run(*inputs(small), "--output", "out/e.jsonl"))
    assert nothing_is_left(Path("out"))
