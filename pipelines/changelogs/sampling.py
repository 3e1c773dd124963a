"""The evidence that the files of a changelog give before they are read: their columns and types, and their first
records.
"""

import datetime as dt
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from beam_joins.elements.iso_times import micros_of_text
from beam_joins.errors import InputError
from beam_joins.pipelines.formats.changelog_columns import Columns, whole_number
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.file_parts import File

LOOK_RECORDS: Final = 10_000
"""The number of records that are looked at to learn the columns."""
_TIME: Final = re.compile(r".*timestamp|(?:null or )?date")
_NUMBER: Final = re.compile(r"(?:null or )?(?:u?int|long|double|float|decimal)")
_IN_WORDS: Final = {True: "times", False: "numbers"}


def is_time(kind: str) -> bool | None:
    """Whether the name of a type is one of times or of numbers; ``None`` for others.

    >>> is_time("timestamp[ms, tz=UTC]"), is_time("int64"), is_time("string")
    (True, False, None)
    """
    return True if _TIME.match(kind) else False if _NUMBER.match(kind) else None


def types_of_files(name: str, files: Sequence[File], columns: Columns, before: Mapping[str, bool]) -> Layout:
    """The columns with the types that the first file to name them has; ``before`` says which held times in the files of
    earlier runs.

    Raises InputError for a column of times in some files and of numbers in others: they would be compared, and
    written, as the numbers behind them. JSON lines say no types, and what places records is a number there.
    """
    types: dict[str, str] = {}
    seen = {column: (held, "the files of earlier runs") for column, held in before.items()}
    timed = () if columns.sequence is not None and columns.timestamp in (columns.sequence, *columns.within) else (columns.timestamp,)
    places = [column for column in (columns.sequence, *columns.within) if column is not None and not columns.enveloped]
    for file in files:
        said = _types_in(name, file)
        for column, kind in (said or dict.fromkeys(places if file.reader.untyped_columns else (), "int64")).items():
            if (held := is_time(kind)) is None or column in timed:  # what an event time counts is known of each file
                continue
            first, where = seen.setdefault(column, (held, file.shown))
            if first != held:
                raise InputError(
                    f"{name}: column '{column}' holds {_IN_WORDS[first]} in {where} and {_IN_WORDS[held]} in {file.shown}: "
                    "write them as one, since nothing says what the numbers count"
                )
        types = {**said, **types}
    return tuple(types.items())


def _types_in(name: str, file: File) -> dict[str, str]:
    """The columns that a file names, and their types. Raises InputError for one that cannot be read."""
    try:
        return dict(file.reader.types(file))
    except OSError:
        raise
    except ValueError as error:
        raise InputError(f"{name}: {file.shown} {error}") from error


def absent_columns(missing: Collection[tuple[str, str]], may_be_empty: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    """The sentence on absent columns, each beside the option that names it, and the remedy; ``may_be_empty`` are options that
    may name no column, and how that is written.

    >>> absent_columns([("--op", "o"), ("--sequence-by", "lsn")], {"--sequence-by": "--sequence-by="})
    ("no columns 'o' (--op) and 'lsn' (--sequence-by)", 'name others with these options, or give --sequence-by= if there is none')
    """
    *others, last = [f"'{column}' ({option})" for option, column in missing]
    options = list(dict.fromkeys(option for option, _ in missing))
    remedy = f"name one of them with {options[0]}" if len(options) == 1 else "name others with these options"
    if empty := [may_be_empty[option] for option in options if option in may_be_empty]:
        remedy = f"{remedy}, or give {' and '.join(empty)} if there is none"
    return f"no columns {', '.join(others)} and {last}" if others else f"no column {last}", remedy


def holds_times(values: Collection[Any]) -> bool:
    """Whether all values, and at least one, are times, or texts of times.

    >>> holds_times(["2026-03-01"]), holds_times(["20260301"]), holds_times([])
    (True, False, False)
    """
    return bool(values) and all(map(_is_time, values))


def _is_time(value: Any) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and micros_of_text(value) is not None
    return isinstance(value, dt.date)


def may_be_positions(values: Collection[Any]) -> bool:
    """Whether all values, and at least one, are whole numbers that never decrease.

    >>> may_be_positions([1, 1, 7]), may_be_positions([2, 1]), may_be_positions([True])
    (True, False, False)
    """
    numbers = [whole_number(value) for value in values]
    return bool(numbers) and all(type(each) is int for each in numbers) and numbers == sorted(numbers)


def first_records(name: str, files: Sequence[File]) -> Iterator[tuple[File, dict[str, Any]]]:
    """The first usable records of the files of each format; an unusable one is the run's business."""
    readers = dict.fromkeys(file.reader for file in files)
    for reader in readers:
        of_format = [file for file in files if file.reader == reader]
        yield from itertools.islice(_records(name, of_format), max(1, LOOK_RECORDS // len(readers)))


def _records(name: str, files: Sequence[File]) -> Iterator[tuple[File, dict[str, Any]]]:
    for file in files:
        try:
            yield from ((file, row) for row in file.reader.first(file))
        except OSError:
            raise
        except ValueError as error:
            raise InputError(f"{name}: {file.shown} {error}") from error
