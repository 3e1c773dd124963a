"""Reads records in the columns that a command needs: many at a time, and the others one by one."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from beam_joins.pipelines.changelogs.read_records import MadeRows
from beam_joins.pipelines.formats.exact_rows import ExactRows, row_text
from beam_joins.pipelines.formats.files import Part
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows, ignored_rows, structs_one_by_one, typed_rows
from beam_joins.pipelines.formats.registry import SOURCES

IGNORED: Final = "ignored_operation"


class ColumnReader:
    """Makes record batches with the columns of ``reading``: first those of the records that are read many at a
    time, then those of the others.

    A bad record is one that does not have what ``reading`` asks for, or a line that is not a JSON object.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._reading.schema

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The records of a part, some at a time."""
        reading = self._reading.of_unit(part.file.unit)
        return (made_of(raw, reading) for raw in SOURCES[part.file.format].rows(part, reading))


def made_of(raw: RawRows, reading: Reading) -> MadeRows:
    """The columns of records, and what is wrong with those that are bad."""
    batch, sure = typed_rows(raw, reading)
    ignored = ignored_rows(raw, reading)
    others, added, faults = ExactRows(reading), list[int](), list[tuple[int, str]]()
    ignored_count = int(ignored.sum())
    for n in np.flatnonzero(~sure & ~ignored).tolist():
        row, place = raw.row(n), raw.places[n].as_py()
        if isinstance(row, dict) and reading.columns.is_ignored(row):
            ignored_count += 1
        elif isinstance(row, str):
            faults.append((place, row))
        elif fault := _fault(raw, n, row, reading):
            faults.append((place, fault))
        else:
            others.add(row, place, raw.text(n))
            added.append(n)
    batches = [] if batch is None or not len(batch) else [batch]
    if len(others):
        batches.append(others.batch(None if raw.structs is None else raw.structs.take(pa.array(added))))
    skipped = {**raw.skipped, **({IGNORED: ignored_count} if ignored_count else {})}
    return MadeRows(batches, len(raw.places), faults, skipped)


def _fault(raw: RawRows, n: int, row: dict[str, Any], reading: Reading) -> str | None:
    """Why a record has no place in the columns, or None."""
    fault = reading.fault(row) or _type_fault(raw, n, row, reading)
    key = reading.columns.key
    if fault and reading.columns.enveloped and all(row.get(column) is not None for column in key):
        named = ", ".join(f"{column} {row[column]!r}" for column in key)
        return f"{fault}; without the change the row with {named} is not right"
    return fault


def _type_fault(raw: RawRows, n: int, row: dict[str, Any], reading: Reading) -> str | None:
    """Why a row has no place in typed columns, or None."""
    if "columns" not in reading.forms or raw.structs is not None:
        return None
    try:
        structs_one_by_one([raw.text(n) or row_text(row, reading)], reading)
    except ValueError as error:
        return f"{error} ({reading.columns.flag('schema')} says the types of columns)"
    return None
