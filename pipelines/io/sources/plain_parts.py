"""Makes elements of the records of files that are rows, whose columns give time and sequence."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import vectorized
from beam_joins.arrow_types import plain_type, python_list, without_uuids
from beam_joins.exact_casts import exact_cast
from beam_joins.exact_values import Place
from beam_joins.fields import delete_getter, getter, names_in
from beam_joins.marks import deleted_of
from beam_joins.operations import word
from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.changelogs.column_reader import IGNORED
from beam_joins.pipelines.changelogs.read_records import MadeRows, fitting
from beam_joins.pipelines.formats.avro_rows import read_records, with_uuids_as_text
from beam_joins.pipelines.formats.envelopes.typed_texts import typed
from beam_joins.pipelines.formats.exact_json import dumps_line
from beam_joins.pipelines.formats.files import Growing, NotWhole, Part
from beam_joins.pipelines.formats.reading import BEHIND_DELETES
from beam_joins.pipelines.formats.registry import FILE_FORMATS, SOURCES
from beam_joins.positions import places_of, times_of
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.connect import struct_of
from beam_joins.typed_rows import column_writer

PLACE: Final = "(place)"
"""The column with the place of a record in its files, which orders records that nothing else orders."""
IN_COLUMNS: Final = {each.name: each for each in FILE_FORMATS if each.schema is not None}
"""The formats whose files say which columns they have."""
_BATCH_ROWS: Final = 65_536
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


class Ignored(NamedTuple):
    """Tells records that are no changes, by the words in a column, in dicts and record batches."""

    column: str
    words: frozenset[str]

    @classmethod
    def of(cls, spec: Any) -> "Ignored | None":
        """From the option; raises ``ValueError`` for what is not one column and its words."""
        if spec is None:
            return None
        column, words = next(iter(spec.items())) if isinstance(spec, Mapping) and len(spec) == 1 else ("", ())
        if not isinstance(column, str) or not column or isinstance(words, str | bytes) or not isinstance(words, Sequence) or not words:
            raise ValueError(
                f"ignored={spec!r}: give one column and its values that mean no change, as in {{'op': ['update_preimage']}}"
            )
        return cls(column, frozenset(map(word, words)))

    def kept(self, rows: Any) -> tuple[list[Any], int]:
        """The element, or its rows, that are changes, and how many are not."""
        if not isinstance(rows, pa.RecordBatch):
            ignored = word(rows.get(self.column)) in self.words
            return [] if ignored else [rows], int(ignored)
        kept = rows.filter(pa.array([word(value) not in self.words for value in rows[self.column].to_pylist()], pa.bool_()))
        return [kept] if len(kept) else [], len(rows) - len(kept)


def ties(deletes: Any, *, in_columns: bool) -> Any:
    """What orders records that sequence and time do not: an upsert is behind a delete, which is of the row
    before it, then the place; ``deletes`` is the option that says which records delete.
    """
    if deletes is None:
        return PLACE
    if in_columns and (isinstance(deletes, vectorized) or not callable(deletes)):
        return vectorized(partial(_ties_of_columns, deletes))
    is_delete = delete_getter(deletes)
    return lambda row: row[PLACE] + (0 if is_delete(row) else BEHIND_DELETES)


def _ties_of_columns(deletes: Any, rows: pa.RecordBatch) -> pa.Array:
    marks = deletes(rows) if callable(deletes) else rows[next(iter(names_in(deletes)))]
    return pc.if_else(deleted_of(deletes, marks), rows[PLACE], pc.add(rows[PLACE], BEHIND_DELETES))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of the type has text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def times_of_texts(column: str, ordering: bool) -> Any:
    """What reads a column of texts as event times; ``ordering``: they are positions too."""
    return vectorized(partial(_times_of_texts, column, ordering))


def _times_of_texts(column: str, ordering: bool, rows: pa.RecordBatch) -> pa.Array:
    return times_of("timestamp_by", rows[column].to_pylist(), ordering=ordering)


class Roles(NamedTuple):
    """The columns that a table needs of records: of its ``key``, whose names may lead into them, of the event time and
    of the sequence.
    """

    key: Sequence[str]
    timestamp: str
    sequence: Sequence[str] = ()

    def fitting(self, element: Any, places: Sequence[int]) -> tuple[Any, list[tuple[int, str]]]:
        """The records that can have these roles, and the faults of the others; one without a column has null there,
        and is dropped by the table.
        """
        if not isinstance(element, pa.RecordBatch):
            rows, _, faults = fitting(self._whole, element, places)
            return rows, faults
        with suppress(ValueError):
            return self._checked(element), []
        rows, _, faults = fitting(lambda at: self._checked(element.take(pa.array(at, pa.int64()))), range(len(element)), places)
        return rows, faults

    def numbered(self, row: dict[str, Any]) -> dict[str, Any]:
        """The record of a CSV file, where one text in a column makes text of its numbers too."""
        texts = ((name, row.get(name)) for name in (self.timestamp, *self.sequence))
        return {**row, **{name: int(text) for name, text in texts if isinstance(text, str) and _WHOLE.fullmatch(text)}}

    def _whole(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        paths = [name.split(".") for name in self.key]
        names = dict.fromkeys([*(path[0] for path in paths), self.timestamp, *self.sequence])
        whole = [row if names.keys() <= row.keys() else {**row, **{name: row.get(name) for name in names}} for row in rows]
        for path in paths:
            for row in whole if path[1:] else ():
                _require_path(row, path)
        times_of("timestamp_by", [row[self.timestamp] for row in whole], ordering=not self.sequence)
        if self.sequence:
            of_row = getter("sequence_by", list(self.sequence))
            places_of("sequence_by", list(map(of_row, whole)))
        return whole

    def _checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        column = rows[self.timestamp]
        times_of("timestamp_by", column.to_pylist() if is_text(column.type) else column, ordering=not self.sequence)
        for name in self.sequence:
            places_of("sequence_by", rows[name])
        return rows


def _require_path(row: dict[str, Any], path: Sequence[str]) -> None:
    value = row[path[0]]
    for name in path[1:]:
        if not isinstance(value, Mapping | None):
            raise ValueError(f"column {'.'.join(path)!r} leads into {value!r}, which has no columns")
        value = None if value is None else value.get(name)


class PlainReader:
    """Makes dicts of the records of files, or record batches with the columns of ``schema``; with their places.

    Records that ``ignored`` tells are left out; those that do not fit their ``roles`` are bad ones, where these are
    told.
    """

    def __init__(self, schema: pa.Schema | None, ignored: Ignored | None = None, roles: Roles | None = None) -> None:
        self._columns, self._ignored, self._roles = schema, ignored, roles
        self.schema = None if schema is None else schema.append(pa.field(PLACE, pa.int64()))

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The records of a part, some at a time."""
        for made in _dicts(part) if self._columns is None else _batches(part, self._columns):
            kept = self._kept(made)
            if self._roles is not None and self._columns is None and part.file.format == "csv":
                kept = kept._replace(elements=list(map(self._roles.numbered, kept.elements)))
            yield self._fitting(kept)

    def _fitting(self, made: MadeRows) -> MadeRows:
        if self._roles is None:
            return made
        faults = list(made.faults)
        if self._columns is None:
            elements, others = self._roles.fitting(made.elements, [row[PLACE] for row in made.elements])
            return made._replace(elements=elements, faults=sorted([*faults, *others]))
        batches = []
        for batch in made.elements:
            rows, others = self._roles.fitting(batch, batch[PLACE].to_pylist())
            batches += [rows] if len(rows) else []
            faults += others
        return made._replace(elements=batches, faults=sorted(faults))

    def _kept(self, made: MadeRows) -> MadeRows:
        if self._ignored is None:
            return made
        kept, counts = zip(*map(self._ignored.kept, made.elements), strict=True) if made.elements else ((), ())
        skipped = {IGNORED: sum(counts)} if any(counts) else {}
        return made._replace(elements=list(itertools.chain.from_iterable(kept)), skipped=skipped)


