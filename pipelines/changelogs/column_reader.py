"""Reads records in the columns that a table is made of: many at a time, and the others one by one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import integers
from beam_joins.keys.canonical import encode
from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.pipelines.changelogs.read_records import FAR_AHEAD, Ahead, MadeRows
from beam_joins.pipelines.changelogs.snapshot_files import snapshot_changes
from beam_joins.pipelines.formats.changelog_columns import KEY, PLACE, TIME, now, reference_at
from beam_joins.pipelines.formats.file_parts import Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import (
    RawRows,
    ignored_rows,
    many_at_a_time,
    record_batch,
    structs_one_by_one,
)
from beam_joins.pipelines.formats.row_by_row import ExactRows, printed_row
from beam_joins.pipelines.formats.row_texts import row_text
from beam_joins.pipelines.formats.types.extended_json import in_python

IGNORED: Final = "ignored_operation"


class ColumnReader:
    """Makes record batches with the columns of ``plan``: first those of the records that are read many at a
    time, then those of the others.

    A bad record does not have what ``plan`` asks for, or a line that is not a JSON object.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._plan.schema

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The records of a part, some at a time."""
        plan = self._plan.of_unit(part.file.unit, digits=bool(part.file.layout))
        read = part.file.reader.rows if part.file.snapshot is None else snapshot_changes
        return (made_of(raw, plan) for raw in read(part, plan))


def made_of(raw: RawRows, plan: ReadPlan) -> MadeRows:
    """The columns of records, and the faults of bad ones."""
    columns, sure = many_at_a_time(raw, plan)
    ignored = ignored_rows(raw, plan)
    objects = _Objects(raw, plan) if "object" in plan.forms else None
    if objects is not None:
        sure &= objects.are_right
    sure &= ~ignored
    of_lines = raw.line is not None and "json lines" not in plan.forms
    others, added, faults = ExactRows(plan, of_lines=of_lines), list[int](), list[tuple[int, str]]()
    ignored_count = int(ignored.sum())
    for n in np.flatnonzero(~sure & ~ignored).tolist():
        row, place = raw.row(n), raw.places[n].as_py()
        if isinstance(row, dict) and plan.columns.is_ignored(row):
            ignored_count += 1
        elif isinstance(row, str):
            faults.append((place, row))
        elif fault := _fault(raw, n, row, plan, of_lines=of_lines) or (objects and objects.faults.get(n)):
            faults.append((place, fault))
        elif objects is not None:
            others.add(row, place, key=objects.keys[n], value=objects.values[n])
        else:
            others.add(row, place, _text(raw, n, row, plan, of_lines=of_lines))
            added.append(n)
    batches = []
    if columns is not None and sure.any():
        many = columns if objects is None else columns | objects.columns(sure)
        batches.append(record_batch(plan, many if sure.all() else _kept(many, sure)))
    if len(others):
        batches.append(others.batch(None if raw.structs is None else raw.structs.take(pa.array(added))))
    skipped = {**raw.skipped, **({IGNORED: ignored_count} if ignored_count else {})}
    return MadeRows(batches, len(raw.places), faults, skipped, None if plan.columns.ahead is not None else _ahead(batches))


def _ahead(batches: Sequence[pa.RecordBatch]) -> Ahead | None:
    """The records whose times are far ahead of the clock; ``None`` if there are none."""
    if not batches:
        return None
    times = np.concatenate([integers(batch[TIME]) for batch in batches])
    far = times > now() + FAR_AHEAD
    if not far.any():
        return None
    at, places = int(times.argmax()), np.concatenate([integers(batch[PLACE]) for batch in batches])
    return Ahead(int(far.sum()), int(times[at]), int(places[at]))


def _kept(columns: Mapping[str, pa.Array], chosen: Any) -> dict[str, pa.Array]:
    """The chosen rows of columns."""
    mask = pa.array(chosen)
    return {name: column.filter(mask) for name, column in columns.items()}


class _Objects:
    """The dicts of records, their keys, and the faults of either."""

    def __init__(self, raw: RawRows, plan: ReadPlan) -> None:
        self.values, self.keys, self.faults = list[Any](), list[Any](), dict[int, str]()
        omitted = plan.omitted
        for n, value in enumerate(map(in_python, raw.objects()) if plan.in_python else raw.objects()):
            key = None
            if isinstance(value, str):
                self.faults[n] = value
            else:
                try:
                    key = _key_at(value, plan.paths)
                except ValueError as error:
                    self.faults[n] = str(error)
            self.keys.append(key)
            if omitted and isinstance(value, dict):
                self.values.append({name: each for name, each in value.items() if name not in omitted})
            else:
                self.values.append(value)
        self.are_right = np.array([n not in self.faults for n in range(len(self.values))], np.bool_)

    def columns(self, sure: Any) -> dict[str, pa.Array]:
        """The columns of keys and dicts; those of records that are not sure are null."""
        keys = [key if is_sure else None for key, is_sure in zip(self.keys, sure.tolist(), strict=True)]
        values = [value if is_sure else None for value, is_sure in zip(self.values, sure.tolist(), strict=True)]
        return {KEY: opaque_keys(keys), "object": opaque_values(values)}


def _key_at(row: Mapping[str, Any], paths: Sequence[Sequence[str]]) -> Any:
    """The key at paths within a row, ``None`` where a part of it is null; raises ValueError for a value that is no
    key.
    """
    parts = [_value_at(row, path) for path in paths]
    key = parts[0] if len(parts) == 1 else None if None in parts else tuple(parts)
    if not isinstance(key, int | str | None):
        encode(key)
    return key


def _value_at(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path, or in a column that is called so, dots included."""
    if len(path) > 1 and (whole := ".".join(path)) in row:
        return row[whole]
    value: Any = row.get(path[0])
    for name in path[1:]:
        if not isinstance(value, Mapping | None):
            raise ValueError(f"column {'.'.join(path)!r} leads into {value!r}, which has no columns")
        value = None if value is None else value.get(name)
    return value


def _text(raw: RawRows, n: int, row: dict[str, Any], plan: ReadPlan, *, of_lines: bool) -> bytes:
    """The JSON text of a record's row, or of the whole record."""
    if plan.columns.is_truncate(row):
        return b"{}"
    if raw.line is not None:
        return raw.line(n) if of_lines else raw.text(n) or row_text(raw.line(n), plan)
    return raw.text(n) or printed_row(row, plan)


def _fault(raw: RawRows, n: int, row: dict[str, Any], plan: ReadPlan, *, of_lines: bool) -> str | None:
    """Why a record has no place in the columns, or None."""
    fault = plan.fault(row) or _type_fault(raw, n, row, plan, of_lines=of_lines)
    key = plan.columns.key
    if fault and plan.columns.enveloped and key and all(reference_at(row, column) is not None for column in key):
        named = ", ".join(f"{column} {reference_at(row, column)!r}" for column in key)
        return f"{fault}; without the change the row with {named} is not right"
    return fault


def _type_fault(raw: RawRows, n: int, row: dict[str, Any], plan: ReadPlan, *, of_lines: bool) -> str | None:
    """Why a row has no place in typed columns, or None."""
    if plan.typed is None:
        return None
    fault = raw.type_faults.get(n)
    if raw.structs is None:
        try:
            structs_one_by_one([_text(raw, n, row, plan, of_lines=of_lines)], plan, of_lines=of_lines)
        except ValueError as error:
            fault = str(error)
    if plan.type_remedy is not None:
        return fault and f"{fault}{plan.type_remedy}"
    return fault and f"{fault} ({plan.columns.flag('schema')} says the types of columns)"
