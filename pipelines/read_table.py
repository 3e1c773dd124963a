"""Tables from files in which changes are in the envelopes of the tools that capture them."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.content import Emit
from beam_joins.functions import vectorized
from beam_joins.pipelines.changelog_files.changelog import find_changelog
from beam_joins.pipelines.changelog_files.columns import OPERATION, ORDER, POSITION, TIME, Envelopes, enveloped
from beam_joins.pipelines.changelog_files.envelopes.enveloped import Marked
from beam_joins.pipelines.changelog_files.envelopes.look import together
from beam_joins.pipelines.changelog_files.envelopes.row_change import DELETE, TRUNCATE
from beam_joins.pipelines.changelog_files.envelopes.typed_texts import typed
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import Part
from beam_joins.pipelines.changelog_files.formats import ENVELOPES
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.transforms.engine.arrow_input import as_arrow
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.table_from_changelog import TableFromChangelog

EnvelopeFormat = Literal["debezium", "wal2json", "maxwell"]
_log = logging.getLogger(__name__)
MARKS = pa.schema([(OPERATION, pa.string()), (TIME, pa.int64()), (POSITION, pa.int64()), (ORDER, pa.int64())])
"""The columns for what envelopes say."""


class ReadTable(beam.PTransform[PBegin, Any]):
    """The table of a changelog in files with envelopes, whose format says what is key, event time, sequence and delete.

    * ``pattern``: a path or a glob, on any filesystem that Beam knows; lines of JSON, also ``.gz``, ``.bz2`` and ``.zst``, and for Debezium ``.avro`` and ``.parquet``.
    * ``format``: ``"debezium"`` (with a schema or without, or unwrapped), ``"wal2json"`` (formats 1 and 2) or ``"maxwell"``. Changes of one
      transaction have one position where the format tells transactions apart (``docs/databases.md`` has a table).
    * ``table``: the table whose rows count, by its full name or the last part of it; by default all rows of the files.
    * ``key``: the columns of the primary key, by default those that the first change names. A dot leads into a nested column: ``"customer.id"``.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``. By default, ``"said"``, those of the types that the envelopes say: Debezium's schemas, wal2json's column types.
      Values are typed columns then, and a value that does not fit its column fails the run. Where the envelopes say no types, or with ``None``, they are dicts, their numbers
      exact.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.

    Raises ``ValueError`` at construction for a wrong option, and :class:`~beam_joins.pipelines.command.input_error.InputError`, a ``ValueError`` too, if no
    file matches, one cannot be read, the key is not known, or no row has a column of ``schema``; and in the run, naming file and line, for a line that is none of the format,
    and for a row with other columns than the first 10,000 said. Records about no row are counted (``skipped_transaction_metadata``, ... in the namespace ``beam_joins``).

    >>> import tempfile
    >>> from beam_joins import TableToChanges
    >>> line = b'{"op": "c", "after": {"id": 1, "price": 1.50}, "source": {"table": "products", "lsn": 7, "ts_ms": 5}}'
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file, beam.Pipeline() as pipeline:
    ...     _, _ = file.write(line), file.flush()
    ...     products = pipeline | ReadTable(file.name, format="debezium", table="products", key="id")
    ...     _ = products | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'id': 1, 'price': 1.5}, timestamp=5000, position=7)
    """

    def __init__(
        self,
        pattern: str,
        *,
        format: EnvelopeFormat,
        table: str = "",
        key: str | Sequence[str] | None = None,
        schema: pa.Schema | Literal["said"] | None = "said",
        emit: Emit = "updates",
    ) -> None:
        super().__init__()
        choice("format", format, EnvelopeFormat)
        given = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if not (schema is None or schema == "said" or isinstance(schema, pa.Schema)):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema, 'said' or None")
        name, columns = table or "changelog", schema if isinstance(schema, pa.Schema) else None
        tops = tuple(dict.fromkeys(column.partition(".")[0] for column in given))
        self._changelog = find_changelog(name, pattern, enveloped(name), (), Envelopes(format, table, tops, columns))
        self._key = list(given or self._changelog.files[0].key)
        said = self._changelog.said
        self._expected = together(name, said.types) if schema == "said" and said.types else None
        known = self._expected if columns is None else columns
        for column in () if columns is None else columns.names:  # Arrow would make a column of nulls of a name with a typo
            self._changelog.require("schema=", column)
        if self._expected is not None:
            for column in tops:
                self._changelog.require("key=", column)
        if said.doubt and columns is None:
            _log.warning("%s", said.doubt)
        self._schema = None if known is None else pa.schema([*known, *MARKS])
        self._emit: Emit = emit

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        parts = begin | "Parts" >> beam.Create(self._changelog.parts(), reshuffle=False) | "Spread" >> beam.Reshuffle()
        if self._schema is None:
            rows = parts | "Read" >> beam.FlatMap(_dicts)
        else:
            batches = parts | "Read" >> beam.FlatMap(_batches, self._schema, self._expected).with_output_types(pa.RecordBatch)
            rows = as_arrow(batches, self._schema, size=self._changelog.bytes)
        table: PCollection[Any] = rows | "Table" >> marked_table(self._key, emit=self._emit, in_columns=self._schema is not None)
        return table


def marked_table(key: list[str], *, emit: Emit, in_columns: bool) -> TableFromChangelog:
    """The table of rows with columns for what their envelopes say, given the columns of its key."""
    return TableFromChangelog(
        key=_key_of(key, in_columns=in_columns),
        timestamp_by=TIME,
        sequence_by=[POSITION, ORDER],
        apply_as_deletes={OPERATION: [DELETE]},
        apply_as_truncates={OPERATION: [TRUNCATE]},
        except_columns=MARKS.names,
        emit=emit,
    )


def _dicts(part: Part) -> Iterator[dict[str, Any]]:
    """The rows of a part, with columns for what their envelopes say."""
    for marked in _read(part):
        for text, place in zip(marked.texts, marked.places, strict=True):
            row = object_of(text)
            if isinstance(row, str):
                raise _bad(part, place, row)
            yield row


def _batches(part: Part, schema: pa.Schema, expected: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The same in columns of these types."""
    for marked in _read(part, expected):
        if marked.texts:
            try:
                yield typed(marked.texts, schema)
            except ValueError:
                for text, place in zip(marked.texts, marked.places, strict=True):
                    try:
                        typed([text], schema)
                    except ValueError as error:
                        raise _bad(part, place, f"{error}") from None
                raise


