"""Makes elements of the records of files that are rows, whose columns give time and sequence."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import vectorized
from beam_joins.arrow_types import plain_type, python_list, without_uuids
from beam_joins.exact_casts import exact_cast
from beam_joins.exact_values import Place
from beam_joins.fields import delete_getter, names_in
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
from beam_joins.positions import deleted_of
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.connect import struct_of
from beam_joins.typed_rows import column_writer

PLACE: Final = "(place)"
"""The column with the place of a record in its files, which orders records that nothing else orders."""
IN_COLUMNS: Final = {each.name: each for each in FILE_FORMATS if each.schema is not None}
"""The formats whose files say which columns they have."""
_BATCH_ROWS: Final = 65_536


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


class PlainReader:
    """Makes dicts of the records of files, or record batches with the columns of ``schema``; with their places.

    Records that ``ignored`` tells are left out.
    """

    def __init__(self, schema: pa.Schema | None, ignored: Ignored | None = None) -> None:
        self._columns, self._ignored = schema, ignored
        self.schema = None if schema is None else schema.append(pa.field(PLACE, pa.int64()))

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The records of a part, some at a time."""
        for made in _dicts(part) if self._columns is None else _batches(part, self._columns):
            if self._ignored is None:
                yield made
                continue
            kept, counts = zip(*map(self._ignored.kept, made.elements), strict=True) if made.elements else ((), ())
            skipped = {IGNORED: sum(counts)} if any(counts) else {}
            yield made._replace(elements=list(itertools.chain.from_iterable(kept)), skipped=skipped)


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
