"""Finds the files of a changelog, and inspects them before the run starts."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from beam_joins.elements.iso_times import NO_TIME
from beam_joins.errors import InputError, kind_of
from beam_joins.extras import MissingExtra
from beam_joins.pipelines.base.lakes import require_plain
from beam_joins.pipelines.base.paths import absolute, files_at, none_at, require_file_system
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, DatabaseTable
from beam_joins.pipelines.changelogs.sampling import (
    LOOK_RECORDS,
    first_records,
    types_of_files,
)
from beam_joins.pipelines.changelogs.tombstones_in_files import Beginning
from beam_joins.pipelines.formats.changelog_columns import Columns, Envelopes
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.csv_text import in_one_layout
from beam_joins.pipelines.formats.envelopes.inferred_key import (
    NOTHING,
    Evidence,
    absent_table,
    changes_in,
    evidence_of,
    require_one_type,
)
from beam_joins.pipelines.formats.envelopes.readers import ENVELOPES
from beam_joins.pipelines.formats.envelopes.row_change import is_pattern
from beam_joins.pipelines.formats.envelopes.wal2json_log import NONE_READ, ReadBefore, wal2json_log
from beam_joins.pipelines.formats.file_parts import File, FormatReader
from beam_joins.pipelines.formats.registry import FORMAT_NAMES, FORMATS, Format, format_of, has_format, titles_of
from beam_joins.transforms.connect.files import cause, open_file

_ESCAPED: Final = re.compile("[\ud800-\udfff]")
"""The bytes of a name that are no UTF-8, as Python has them."""


def changelog_of_table(name: str, files: Sequence[File], columns: Columns, table: DatabaseTable) -> Changelog:
    """The changelog of a table in a database, which says its columns: nothing is looked at. The key is that of ``columns``, or
    of the table; raises InputError without one.
    """
    key = columns.key or table.key
    if not key:
        raise InputError(f"{name}: {table.name} has no primary key: name its columns with {columns.flag('key')}")
    evidence = Evidence(key, (table.columns,), table.columns, is_there=True)
    files, columns = tuple(replace(file, key=key) for file in files), replace(columns, key=key)
    return Changelog(name=name, files=files, columns=columns, first=(), times=(), evidence=evidence, table=table)


def find_changelog(
    name: str,
    pattern: str,
    columns: Columns,
    *,
    look_bytes: int = 0,
    folders: bool = False,
    keyed_later: bool = False,
) -> Changelog:
    """Find the files of a path or glob, with ``folders`` also of a folder, and look into them:
    :func:`files_of` and :func:`look_into`.

    Raises:
        InputError: nothing there, not a file, not readable, of an unknown format, or without one of the
        columns.
    """
    files = tuple(replace(file, look_bytes=look_bytes) for file in files_of(name, pattern, columns, folders=folders))
    if not files:
        raise InputError(f"{name}: {none_at(pattern)}")
    return look_into(name, files, columns, keyed_later=keyed_later)


def files_of(name: str, pattern: str, columns: Columns, *, folders: bool = False) -> tuple[File, ...]:
    """The files of a path or glob, with ``folders`` also of a folder, whose formats have the options that ``columns`` name:
    :func:`find_files`. Raises InputError.
    """
    if os.path.isdir(pattern) and not folders:
        _require_plain(name, pattern, ())
        glob = os.path.join(pattern, "*")
        raise InputError(f"{name}: {pattern} is a directory: name a file, or a glob such as {glob}; runs with a state read folders")
    files = find_files(name, pattern, columns.envelopes)
    for option, is_given in {
        "schema": columns.declared and not columns.enveloped,
        "delimiter": columns.csv.delimiter,
        "encoding": columns.csv.encoding,
        "column_formats": columns.csv.formats,
    }.items():
        if files and is_given and not any(option in file.reader.options for file in files):
            having = [each for each in FORMATS if option in each.format.reader.options]
            named = titles_of(having, *(["envelopes"] if option == "schema" else []))
            raise InputError(f"{columns.flag(option)} is for {named}, and {pattern} finds none")
    return files


def find_files(name: str, pattern: str, envelopes: Envelopes | None = None) -> tuple[File, ...]:
    """The files of a path, of a glob, or of a folder: there those whose suffix is one of a format, without
    hidden ones.

    They hold ``envelopes``, or rows.

    Raises InputError for a file of an unknown format, and where the file system does not answer.
    """
    require_file_system(name, pattern)
    try:
        matched, folder = files_at(pattern)
    except Exception as error:  # each file system has errors of its own: of the network, of credentials
        raise kind_of(error)(f"{name}: cannot look for {pattern}: {cause(error)}") from error
    if unnamed := next((file.path for file in matched if not file.path.isascii() and _ESCAPED.search(file.path)), None):
        raise InputError(f"{name}: the name of the file {os.fsencode(unnamed)!r} is no UTF-8: rename it")
    _require_plain(name, pattern, [file.path for file in matched])
    shown = (lambda path: path) if absolute(pattern) == pattern else os.path.relpath
    readers = None if envelopes is None else ENVELOPES[envelopes.format]
    formats: Sequence[Format] = FORMAT_NAMES if readers is None else tuple(readers)
    described = {name: getattr(envelopes, name) for name in ("table", "key", "columns", "placeholders") if envelopes is not None}
    return tuple(
        File(
            path=file.path,
            bytes=file.bytes,
            written=file.written,
            digest=file.digest,
            shown=shown(file.path),
            reader=format_.format.reader if readers is None else readers[format_.name],
            **described,
        )
        for file in matched
        if not folder or has_format(file.path)
        for format_ in [format_of(name, shown(file.path), formats)]
    )


def _require_plain(name: str, pattern: str, paths: Iterable[str]) -> None:
    try:
        require_plain(pattern, paths)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def nothing_at(name: str, pattern: str, files: Sequence[File]) -> str:
    """The sentence on a path where no file is; empty where ``files`` are, or a folder, whose files may go once they are read."""
    return "" if files or os.path.isdir(pattern) else f"{name}: {none_at(pattern)}"


def look_into(
    name: str,
    files: tuple[File, ...],
    columns: Columns,
    *,
    remembered: Layout = (),
    before: pa.Schema | None = None,
    read: ReadBefore = NONE_READ,
    is_known: bool = False,
    held_times: Mapping[str, bool] = MappingProxyType({}),
    keyed_later: bool = False,
) -> Changelog:
    """Look at what files say of themselves, and at their first records.

    The time unit of a file that says its own replaces the one in ``columns``; ``remembered`` are the types of
    columns that a file need not have. ``before`` are the columns
    of the rows of envelopes in an earlier run, for files that do not show them, and ``read`` the
    transactions of a slot that were read there. ``is_known``: rows of the table were read there. ``held_times`` says
    of columns whether they held times there, or numbers. ``keyed_later``: the key of envelopes may be unknown.

    Raises InputError for a file that cannot be read, or does not have a declared column.
    """
    try:
        for file in files:
            open_file(file.path).close()
            if not file.bytes and not file.reader.may_be_empty:
                raise InputError(
                    f"{name}: {file.shown} is empty, where a file of {file.reader.name} has at least its schema: leave it out"
                )
        evidence, log, absent = NOTHING, None, ""
        if any(file.reader.spans_files and not file.look_bytes for file in files):
            log = wal2json_log(name, files, read)
            files = log.files
        if columns.enveloped and files:
            evidence = evidence_of(name, changes_in(name, files), LOOK_RECORDS, partitions=is_pattern(files[0].table))
            if not evidence.is_there and not is_known and files[0].table:
                absent, doubt = absent_table(name, files)
                evidence = evidence._replace(doubt=evidence.doubt or doubt)
            key = files[0].key or evidence.key
            if not key and not keyed_later:
                raise InputError(absent or no_key(name, files[0].reader, columns))
            if before is not None:
                evidence = evidence._replace(whole=evidence.whole or before, doubt="")
            require_one_type(name, key, evidence.types)
            files = tuple(replace(file, key=key, columns=file.columns or evidence.whole) for file in files)
            columns = replace(columns, key=key)
        files = in_one_layout([_looked_into(name, file, columns, remembered) for file in files])
        types = types_of_files(name, files, columns, held_times)
        first = tuple(first_records(name, files))
    except (OSError, EOFError) as error:
        shown = getattr(error, "filename", None) or files[0].shown
        raise kind_of(error)(f"{name}: cannot read {shown}: {cause(error)}") from error
    units = {file.unit or columns.unit for file in files}
    columns = replace(columns, unit=units.pop()) if len(units) == 1 else columns
    by_unit = {file: columns if file.unit is None else replace(columns, unit=file.unit) for file in files}
    times = (by_unit[file].time_of(row) for file, row in first if by_unit[file].fault(row) is None)
    return Changelog(
        name=name,
        files=files,
        columns=columns,
        first=tuple(row for _, row in first),
        times=tuple(time for time in times if time != NO_TIME),
        types=types,
        evidence=evidence,
        waiting=() if log is None else log.waiting,
        read=NONE_READ if log is None else log.read,
        absent=absent,
        beginning=Beginning(files[0].path) if any(file.reader.lone_tombstones for file in files) else None,
    )


def no_key(name: str, reader: FormatReader, columns: Columns) -> str:
    """The sentence on envelopes that do not say a primary key."""
    remedy = f", or {reader.key_remedy}" if reader.key_remedy else ""
    return f"{name}: no change says which columns are its primary key: name them ({columns.flag('key')}, or key=){remedy}"


def _looked_into(name: str, file: File, columns: Columns, remembered: Layout) -> File:
    """The file with its own description of its columns."""
    try:
        of_order = filter(None, (columns.timestamp, columns.sequence, *columns.within))
        units = {column: file.reader.unit(file, column) for column in of_order}  # all refuse times of day
        return file.reader.described(replace(file, unit=units.get(columns.timestamp or "")), columns, remembered)
    except (OSError, MissingExtra):
        raise
    except ValueError as error:
        raise InputError(f"{name}: {file.shown} {error}") from error
