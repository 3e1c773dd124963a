"""Refuses Parquet paths that are read and written in one pipeline, or that another run has written."""

from collections.abc import Iterator
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import absolute, real
from beam_joins.pipelines.results.publication import parts_of
from beam_joins.transforms.connect.files import open_file

SUFFIX: Final = ".parquet"
RUN: Final = b"beam_joins.run"
"""Under this key the metadata of a file names the run that has written it."""


class ReadsParquet:
    """A transform that reads the files ``paths``."""

    paths: list[str]


class WritesParquet:
    """A transform that writes, and replaces, the files ``{path}-00000-of-00004.parquet``."""

    path: str


def require_apart(pipeline: beam.Pipeline) -> None:
    """Checks that the transforms applied so far read and write different Parquet files.

    Raises:
        InputError: two write to one path, or one would replace or remove a file that another reads.
        OutputError: the directory of a path cannot be listed.
    """
    transforms = list(_applied(pipeline.transforms_stack[0]))
    written = [transform.path for transform in transforms if isinstance(transform, WritesParquet)]
    seen: set[str] = set()
    for path in written:
        if real(absolute(path)) in seen:
            raise InputError(f"WriteParquet writes to {path} twice in this pipeline: give each result its own path")
        seen.add(real(absolute(path)))
    read = {real(each): each for transform in transforms if isinstance(transform, ReadsParquet) for each in transform.paths}
    for path in written if read else ():
        with writing(path):
            replaced = sorted(set(map(real, parts_of(path, SUFFIX))) & read.keys())
        if replaced:
            raise InputError(
                f"{read[replaced[0]]} is read in this pipeline, and WriteParquet to {path} would replace it as a part "
                "of an earlier result:"
                " give the result another path"
            )


def run_of(path: str) -> str | None:
    """The run that has written a file; None if the file does not exist, or is not ours."""
    try:
        with open_file(path) as file:
            metadata = pq.read_metadata(file).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    return metadata[RUN].decode(errors="replace") if RUN in metadata else None


def without_run(table: pa.Table) -> pa.Table:
    """The table without the name of the run: that is the file's, and says nothing of the rows."""
    metadata = table.schema.metadata
    if not metadata or RUN not in metadata:
        return table
    return table.replace_schema_metadata({key: value for key, value in metadata.items() if key != RUN})


def _applied(node: Any) -> Iterator[object]:
    yield node.transform
    for part in node.parts:
        yield from _applied(part)