def _dicts(part: Part) -> Iterator[MadeRows]:
    for places, rows, faults in _rows(part, None):
        elements = [{**row, PLACE: place} for place, row in zip(places, rows, strict=True)]
        yield MadeRows(elements, len(rows) + len(faults), faults)


def _batches(part: Part, schema: pa.Schema) -> Iterator[MadeRows]:
    if part.file.format in IN_COLUMNS:
        table = _table(part, tuple(schema.names))
        with _values_of(part):
            rows_in_columns = pa.RecordBatch.from_struct_array(struct_of(table, schema))
        places = pa.array(range(part.first_place, part.first_place + len(rows_in_columns)), pa.int64())
        for start in range(0, len(places), _BATCH_ROWS):
            columns = rows_in_columns.slice(start, _BATCH_ROWS).columns
            batch = _with_places(columns, schema, places.slice(start, _BATCH_ROWS))
            yield MadeRows([batch], len(batch))
        return
    convert = partial(_of_records if part.file.format == "avro" else _of_texts, schema)
    for places, rows, faults in _rows(part, schema):
        fit, at, others = fitting(convert, rows, places)
        batches = [_with_places(fit.columns, schema, pa.array(at, pa.int64()))] if len(fit) else []
        yield MadeRows(batches, len(rows) + len(faults), sorted([*faults, *others]))


