"""Reads files of plain rows, whose columns give time and sequence, as elements."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics

from beam_joins import vectorized
from beam_joins.arrow_types import plain_type, python_list, without_uuids
from beam_joins.exact_casts import exact_cast
from beam_joins.exact_values import Place
from beam_joins.fields import delete_getter, names_in
from beam_joins.operations import word
from beam_joins.pipelines.base.input_error import InputError
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
    """Leaves records out that are no changes, by the words in a column, and counts them as
    ``skipped_ignored_operation``; takes dicts and record batches.
    """

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

    def __call__(self, rows: Any) -> Iterator[Any]:
        """The element, or its rows, that are changes."""
        if isinstance(rows, pa.RecordBatch):
            kept = rows.filter(pa.array([word(value) not in self.words for value in rows[self.column].to_pylist()], pa.bool_()))
            count = len(rows) - len(kept)
            yield from [kept] * bool(len(kept))
        else:
            count = int(word(rows.get(self.column)) in self.words)
            yield from [rows] * (not count)
        if count:
            Metrics.counter("beam_joins", "skipped_ignored_operation").inc(count)

    def of_part(self, read: Callable[[Part], Iterator[Any]], part: Part) -> Iterator[Any]:
        """What is read of a part, without these."""
        for rows in read(part):
            yield from self(rows)


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


def plain_dicts(part: Part) -> Iterator[dict[str, Any]]:
    """The records of a part as dicts, with their places."""
    with _named(part):
        for place, row in _rows(part, None):
            yield {**row, PLACE: place}


def plain_batches(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of a part in the columns of ``schema``, with their places."""
    with _named(part):
        if part.file.format in IN_COLUMNS:
            rows_in_columns = pa.RecordBatch.from_struct_array(struct_of(_table(part, tuple(schema.names)), schema))
            places = pa.array(range(part.first_place, part.first_place + len(rows_in_columns)), pa.int64())
            for start in range(0, len(places), _BATCH_ROWS):
                columns = rows_in_columns.slice(start, _BATCH_ROWS).columns
                yield _with_places(columns, schema, places.slice(start, _BATCH_ROWS))
            return
        rows = _rows(part, schema)
        while some := list(itertools.islice(rows, _BATCH_ROWS)):
            places, values = zip(*some, strict=True)
            if part.file.format == "avro":
                columns = column_writer("a record", schema)({name: row.get(name) for name in schema.names} for row in values).flatten()
            else:
                columns = _typed(part, places, [dumps_line(row) for row in values], schema).columns
            yield _with_places(columns, schema, pa.array(places, pa.int64()))


def _rows(part: Part, schema: pa.Schema | None) -> Iterator[tuple[int, dict[str, Any]]]:
    if part.file.format == "avro":  # times are datetimes here, and microseconds in the readers of commands
        for number, record in read_records(part.file.path, part.start, part.stop):
            yield part.first_place + number, with_uuids_as_text(record, schema)
        return
    if part.file.format in IN_COLUMNS:
        rows = combine_chunks(_table(part).to_struct_array())
        yield from enumerate(python_list(exact_cast(rows, without_uuids(plain_type(rows.type)), Place("a row"))), part.first_place)
        return
    for raw in SOURCES[part.file.format].rows(part, None):
        for n, place in enumerate(raw.places.to_pylist()):
            row = raw.row(n)
            if isinstance(row, str):
                raise _bad(part, place, row)
            yield place, row


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


def _typed(part: Part, places: Sequence[int], texts: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    try:
        return typed(texts, schema)
    except ValueError:
        for place, text in zip(places, texts, strict=True):
            try:
                typed([text], schema)
            except ValueError as error:
                raise _bad(part, place, f"{error}") from None
        raise


def _with_places(columns: Sequence[pa.Array], schema: pa.Schema, places: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([*columns, places], schema=schema.append(pa.field(PLACE, pa.int64())))


def _bad(part: Part, place: int, fault: str) -> InputError:
    return InputError(f"{part.file.shown}, {SOURCES[part.file.format].where(part, place)}: {fault}")


@contextmanager
def _named(part: Part) -> Iterator[None]:
    """Adds the name of the file to errors of reading."""
    try:
        yield
    except InputError:
        raise
    except EOFError as error:
        raise InputError(f"{part.file.shown} is cut off") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{part.file.shown}: {getattr(error, 'strerror', None) or error}") from error
