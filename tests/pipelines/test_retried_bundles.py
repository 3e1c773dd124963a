"""A bundle that a runner runs again, or twice at a time, is in the results once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from beam_joins.errors import OutputError
from beam_joins.pipelines.formats.output_records import TextRecords
from beam_joins.pipelines.results.output_files import Output, Staging
from beam_joins.pipelines.results.write_parts import Report, WriteParts, WrittenPart

LINES = [json.dumps({"n": n}).encode() + b"\n" for n in range(9)]


def encode(lines: list[bytes]) -> Iterator[pa.RecordBatch]:
    """Records in the order of their lines, the last one first."""
    numbers = [LINES.index(line) for line in lines]
    yield pa.record_batch({"position": numbers, "key": numbers, "record": lines}).take(pa.array(range(len(lines)))[::-1])


def attempt(writer: WriteParts, elements: list[list[bytes]], *, dies: bool = False) -> list[WrittenPart]:
    """What a worker gives of a bundle, if it does not die before the end."""

    def parts() -> Iterator[WrittenPart]:
        writer.start_bundle()
        for element in elements:
            yield from writer.process(element)
        if not dies:
            yield from (each.value for each in writer.finish_bundle())

    return list(parts())


def test_a_machine_that_does_not_see_the_folder_of_the_run_writes_nothing(own_directory: Path) -> None:
    output = Output("latest", str(own_directory / "out/latest.jsonl"), TextRecords(of_finals=True))
    writer = WriteParts(output, str(own_directory / "out/hidden"), encode)
    with pytest.raises(OutputError, match=r"cannot write .*latest.jsonl: .*hidden is not there on .*: all machines must reach it"):
        attempt(writer, [LINES])
    assert not Path("out").exists()


@pytest.mark.parametrize("sorted_bytes", [1, 1 << 20], ids=["a part an element", "a part a bundle"])
@pytest.mark.parametrize("merged", [True, False])
def test_the_attempts_that_do_not_count_leave_nothing_in_the_results(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch, sorted_bytes: int, merged: bool
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.write_parts._SORTED_BYTES", sorted_bytes)
    bundles = [[LINES[7:], LINES[2:4]], [LINES[4:7], LINES[:2]]]
    output = Output("latest", "out/latest.jsonl", TextRecords(of_finals=True), in_parts=not merged)
    with Staging([output]) as staging:
        writers = [WriteParts(output, staging.attempt(output.claimed), encode) for _ in range(4)]
        attempt(writers[0], bundles[0], dies=True)
        first = attempt(writers[1], bundles[0])
        twin = attempt(writers[2], bundles[0])
        second = attempt(writers[3], bundles[1])
        assert {part.path for part in first}.isdisjoint(part.path for part in twin)
        paths = Report([], [*second, *twin]).parts_of([output])
        staging.publish_parts(paths)
    files = sorted(Path("out").iterdir())
    written = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    if merged:
        assert [file.name for file in files] == ["latest.jsonl"]
        assert written == LINES
    else:
        assert [file.name.split("-")[0] for file in files] == ["latest"] * len(paths["latest"])
        assert sorted(written) == LINES
    if sorted_bytes == 1:
        assert written == LINES, "parts are numbered in the order of their first records"
