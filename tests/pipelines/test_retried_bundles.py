"""A bundle that a runner runs again, or twice at a time, is in the results once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.write_parts import WriteParts, WrittenPart

LINES = [json.dumps({"n": n}).encode() + b"\n" for n in range(9)]
OUTPUT = Output("latest", "out/latest.jsonl", "json lines")


def attempt(writer: WriteParts, elements: list[pa.Array], *, dies: bool = False) -> list[WrittenPart]:
    """What a worker gives of a bundle, if it does not die before the end."""

    def parts() -> Iterator[WrittenPart]:
        writer.start_bundle()
        for element in elements:
            yield from writer.process(element)
        if not dies:
            yield from (each.value for each in writer.finish_bundle())

    return list(parts())


@pytest.mark.parametrize("by_content", [False, True], ids=["a file a bundle", "a file an element"])
def test_the_attempts_that_do_not_count_leave_nothing_in_the_results(own_directory: Path, by_content: bool) -> None:
    bundles = [[pa.array(LINES[:2]), pa.array(LINES[2:4])], [pa.array(LINES[4:])]]
    with Staging([OUTPUT]) as staging:
        writers = [WriteParts(OUTPUT, staging.beside(OUTPUT), by_content=by_content) for _ in range(4)]
        attempt(writers[0], bundles[0], dies=True)
        first = attempt(writers[1], bundles[0])
        twin = attempt(writers[2], bundles[0])
        second = attempt(writers[3], bundles[1])
        assert {part.path for part in first}.isdisjoint(part.path for part in twin)
        staging.publish({"latest": [part.path for part in (*twin, *second)]}, one_file=True)
    assert sorted(Path("out/latest.jsonl").read_bytes().splitlines(keepends=True)) == LINES
    assert [path.name for path in Path("out").iterdir()] == ["latest.jsonl"]
