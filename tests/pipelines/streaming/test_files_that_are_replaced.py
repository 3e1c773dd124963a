"""A file that became shorter, or is another one, is told: rows that it had may never have been read."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins import InputError
from beam_joins.pipelines.changelogs.source_rows import SourceRows
from beam_joins.pipelines.systems.files import growing_files
from beam_joins.pipelines.systems.files.growing_files import Files


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    growing_files._tell_of_earlier.cache_clear()


def write(name: str, *ids: int, mode: str = "w") -> None:
    with open(name, mode) as file:
        file.writelines(json.dumps({"id": each, "at": each}) + "\n" for each in ids)


def in_two_looks(change: Callable[[], Any], suffix: str = "jsonl") -> list[int]:
    files, place, rows = Files(SourceRows.of("at", None), follow=True), ("", 0), 0
    counts = []
    for look in (lambda: None, change):
        look()
        for piece in files.pieces(str(Path(f"*.{suffix}").absolute()), place, None):
            place, rows = piece.after, rows + piece.rows
        counts.append(rows)
    return counts


@pytest.mark.parametrize(
    "ids",
    [(4,), (), (3, 4), (1, 3), (10, 11, 12, 13), (1000, 1001, 1002)],
    ids=["shorter", "empty", "as long", "with the same first line", "longer", "with longer lines"],
)
def test_a_file_that_was_truncated_and_written_again_is_refused(ids: tuple[int, ...]) -> None:
    write("app.jsonl", 1, 2)
    with pytest.raises(InputError, match=r"app\.jsonl is shorter than what was read of it, or another file"):
        in_two_looks(lambda: write("app.jsonl", *ids))


def test_a_file_that_was_renamed_and_begun_anew_is_refused() -> None:
    write("app.jsonl", 1, 2)

    def rotate() -> None:
        Path("app.jsonl").rename("app.1.jsonl")
        write("app.jsonl", 3)

    with pytest.raises(InputError, match="rotate files by another name"):
        in_two_looks(rotate)


def test_files_that_grow_come_or_go_are_read() -> None:
    write("a.jsonl", 1, 2)
    assert in_two_looks(lambda: write("a.jsonl", 3, mode="a")) == [2, 3]
    assert in_two_looks(lambda: write("b.jsonl", 4)) == [3, 4]
    assert in_two_looks(lambda: Path("b.jsonl").unlink()) == [4, 4]
    same = Path("a.jsonl").read_bytes()
    assert in_two_looks(lambda: (Path("new").write_bytes(same + same), Path("new").rename("a.jsonl"))) == [3, 6]


def test_another_file_in_columns_under_the_name_is_refused() -> None:
    def put(*ids: int) -> None:
        pq.write_table(pa.table({"id": ids, "at": ids}), "a.parquet")

    put(1, 2)
    with pytest.raises(InputError, match=r"a\.parquet is shorter than"):
        in_two_looks(lambda: put(3, 4), "parquet")
    assert in_two_looks(lambda: None, "parquet") == [2, 2]


def test_numbers_in_names_are_ordered_as_numbers() -> None:
    write("part-9.jsonl", 1, 2)
    assert in_two_looks(lambda: write("part-10.jsonl", 3)) == [2, 3]


@pytest.mark.parametrize("name", ["a.jsonl", "part-8.jsonl"])
def test_rows_of_files_before_the_one_that_is_read_are_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    write("a.jsonl", 1)
    write("part-9.jsonl", 2)
    with caplog.at_level(logging.WARNING):
        assert in_two_looks(lambda: write(name, 3, mode="a")) == [2, 2]
    assert "have grown or come that lie before others that were read" in caplog.text
