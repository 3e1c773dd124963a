"""Files of a store that runs have read: the store's digest tells whether one has changed, and no file is read for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from beam_joins import InputError
from beam_joins.pipelines.changelogs.processed_files import SeenFiles
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.json_lines import JsonLinesReader

FILE = File(path="s3://in/a.jsonl", bytes=3, shown="s3://in/a.jsonl", reader=JsonLinesReader(), written=17, digest='"abc"')


def after_a_run(file: File = FILE) -> SeenFiles:
    seen = SeenFiles("orders")
    seen.add([file])
    return SeenFiles("orders", seen.stored())


def test_a_file_that_was_written_again_with_the_same_content_is_one_that_was_read() -> None:
    assert after_a_run().unseen([replace(FILE, written=18)]) == []


def test_a_file_of_the_same_length_with_another_digest_has_changed() -> None:
    with pytest.raises(InputError, match=r"orders: s3://in/a.jsonl has changed since a run has read it"):
        after_a_run().unseen([replace(FILE, written=18, digest='"abd"')])


@pytest.mark.usefixtures("own_directory")
def test_files_without_a_digest_are_compared_by_their_bytes() -> None:
    Path("a.jsonl").write_bytes(b"{}\n")
    file = replace(FILE, path="a.jsonl", digest="")
    seen = after_a_run(file)
    assert seen.unseen([replace(file, written=18, digest="of a later version")]) == []
    Path("a.jsonl").write_bytes(b"[]\n")
    with pytest.raises(InputError, match="has changed"):
        seen.unseen([replace(file, written=19)])
