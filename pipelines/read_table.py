"""Tables from files in which changes are in the envelopes of the tools that capture them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
import pyarrow.json
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.content import Emit
from beam_joins.pipelines.changelog_files.changelog import find_changelog
from beam_joins.pipelines.changelog_files.columns import OPERATION, ORDER, POSITION, TIME, Envelopes, enveloped
from beam_joins.pipelines.changelog_files.envelopes.lines import Marked
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import Part
from beam_joins.pipelines.changelog_files.formats import ENVELOPES
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.transforms.engine.arrow_input import as_arrow
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.table_from_changelog import TableFromChangelog

EnvelopeFormat = Literal["debezium", "wal2json", "maxwell"]
_MARKS = pa.schema([(OPERATION, pa.string()), (TIME, pa.int64()), (POSITION, pa.int64()), (ORDER, pa.int64())])


class ReadTable(beam.PTransform[PBegin, Any]):
    """The table of a changelog in files of JSON lines with envelopes, whose format says what is key, event time, sequence and delete.

    * ``pattern``: a path or a glob, on any filesystem that Beam knows; also ``.gz``, ``.bz2`` and ``.zst``.
    * ``format``: ``"debezium"`` (with a schema or without, or unwrapped), ``"wal2json"`` (formats 1 and 2) or ``"maxwell"``. Changes of one
      transaction have one position where the format tells transactions apart (``docs/orders_command.md`` has a table).
    * ``table``: the table whose rows count, by its full name or the last part of it; by default all rows of the files.
    * ``key``: the columns of the primary key, by default those that the first change names.
    * ``schema``: the columns of the values. Values are typed columns then, and a value that does not fit its column fails the run. Without it
      they are dicts, their numbers exact.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.

    Raises ``ValueError`` at construction for a wrong option, and :class:`~beam_joins.pipelines.command.input_error.InputError`, a ``ValueError`` too, if no
    file matches, one cannot be read, the key is not known, or no row has a column of ``schema``; and in the run, naming file and line, for a line that is none of the format.

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
        schema: pa.Schema | None = None,
        emit: Emit = "updates",
    ) -> None:
        super().__init__()
        choice("format", format, EnvelopeFormat)
        given = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        name = table or "changelog"
        self._changelog = find_changelog(name, pattern, enveloped(name), (), Envelopes(format, table, given))
        for column in () if schema is None else schema.names:  # Arrow would make a column of nulls of a name with a typo
            self._changelog.require("schema=", column)
        self._schema = None if schema is None else pa.schema([*schema, *_MARKS])
        self._emit: Emit = emit

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        parts = begin | "Parts" >> beam.Create(self._changelog.parts(), reshuffle=False) | "Spread" >> beam.Reshuffle()
        if self._schema is None:
            rows = parts | "Read" >> beam.FlatMap(_dicts)
        else:
            batches = parts | "Read" >> beam.FlatMap(_batches, self._schema).with_output_types(pa.RecordBatch)
            rows = as_arrow(batches, self._schema, size=self._changelog.bytes)
        key = self._changelog.files[0].key
        table: PCollection[Any] = rows | "Table" >> TableFromChangelog(
            key=key[0] if len(key) == 1 else list(key),
            timestamp_by=TIME,
            sequence_by=[POSITION, ORDER],
            apply_as_deletes={OPERATION: ["d"]},
            except_columns=_MARKS.names,
            emit=self._emit,
        )
        return table


def _dicts(part: Part) -> Iterator[dict[str, Any]]:
    """The rows of a part, with columns for what their envelopes say."""
    for marked in _read(part):
        for text, place in zip(marked.texts, marked.places, strict=True):
            row = object_of(text)
            if isinstance(row, str):
                raise _bad(part, place, row)
            yield row


def _batches(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same in columns of these types."""
    for marked in _read(part):
        if marked.texts:
            try:
                yield from _parsed(marked.texts, schema).to_batches()
            except pa.ArrowInvalid:
                for text, place in zip(marked.texts, marked.places, strict=True):
                    try:
                        _parsed([text], schema)
                    except pa.ArrowInvalid as error:
                        raise _bad(part, place, f"{error}") from None
                raise


def _read(part: Part) -> Iterator[Marked]:
    try:
        for marked in ENVELOPES[part.file.format].marked(part):
            for n, fault in marked.faults.items():
                raise _bad(part, marked.places[n], fault)
            yield marked
    except (OSError, EOFError) as error:
        raise InputError(f"{part.file.shown}: {'is cut off' if isinstance(error, EOFError) else error}") from error


def _parsed(texts: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    data = b"\n".join(texts)
    options = pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore")
    return pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1), options)


def _bad(part: Part, place: int, fault: str) -> InputError:
    return InputError(f"{part.file.shown}, {ENVELOPES[part.file.format].where(part, place)}: {fault}")
