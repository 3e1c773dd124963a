"""Tables as files in a folder, kept from one run to the next."""

import os
import shutil
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.changes import SEED, draw
from benchmarks.data.dataset import Dataset
from benchmarks.works import SUFFIXES, Format

ROW_GROUP_ROWS: Final = 65_536


def provide(dataset: Dataset, directory: Path) -> Path:
    """The folder of the data, with a folder of files for each table; made if it is not there yet."""

    def write(folder: Path) -> None:
        for number, (name, table) in enumerate(draw(dataset).items()):
            files = dataset.right_files if number == 1 else dataset.left_files
            write_table(table, folder / name, files=files, format=dataset.format)

    return written_once(directory / f"{dataset.name}-{SEED}", write)


def written_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """A folder that ``write`` fills if it is not there yet. It appears whole: a run that was interrupted leaves no half of it."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        try:
            write(draft)
            os.replace(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def write_table(table: pa.Table, folder: Path, *, files: int, format: Format = "parquet") -> None:
    """Write a table's rows in their order, cut into files of about the same number of rows: Parquet, or JSON
    lines.
    """
    folder.mkdir(parents=True)
    bounds = [table.num_rows * number // files for number in range(files + 1)]
    for number, (begin, end) in enumerate(pairwise(bounds)):
        part = table.slice(begin, end - begin)
        path = folder / f"part-{number:05}{SUFFIXES[format]}"
        if format == "parquet":
            pq.write_table(part, path, row_group_size=ROW_GROUP_ROWS, compression="zstd")
        else:
            duckdb.from_arrow(part).query("part", f"copy part to '{path}' (format json)")
