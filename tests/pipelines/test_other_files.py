"""Files and names that are not what is read: each is told by its name, and what its suffix says in capitals is read."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from beam_joins import InputError
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.formats.changelog_columns import Columns

ROWS = b'{"id":1,"at":1}\n'
TABLE = pa.table({"id": [1], "at": [1]})

pytestmark = pytest.mark.usefixtures("own_directory")


def found(pattern: str) -> Changelog:
    return find_changelog("rows", pattern, Columns(key=("id",), timestamp="at"))


def tar() -> bytes:
    archive, member = io.BytesIO(), tarfile.TarInfo("a.jsonl")
    member.size = len(ROWS)
    with tarfile.open(fileobj=archive, mode="w") as opened:
        opened.addfile(member, io.BytesIO(ROWS))
    return archive.getvalue()


def stream() -> bytes:
    written = io.BytesIO()
    with pa.ipc.new_stream(written, TABLE.schema) as opened:
        opened.write_table(TABLE)
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", lambda: gzip.compress(ROWS), "a.jsonl is compressed with gzip"),
        ("a.jsonl.gz", lambda: gzip.compress(tar()), "a.jsonl.gz is a tar archive"),
        ("a.arrow", stream, "a.arrow is an Arrow stream"),
        ("a.feather", lambda: b"FEA1\0\0\0\0", "a.feather is a file of Feather 1"),
        ("a.parquet", lambda: gzip.compress(ROWS), "a.parquet is compressed with gzip"),
        ("a.arrow", lambda: b"ARROW1\0\0cut", "a.arrow is not an Arrow file, or is damaged"),
        ("a.tsv", lambda: b"id\tat\n", "a.tsv is CSV with tabs: let its name end in .csv"),
        ("a.xlsx", lambda: b"PK", "a.xlsx is a spreadsheet"),
    ],
)
def test_a_file_of_another_format_is_told_by_its_name(name: str, content: Callable[[], bytes], sentence: str) -> None:
    Path(name).write_bytes(content())
    for columns in (Columns(key=("id",), timestamp="at"), Columns(key=("id",))):  # nothing orders the rows of the second
        with pytest.raises(InputError, match=f"^rows: {sentence}"):
            find_changelog("rows", name, columns)


@pytest.mark.parametrize("name", ["a.jsonl.GZ", "A.JSONL.Gz"])
def test_a_suffix_in_capitals_is_read(name: str) -> None:
    Path(name).write_bytes(gzip.compress(ROWS))
    assert found(name).first == ({"id": 1, "at": 1},)


def test_a_glob_that_finds_folders_alone_names_one_and_the_glob_of_the_files_within() -> None:
    Path("in/day=1").mkdir(parents=True)
    Path("in/day=1/a.jsonl").write_bytes(ROWS)
    with pytest.raises(InputError, match=r"^rows: in/day=1 is a folder .* in/day=1/\*\*/\* finds"):
        found("in/*")
    assert len(found("in/day=1/**/*").files) == 1


def test_a_name_that_is_no_utf8_is_shown_by_its_bytes() -> None:
    Path("a\udcff.jsonl").write_bytes(ROWS)
    with pytest.raises(InputError, match=r"^rows: the name of the file b'.*a\\xff.jsonl' is no UTF-8: rename it"):
        found("*.jsonl")


def test_a_column_that_the_name_of_a_folder_has_is_told_so() -> None:
    Path("day=1").mkdir()
    Path("day=1/a.jsonl").write_bytes(ROWS)
    with pytest.raises(InputError, match="'day' stands in the name of a folder alone, which is not read"):
        found("day=*/*.jsonl").require_all([("--key", "day")])