def _read(part: Part, expected: pa.Schema | None = None) -> Iterator[Marked]:
    marked = ENVELOPES[part.file.format].marked(part, expected)
    while True:
        try:
            some = next(marked, None)
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"{part.file.shown}: {'is cut off' if isinstance(error, EOFError) else error}") from error
        if some is None:
            return
        for n, fault in some.faults.items():
            raise _bad(part, some.places[n], fault)
        yield some


def _key_of(names: list[str], *, in_columns: bool) -> Any:
    """The key of a row, given the names of its columns, of which some may lie within others."""
    if not any("." in name for name in names):
        return names[0] if len(names) == 1 else names
    paths = [name.split(".") for name in names]
    return vectorized(partial(_nested_columns, paths)) if in_columns else partial(_nested_values, paths)


def _nested_values(paths: list[list[str]], row: Any) -> Any:
    key = tuple(reduce(lambda value, name: None if value is None else value.get(name), path, row) for path in paths)
    return key[0] if len(key) == 1 else None if None in key else key


def _nested_columns(paths: list[list[str]], rows: pa.RecordBatch) -> pa.Array:
    columns = [pc.struct_field(rows[path[0]], path[1:]) if path[1:] else rows[path[0]] for path in paths]
    if len(columns) == 1:
        return columns[0]
    missing = reduce(pc.or_, (column.is_null() for column in columns))
    return pa.StructArray.from_arrays(columns, names=[".".join(path) for path in paths], mask=missing)


def _bad(part: Part, place: int, fault: str) -> InputError:
    return InputError(f"{part.file.shown}, {ENVELOPES[part.file.format].where(part, place)}: {fault}")