def _of_records(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    write = column_writer("a record", schema)
    return pa.RecordBatch.from_struct_array(write([{name: row.get(name) for name in schema.names} for row in rows]))


def _of_texts(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return typed([dumps_line(row) for row in rows], schema)


def _rows(part: Part, schema: pa.Schema | None) -> Iterator[tuple[list[int], list[dict[str, Any]], list[tuple[int, str]]]]:
    """The records of a part as dicts, some at a time: the places of those that are records, these, and the faults
    of the others.
    """
    if part.file.format in IN_COLUMNS:
        table = combine_chunks(_table(part).to_struct_array())
        with _values_of(part):
            columns = exact_cast(table, without_uuids(plain_type(table.type)), Place("a row"))
        yield list(range(part.first_place, part.first_place + len(columns))), python_list(columns), []
    elif part.file.format == "avro":  # times are datetimes here, and microseconds in the readers of commands
        records = read_records(part.file.path, part.start, part.stop)
        while some := list(itertools.islice(records, _BATCH_ROWS)):
            yield [part.first_place + number for number, _ in some], [with_uuids_as_text(record, schema) for _, record in some], []
    else:
        for raw in SOURCES[part.file.format].rows(part, None):
            read = [(place, raw.row(n)) for n, place in enumerate(raw.places.to_pylist())]
            rows = [(place, row) for place, row in read if not isinstance(row, str)]
            faults = [(place, row) for place, row in read if isinstance(row, str)]
            yield [place for place, _ in rows], [row for _, row in rows], faults


@contextmanager
def _values_of(part: Part) -> Iterator[None]:
    """Names the file in errors about its values, which are no sentences about a file."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{part.file.shown}: {error}") from error


def _table(part: Part, columns: tuple[str, ...] | None = None) -> pa.Table:
    """The rows of a part, which is one piece of a file in columns, such as a row group."""
    whole = IN_COLUMNS[part.file.format].whole
    assert whole is not None
    try:
        _, table = next(whole(Growing(part.file.path, part.start, True, columns)))
    except NotWhole:
        raise EOFError from None
    assert isinstance(table, pa.Table)
    return table


def _with_places(columns: Sequence[pa.Array], schema: pa.Schema, places: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([*columns, places], schema=schema.append(pa.field(PLACE, pa.int64())))
