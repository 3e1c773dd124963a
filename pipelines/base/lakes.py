"""Tables of lakes, whose logs say which files of a folder count: their files are not read as plain ones."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import absolute, beginning_with, fixed_folder, folders_beginning_with, is_local
from beam_joins.transforms.connect.files import bucket_and_key


class _Lake(NamedTuple):
    """A table format: the folder within a table's folder that makes it one, and a pattern of the names of files there."""

    title: str
    folder: str
    names: re.Pattern[str]


_DELTA: Final = _Lake("a Delta table", "_delta_log", re.compile(r"."))
_LAKES: Final = (
    _DELTA,
    _Lake("a Hudi table", ".hoodie", re.compile(r".")),
    _Lake("an Iceberg table", "metadata", re.compile(r".*\.metadata\.json(\.gz)?$")),
    _Lake("a Paimon table", "schema", re.compile(r"schema-[0-9]+$")),
    _Lake("a Lance dataset", "_versions", re.compile(r".*\.manifest$")),
)
_DATA: Final = (".parquet", ".avro", ".orc", ".lance")
"""The suffixes of a lake's files; other files beside them are no part of it."""
_OF_DUCK_LAKE: Final = re.compile(r"ducklake-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-delete)?\.parquet$")
_BY_ITS_OWN: Final = "let an engine that reads such tables, as DuckDB or Spark, write its rows into another folder"


def require_plain(pattern: str, files: Iterable[str]) -> None:
    """Raise InputError, a sentence, if files of a path, a glob or a folder are those of a lake; where there is no file, if the
    folder is a lake's table, or has one in it.
    """
    paths = list(files)
    data = [path for path in paths if path.lower().endswith(_DATA)]
    if of_duck_lake := next(filter(_OF_DUCK_LAKE.search, data), None):
        raise InputError(f"{_shown(of_duck_lake)} is a file of a DuckLake, whose catalog says which rows count: {_BY_ITS_OWN}")
    for path in _by_folder(data):
        _require_outside(*os.path.split(path))
    if not paths and (os.path.isdir(pattern) or pattern.lower().endswith(_DATA) or not is_local(pattern)):
        folder = fixed_folder(pattern)
        _require_outside(folder, "")
        with suppress(OSError):
            for each in folders_beginning_with(f"{folder}/"):
                _require_no_lake(each)


def _by_folder(paths: Iterable[str]) -> Iterator[str]:
    """A file of each folder, and those that links lead to."""
    folders = set[str]()
    for path in paths:
        if is_local(path) and os.path.islink(path):
            yield os.path.realpath(path)
        if (folder := os.path.dirname(path)) not in folders:
            folders.add(folder)
            yield path


def _require_outside(folder: str, name: str) -> None:
    """Raise InputError if a folder, or one above it, is a lake's table, unless the file or folder of the name is in its log."""
    top = "/" if is_local(folder) else f"{folder.partition('://')[0]}://{bucket_and_key(folder)[0]}"
    while folder.startswith(top):
        _require_no_lake(folder, name)
        if folder == top:
            return
        folder, name = os.path.split(folder)


def _require_no_lake(folder: str, name: str = "") -> None:
    lake = _lake_on_disk(folder) if is_local(folder) else _lake_in_store(folder)
    if lake is not None and name != lake.folder:
        shown = _shown(folder)
        remedy = f"read delta:{shown}, or by ReadDelta" if lake is _DELTA else _BY_ITS_OWN
        raise InputError(f"{shown} is {lake.title}, whose log (in {lake.folder}) says which of its files count: {remedy}")


def _shown(path: str) -> str:
    """The path as seen from the working directory, if it lies there."""
    return os.path.relpath(path) if is_local(path) and absolute(path).startswith(os.getcwd()) else path


def _lake_on_disk(folder: str) -> _Lake | None:
    for lake in _LAKES:
        with suppress(OSError):
            if any(lake.names.match(os.path.basename(path)) for path in beginning_with(f"{folder}/{lake.folder}/")):
                return lake
    return None


_lake_in_store = cache(_lake_on_disk)  # a look takes several requests
